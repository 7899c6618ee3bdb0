"""Remove cached results from the command line."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from endpoints.calling.calls import visible_endpoints
from endpoints.calling.purging import purge_cache
from endpoints.management.failures import USAGE_EXIT_CODE, one_line_failures, without_log_lines
from logsources.management.own_command import OwnCommand


class Command(OwnCommand):
    help = "Remove the cached results of endpoints; the next call runs the query."
    examples = ("python manage.py purge_cache usage.api-counts",)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("endpoint", nargs="*", default=[], help="name or UUID")
        parser.add_argument("--all", action="store_true", help="remove the results of every endpoint")

    def handle(self, *args: Any, **options: Any) -> None:
        if bool(options["endpoint"]) == options["all"]:
            raise CommandError("Name the endpoints, or use --all.", returncode=USAGE_EXIT_CODE)
        with one_line_failures(), without_log_lines():
            references = (
                [endpoint.name for endpoint in visible_endpoints(None)] if options["all"] else options["endpoint"]
            )
            for reference in references:
                purged = purge_cache(reference)
                results = "1 result" if purged.results == 1 else f"{purged.results} results"
                self.stdout.write(f"{purged.endpoint_name}: {results} removed")
