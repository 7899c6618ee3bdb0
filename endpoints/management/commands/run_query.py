"""Run an endpoint from the command line, as the operator: no access token, no bound arguments."""

from __future__ import annotations

import csv
import io
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.console import Console
from rich.table import Table

from endpoints.errors import EndpointError
from endpoints.outcomes import ResultFormat
from endpoints.services import Call, run_endpoint
from endpoints.sql.parameters import RawValue

_FORMATS = {"json": ResultFormat.JSON, "csv": ResultFormat.CSV, "ndjson": ResultFormat.NDJSON}


class Command(BaseCommand):
    help = (
        "Run an endpoint and print its rows. "
        "Example: manage.py run_query logs.all project=acme iso_timestamp_start=2025-06-02 --format table"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("endpoint", help="name or UUID")
        parser.add_argument("arguments", nargs="*", metavar="NAME=VALUE", help="an argument; a list repeats its name")
        parser.add_argument(
            "--format", choices=["table", *_FORMATS], default="table", help="default: %(default)s", dest="format"
        )
        parser.add_argument("--redact", action="store_true", help="redact addresses and e-mail addresses")

    def handle(self, *args: Any, **options: Any) -> None:
        values, repeated = _arguments(options["arguments"])
        call = Call(
            arguments=values,
            repeated_names=repeated,
            redact=options["redact"],
            format=_FORMATS.get(options["format"], ResultFormat.CSV),
        )
        try:
            outcome = run_endpoint(options["endpoint"], call=call).outcome
        except EndpointError as error:
            details = "".join(
                "\n  " + ", ".join(f"{name}: {value}" for name, value in detail.items()) for detail in error.details
            )
            raise CommandError(f"{error.code}: {error.message}{details}") from error
        if options["format"] == "table":
            self._print_table(outcome.body.decode())
        else:
            self.stdout.write(outcome.body.decode(), ending="" if outcome.body.endswith(b"\n") else "\n")
        cut = " (cut at max rows)" if outcome.truncated else ""
        self.stderr.write(f"{outcome.row_count} rows{cut} in {outcome.database_seconds:.3f} s")

    def _print_table(self, text: str) -> None:
        header, *rows = csv.reader(io.StringIO(text, newline=""))
        table = Table(show_lines=False)
        for name in header:
            table.add_column(name, overflow="ellipsis", no_wrap=True)
        for row in rows:
            table.add_row(*row)
        Console(file=self.stdout if not sys.stdout.isatty() else sys.stdout, markup=False).print(table)


def _arguments(pairs: list[str]) -> tuple[dict[str, RawValue], frozenset[str]]:
    values: dict[str, list[str]] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise CommandError(f"An argument is written NAME=VALUE, such as project=acme; not {pair!r}.")
        values.setdefault(name, []).append(value)
    repeated = frozenset(name for name, sent in values.items() if len(sent) > 1)
    return {name: list(sent) if len(sent) > 1 else sent[0] for name, sent in values.items()}, repeated
