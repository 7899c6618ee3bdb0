"""The Celery application: `celery -A config worker`, `celery -A config beat`."""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

app = Celery("config", task_cls="endpoints.calling.scheduled_runs:NotedTask")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
