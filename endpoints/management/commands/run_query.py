"""Run an endpoint from the command line, as the operator: no access token, no bound arguments."""

from __future__ import annotations

import csv
import io
import os
import shutil
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser, OutputWrapper

from endpoints.calling.calls import run_endpoint
from endpoints.calling.query_requests import Call
from endpoints.management.failures import USAGE_EXIT_CODE, one_line_failures
from endpoints.management.text_tables import format_rows
from endpoints.results.outcomes import ResultFormat
from endpoints.sql.parameters import RawValue

_FORMATS = {"json": ResultFormat.JSON, "csv": ResultFormat.CSV, "ndjson": ResultFormat.NDJSON}


class Command(BaseCommand):
    help = (
        "Run an endpoint and print its rows. "
        "Example: manage.py run_query logs.all project=acme iso_timestamp_start=2025-06-02 --format table. "
        "To run your own query under the rules for consumers: manage.py run_query logs.all project=acme "
        "--sql 'select count(*) from auth_logs' or --lql 'm.response.status_code:>=500 c:count(*)'"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("endpoint", help="name or UUID")
        parser.add_argument("arguments", nargs="*", metavar="NAME=VALUE", help="an argument; repeat NAME for a list")
        parser.add_argument(
            "--format",
            choices=["table", *_FORMATS],
            default="table",
            help="default: %(default)s, as wide as the terminal (or COLUMNS); long values are cut",
        )
        parser.add_argument("--sql", default="", help="a sandbox query to run instead of the stored final query")
        parser.add_argument("--lql", default="", help="the same in LQL, such as 'm.response.status_code:>=500'")
        parser.add_argument("--redact", action="store_true", help="redact IP addresses and e-mail addresses")

    def handle(self, *args: Any, **options: Any) -> None:
        values, repeated = _arguments(options["arguments"])
        call = Call(
            arguments=values,
            repeated_names=repeated,
            sandbox_sql=options["sql"] if options["sql"].strip() else "",
            sandbox_lql=options["lql"] if options["lql"].strip() else "",
            redact=options["redact"],
            format=_FORMATS.get(options["format"], ResultFormat.CSV),
        )
        with one_line_failures():
            outcome = run_endpoint(options["endpoint"], call=call).outcome
        text = outcome.body.decode()
        _write(self.stdout, _table(text) if options["format"] == "table" else text)
        cut = ", cut at max rows" if outcome.truncated else ""
        rows = "1 row" if outcome.row_count == 1 else f"{outcome.row_count} rows"
        self.stderr.write(f"{rows}{cut}, in {outcome.database_seconds:.3f} s")


def _table(text: str) -> str:
    csv.field_size_limit(sys.maxsize)  # a JSON value may be larger than the default, 128 KiB
    header, *rows = csv.reader(io.StringIO(text, newline=""))
    return format_rows(header, rows, width=shutil.get_terminal_size().columns)


def _write(stdout: OutputWrapper, text: str) -> None:
    try:
        stdout.write(text, ending="" if text.endswith("\n") else "\n")
        stdout.flush()
    except BrokenPipeError as error:
        # For example `| head`, which has read enough. Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(141) from error  # 128 + SIGPIPE, as the shell reports it


def _arguments(pairs: list[str]) -> tuple[dict[str, RawValue], frozenset[str]]:
    values: dict[str, list[str]] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise CommandError(
                f"An argument is written NAME=VALUE, such as project=acme; not {pair!r}.", returncode=USAGE_EXIT_CODE
            )
        values.setdefault(name, []).append(value)
    repeated = frozenset(name for name, sent in values.items() if len(sent) > 1)
    return {name: list(sent) if len(sent) > 1 else sent[0] for name, sent in values.items()}, repeated
