"""Warm the cache of endpoints now, as their schedule does."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from endpoints.calling.calls import find_endpoint, visible_endpoints
from endpoints.calling.warming import WarmRun, warm_endpoint
from endpoints.management.failures import one_line_failures, without_log_lines
from logsources.management.own_command import OwnCommand


class Command(OwnCommand):
    help = "Renew the cached results that were requested within the caching period, as each endpoint's schedule does."
    examples = ("python manage.py warm_cache usage.api-counts",)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "endpoint", nargs="*", default=[], help="name or UUID; default: every endpoint with cache warming"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        with one_line_failures(), without_log_lines():
            if options["endpoint"]:
                found = [find_endpoint(reference) for reference in options["endpoint"]]
                chosen = [(endpoint.name, endpoint.pk) for endpoint in found]
            else:
                stored = visible_endpoints(None)
                chosen = [(endpoint.name, endpoint.pk) for endpoint in stored if endpoint.warm_every_seconds]
            if not chosen:
                self.stdout.write("No endpoint is warmed: set cache warming on one.")
            for name, endpoint_id in chosen:
                self.stdout.write(f"{name}: {_told(warm_endpoint(endpoint_id))}")


def _told(run: WarmRun) -> str:
    if run.skipped_because:
        return f"skipped, {run.skipped_because}"
    parts = [
        f"{run.warmed} renewed",
        f"{run.fresh_enough} fresh enough" if run.fresh_enough else "",
        f"{run.failed} failed" if run.failed else "",
        f"{run.backing_off} left alone after failures" if run.backing_off else "",
        f"{run.left_over} beyond the budget" if run.left_over else "",
    ]
    return f"{', '.join(filter(None, parts))}, in {run.seconds:.3f} s"
