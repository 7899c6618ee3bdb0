"""What commands print, on which stream, and how they end, over the installation that is recorded."""

from __future__ import annotations

import io
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest
from django.core.management import CommandError, call_command

from tests.recorded.recordings import assert_recorded, masked

pytestmark = pytest.mark.django_db(databases=["default", "logs"])
# One after another; {folder} is an empty one at first.
COMMANDS: Final = (
    "run_query recorded.types",
    "run_query recorded.types --format json",
    "run_query recorded.types --format csv",
    "run_query recorded.types --format ndjson",
    "run_query recorded.rows n=1 word=a words=b words=c",
    "run_query recorded.rows n=x level=odd",
    "run_query recorded.rows n=1 n=2",
    "run_query recorded.rows n",
    "run_query recorded.many",
    "run_query recorded.fails n=0",
    "run_query recorded.slow",
    "run_query recorded.none",
    "run_query logs.all project=acme page_size=2 --format csv",
    "run_query logs.all project=acme --sql 'select id, event_message from edge_logs order by id'",
    "run_query logs.all project=acme --lql 's:event_message' --redact",
    "run_query logs.all project=acme --sql 'select nothing from edge_logs'",
    "run_query logs.all project=acme --sql 'select 1' --lql c:count(*)",
    "list_access_tokens",
    "list_access_tokens --state revoked --format json",
    "create_access_token reader --endpoint logs.all --bind project=acme --expires-in 30d --calls-a-minute 60",
    "create_access_token writer --no-endpoints --may-load edge_logs,auth_logs --default-project shop",
    "create_access_token reader --endpoint none",
    "create_access_token reader --bind project",
    "create_access_token reader --bind nothing=1",
    "create_access_token reader --no-endpoints",
    "create_access_token reader --expires-in soon",
    "create_access_token reader --no-endpoints --may-load none",
    "revoke_access_token purger",
    "revoke_access_token purger",
    "revoke_access_token writer --format json",
    "revoke_access_token nobody",
    "list_access_tokens --state valid",
    "list_access_tokens --state revoked",
    "export_endpoints {folder}/exported",
    "import_endpoints {folder}/exported",
    "import_endpoints {folder}/edited --dry-run",
    "import_endpoints {folder}/edited",
    "import_endpoints {folder}/edited",
    "import_endpoints {folder}/faulty",
    "import_endpoints {folder}",
    "import_endpoints {folder}/missing",
    "purge_cache recorded.cached",
    "purge_cache none",
    "purge_cache",
    "warm_cache",
    "warm_cache recorded.cached",
    "warm_cache none",
    "load_logs edge_logs {folder}/rows.ndjson",
    "load_logs edge_logs {folder}/rows.ndjson",
    "load_logs edge_logs {folder}/bad.ndjson",
    "load_logs edge_logs {folder}/bad.ndjson --skip-bad-lines",
    "load_logs none {folder}/rows.ndjson",
    "load_logs edge_logs {folder}/missing.ndjson",
    "sync_roles",
    "load_fixtures",
    "repair_logs",
    "check_sandbox",
    "harden_logs --dry-run",
    "distribute_logs --dry-run",
    "generate_logs --rows 120 --days 2 --seed recorded --until 2025-06-02T12:00",
    "generate_logs --rows 120 --days 2 --seed recorded --until 2025-06-02T12:00",
    "generate_logs --rows 7 --source rest_logs --source pooler_logs --projects shop --seed recorded --until 2025-06-02",
    "generate_logs --rows 2 --source rest_logs --seed recorded --until 2025-06-02 --output {folder}/made.ndjson",
    "generate_logs --rows 2 --seed recorded --output -",
    "generate_logs --rows 2 --source rest_logs --seed recorded --output {folder}/missing/made.ndjson",
    "generate_logs --rows 0 --seed recorded",
    "generate_logs --rows -1",
    "generate_logs --rows many",
    "generate_logs --days 0",
    "generate_logs --days 3651",
    "generate_logs --days some",
    "generate_logs --until tomorrow",
    "generate_logs --projects 'Acme Inc'",
    "generate_logs --source none",
    "roll_partitions --days-ahead 0",
    "roll_partitions --days-ahead 0",
    "roll_partitions --days-ahead some",
)
EXPORTED: Final = ("logs.all", "recorded.rows", "recorded.stream")  # whose files are recorded too
ANY_LINE: Final = re.compile("")
# Advice is about the machine and the server.
RECORDED_LINES: Final = {"check_sandbox": re.compile(r"(pass|FAIL)  (row_security|full) ")}
ROW: Final = '{"id": "%d", "timestamp": "2025-06-02T08:15:02Z", "project": "acme", "event_message": "m"}\n'
FILES: Final = {
    "rows.ndjson": ROW % 1 + ROW % 2 + '{"project": "acme", "event_message": "bare"}\n',
    "bad.ndjson": ROW % 3 + "no JSON\n" + '{"id": 7}\n',
    "edited/large.sql": '/* endpoint\nname = "recorded.large"\nmax_rows = 7\n*/\nSELECT 7 AS n\n',
    "edited/new.sql": '/* endpoint\nname = "recorded.new"\n*/\nSELECT 1 AS one\n',
    "faulty/new.sql": '/* endpoint\nname = "recorded.faulty"\n*/\nSELECT one\nFROM logs.edge_logs\n',
}


def run(words: list[str]) -> Iterator[str]:
    """Yield what a command prints, its standard output first, and the error that ends it."""
    stdout, stderr, ended = io.StringIO(), io.StringIO(), ""
    try:
        call_command(*words, stdout=stdout, stderr=stderr, no_color=True)
    except CommandError as error:
        ended = f"(exit {error.returncode}) {error}"
    yield from stdout.getvalue().splitlines()
    yield from (f"(stderr) {line}" for line in stderr.getvalue().splitlines())
    yield from ended.splitlines()


def test_commands_print_what_is_recorded(
    secrets: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    call_command("repair_logs", stdout=io.StringIO())  # the database of a test run is open to PUBLIC
    lines = []
    for command in COMMANDS:
        lines.append(f"$ manage.py {command}")
        printed = run(shlex.split(command.format(folder=tmp_path)))
        wanted = RECORDED_LINES.get(command, ANY_LINE)
        lines += (masked(line.replace(str(tmp_path), "{folder}")) for line in printed if wanted.match(line))
        lines.append("")
    for name in EXPORTED:
        lines += [f"{name}.sql:", *(tmp_path / "exported" / f"{name}.sql").read_text().splitlines(), ""]
    assert_recorded("commands.txt", lines)
