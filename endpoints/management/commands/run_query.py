"""Run an endpoint from the command line, as the operator: no access token, no bound arguments."""

from __future__ import annotations

import csv
import io
import os
import shutil
import sys
from typing import Any, BinaryIO, cast

from django.core.management.base import CommandError, CommandParser, OutputWrapper

from endpoints.calling.cached_results import CacheState
from endpoints.calling.calls import find_endpoint, run_endpoint
from endpoints.calling.query_requests import Call
from endpoints.management.failures import USAGE_EXIT_CODE, one_line_failures, without_log_lines
from endpoints.management.text_tables import format_rows
from endpoints.results.encoding import BINARY_FORMATS, offered_formats
from endpoints.results.outcomes import ResultFormat
from endpoints.sql.parameters import RawValue
from logsources.management.own_command import OwnCommand

_OF_EVERY_ENDPOINT = frozenset({"page_size", "page_token", "tail"})  # they ask for pages and tails
_FORMATS = {result_format.name.lower(): result_format for result_format in ResultFormat}


class Command(OwnCommand):
    help = "Run an endpoint and print its rows."
    examples = (
        "python manage.py run_query logs.all project=acme iso_timestamp_start=2025-06-02 --format table",
        "python manage.py run_query logs.all project=acme --sql 'select count(*) from auth_logs'",
        "python manage.py run_query logs.all project=acme --lql 'm.response.status_code:>=500 c:count(*)'",
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("endpoint", help="name or UUID")
        parser.add_argument(
            "arguments", nargs="*", default=[], metavar="NAME=VALUE", help="an argument; repeat NAME for a list"
        )
        parser.add_argument(
            "--format",
            choices=["table", *_FORMATS],
            default="table",
            help="default: %(default)s, as wide as the terminal (or COLUMNS); long values are cut; "
            "parquet and arrow are for a file, such as --format parquet > rows.parquet",
        )
        parser.add_argument("--sql", default="", help="a sandbox query to run instead of the stored final query")
        parser.add_argument("--lql", default="", help="the same in LQL, such as 'm.response.status_code:>=500'")
        parser.add_argument("--redact", action="store_true", help="redact IP addresses and e-mail addresses")

    def handle(self, *args: Any, **options: Any) -> None:
        values, repeated = _arguments(options["arguments"])
        result_format = _FORMATS.get(options["format"], ResultFormat.CSV)
        if result_format in BINARY_FORMATS:
            _check_binary(options["format"], self.stdout)
        call = Call(
            arguments=values,
            repeated_names=repeated,
            sandbox_sql=options["sql"] if options["sql"].strip() else "",
            sandbox_lql=options["lql"] if options["lql"].strip() else "",
            redact=options["redact"],
            format=result_format,
        )
        with one_line_failures(), without_log_lines():
            answer = run_endpoint(options["endpoint"], call=call)
            outcome, served = answer.outcome, answer.served
            declared = {parameter.name for parameter in find_endpoint(options["endpoint"]).parameters}
        if result_format in BINARY_FORMATS:
            _write(self.stdout, outcome.body)
        else:
            text = outcome.body.decode()
            _write(self.stdout, _as_table(text) if options["format"] == "table" else text)
        cut = ", cut at max rows" if outcome.truncated else ", stopped by its own LIMIT" if outcome.at_own_limit else ""
        rows = "1 row" if outcome.row_count == 1 else f"{outcome.row_count} rows"
        stale = f", stale: {served.age_seconds:.0f} s old" if served.state is CacheState.STALE else ""
        self.stderr.write(f"{rows}{cut}{stale}, in {outcome.database_seconds:.3f} s")
        if outcome.next_page:
            self.stderr.write(f"next page: page_token={outcome.next_page}")
        for note in outcome.notes:
            self.stderr.write(note)
        if ignored := sorted(values.keys() - declared - _OF_EVERY_ENDPOINT):
            self.stderr.write(
                f"Ignored: {', '.join(ignored)}. The parameters are: {', '.join(sorted(declared)) or 'none'}."
            )


def _as_table(text: str) -> str:
    csv.field_size_limit(sys.maxsize)  # a JSON value may be larger than the default, 128 KiB
    header, *rows = csv.reader(io.StringIO(text, newline=""))
    return format_rows(header, rows, width=shutil.get_terminal_size().columns)


def _check_binary(name: str, stdout: OutputWrapper) -> None:
    """Raise CommandError if a binary format cannot be written, or would be written to a terminal."""
    if _FORMATS[name] not in offered_formats():
        raise CommandError(
            f"--format {name} needs pyarrow, which is not installed here: install the packages of requirements.lock.",
            returncode=USAGE_EXIT_CODE,
        )
    if stdout.isatty():
        raise CommandError(
            f"--format {name} is binary, not for a terminal. Write it to a file: --format {name} > rows.{name}.",
            returncode=USAGE_EXIT_CODE,
        )


def _write(stdout: OutputWrapper, body: str | bytes) -> None:
    try:
        if isinstance(body, bytes):
            cast(BinaryIO, stdout.buffer).write(body)
        else:
            stdout.write(body, ending="" if body.endswith("\n") else "\n")
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
                f"An argument must be NAME=VALUE, such as project=acme; not {pair!r}.", returncode=USAGE_EXIT_CODE
            )
        values.setdefault(name, []).append(value)
    repeated = frozenset(name for name, sent in values.items() if len(sent) > 1)
    return {name: list(sent) if len(sent) > 1 else sent[0] for name, sent in values.items()}, repeated
