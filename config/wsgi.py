"""The WSGI application: `config.serve`, or any other WSGI server, serves `config.wsgi:application`."""

from __future__ import annotations

import gc
import os
import threading

from django.conf import settings
from django.core.wsgi import get_wsgi_application

from config.exchanges import Application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

django = get_wsgi_application()

from endpoints.api.fast_path import FastPath  # noqa: E402  # its modules need Django set up
from endpoints.api.slow_bodies import ReadingPlaces  # noqa: E402
from endpoints.api.slow_clients import SlowClients  # noqa: E402
from endpoints.auditing.call_log import write_at_end  # noqa: E402
from endpoints.guarantees import keep_asking  # noqa: E402

application: Application = SlowClients(
    FastPath(django),
    ReadingPlaces(
        threads=settings.ENDPOINTS_WEB_THREADS,
        body_seconds=settings.ENDPOINTS_BODY_SECONDS,
        bytes_per_second=settings.ENDPOINTS_BODY_MIN_BYTES_PER_SECOND,
    ),
)
if settings.ENDPOINTS_SPANS:
    from config.spans import observe

    application = observe(application, version=settings.VERSION)
threading.Thread(target=keep_asking, args=(threading.Event(),), name="guarantees", daemon=True).start()
write_at_end()
# Everything loaded by now stays, so the collector need not look through it while calls are answered.
gc.freeze()
# A body of 90,000 attribute names makes a million objects: by the default the collector looks through all of them again
# and again, which took most of the time.
gc.set_threshold(50_000, 20, 20)
