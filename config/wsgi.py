"""The WSGI application: granian, or any other WSGI server, serves `config.wsgi:application`."""

from __future__ import annotations

import gc
import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

django = get_wsgi_application()

from endpoints.api.plain_calls import PlainCalls  # noqa: E402  # its modules need Django set up

application = PlainCalls(django)
# What is loaded by now stays: the collector need not look through it again while calls are answered.
gc.freeze()
