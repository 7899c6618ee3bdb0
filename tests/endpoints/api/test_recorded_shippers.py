"""The requests that real shippers and loggers have sent (`make test-shippers`), replayed: each line is stored once."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.test import Client

from endpoints.access.access_tokens import issue_access_token
from tests.endpoints.api.loads import in_chunks
from tests.files import CASES, PROJECT
from tests.shippers.sent import EXPECTED, PROGRAMS

pytestmark = pytest.mark.django_db
SHOWN = [path for path in sorted(PROGRAMS.iterdir()) if path.suffix in (".cjs", ".py", ".conf")]
RECORDED = sorted(path.stem for path in (CASES / "shippers").glob("*.jsonl"))
PAGES = "\n".join((PROJECT / "docs" / name).read_text(encoding="utf-8") for name in ("shippers.md", "otlp.md"))


@pytest.fixture
def client(log_database: psycopg.Connection[Any]) -> Client:
    """With the access token of the docs: one log source, a default project, and nothing else."""
    options: dict[str, Any] = {"may_load": True, "load_sources": ["edge_logs"], "default_project": "shop"}
    return Client(headers={"X-API-KEY": issue_access_token(name="shipper", no_endpoints=True, **options).secret})


def replay(client: Client, name: str) -> None:
    for line in (CASES / "shippers" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        body = case["body"].encode() if "body" in case else base64.b64decode(case["base64"])
        headers = dict(case["headers"])
        content_type = headers.pop("content-type")
        options = in_chunks(body) if case.get("in_chunks") else {}
        answer = client.post(case["path"], body, content_type=content_type, headers=headers, **options)
        assert answer.status_code == 200, answer.content
        assert b"partial" not in answer.content


@pytest.mark.parametrize("name", RECORDED)
def test_what_a_shipper_sent_is_stored_once(name: str, client: Client, log_database: psycopg.Connection[Any]) -> None:
    for _ in range(2):  # the second time as after answers that were lost
        replay(client, name)
    stored = log_database.execute("SELECT project, event_message, count(*) FROM logs.edge_logs GROUP BY 1, 2")
    assert {(project, message): count for project, message, count in stored} == {
        ("shop", message): count for message, count in EXPECTED.items()
    }


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("pino", "path", "/orders"),
        ("pino", "context,0,host", "web-1"),
        ("winston", "level", "info"),
        ("syslog_ng", "host", "web-1"),
        ("opentelemetry_javascript_http", "attributes,0,path", "/orders"),
        ("opentelemetry_javascript_proto", "resource,0,service,0,name", "shop"),
        ("opentelemetry_python_none", "severity_text", "INFO"),
        ("opentelemetry_python_gzip", "resource,0,telemetry,0,sdk,0,language", "python"),
    ],
)
def test_what_comes_with_a_line_is_in_metadata(
    name: str, path: str, value: str, client: Client, log_database: psycopg.Connection[Any]
) -> None:
    replay(client, name)
    found = log_database.execute(
        "SELECT DISTINCT metadata #>> %s::text[] FROM logs.edge_logs", [f"{{0,{path}}}"]
    ).fetchall()
    assert found == [(value,)]


@pytest.mark.parametrize("program", SHOWN, ids=lambda program: program.name)
def test_the_docs_show_the_configuration_that_was_run(program: Path) -> None:
    text = program.read_text(encoding="utf-8")
    comment = "//" if program.suffix == ".cjs" else "#"
    shown = text.partition(f"{comment} begin\n")[2].partition(f"{comment} end\n")[0].strip("\n") + "\n"
    assert shown
    assert "".join(f"    {line}\n" if line else "\n" for line in shown.splitlines()) in PAGES


def test_no_configuration_of_the_docs_loses_a_batch_to_one_bad_row() -> None:
    page = (PROJECT / "docs" / "shippers.md").read_text(encoding="utf-8")
    configurations = page[page.index("\n## Vector") : page.index("\n## How much")]
    addresses = re.findall(r'(?:logs\?source|sourceToken: ")[^\s"]+', configurations)
    assert len(addresses) == 5
    assert [address for address in addresses if "&bad_rows=skip" not in address] == []
