"""The project that a load reads from metadata is the one that PostgreSQL's own `#>>` reads from the stored jsonb."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import Connection, sql

from logsources.ndjson import BadJSON, parse_line
from logsources.rows import BadRow, read_row

pytestmark = [pytest.mark.django_db(databases=["default", "logs"]), pytest.mark.sql]
NOW = datetime(2025, 6, 2, tzinfo=UTC)
PATH = """lax $."tenant"."ref" ? (@.type() == "string" || @.type() == "number" && @.floor() == @
    && @.abs() < 1000000000000000000)"""
ASK = sql.SQL(
    "SELECT CASE WHEN length(project) <= 255 THEN project END"
    " FROM (SELECT jsonb_path_query_first(%s::jsonb, {}, '{{}}', true) #>> '{{}}' AS project) AS t"
).format(sql.Literal(PATH))

NUMBERS = (
    *("0", "-0", "-0.0", "7", "-7", "2.0", "2.50", "4.2", "1e3", "1E3", "10e-1", "12e-1", "0e5", "0e-5", "1e16"),
    *("1e17", "999999999999999999", "-999999999999999999", "1000000000000000000", "-1000000000000000000", "1e18"),
    *("-1e18", "9007199254740993", "9223372036854775808", "1e400", "1e-400", f"123456789012345678.{'0' * 300}"),
    *("999999999999999999.0", "123456789012345678.00", "123456789012345678.50", "1.234567890123456780e17", "1e-7"),
    "12345678901234567.8e1",
)  # fmt: skip
TEXTS = (
    "",
    "acme",
    "4.2",
    "naïve 🎈",
    "line\nbreak",
    '"',
    "\\",
    " ",
    "null",
    "x" * 255,
    "x" * 256,
    "🎈" * 255,
    "🎈" * 256,
)
OTHERS = ("null", "true", "false", "[]", "{}", '{"a": "acme"}')
VALUES = (*NUMBERS, *map(json.dumps, TEXTS), *OTHERS)
ARRAYS = tuple(
    f"[{', '.join(items)}]"
    for items in (
        ('"acme"',),
        ('""', '"acme"'),
        ("null", "true", "4.2", '"acme"'),
        ("2.0", '"acme"'),
        (json.dumps("x" * 256), '"acme"'),
        ('["acme"]',),
        ('["acme"]', '"globex"'),
        ('{"a": 1}', "7"),
    )
)
METADATA = (
    *(f'{{"tenant": {{"ref": {value}}}}}' for value in (*VALUES, *ARRAYS)),
    *('{"ref": "acme"}', '{"tenant": "acme"}', '{"tenant": null}', '{"tenant": {}}', "[]", "null"),
    '[{"a": 1}, {"tenant": {"ref": "acme"}}]',
    '[{"tenant": {"ref": null}}, {"tenant": {"ref": "acme"}}]',
    '{"tenant": [{"ref": true}, {"ref": "acme"}, {"ref": "globex"}]}',
    '{"tenant": [[{"ref": "acme"}]]}',
    '{"tenant": [[[{"ref": "acme"}]]]}',
    '{"tenant": {"ref": "acme", "ref": "globex"}}',
)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=3)
ANYTHING = st.recursive(
    st.sampled_from(VALUES) | TEXT.map(json.dumps) | st.integers().map(str),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | inner.map(lambda value: f'{{"ref": {value}}}')
        | inner.map(lambda value: f'{{"tenant": {value}}}')
    ),
    max_leaves=5,
)


def project_of_load(metadata: str) -> tuple[str | None, bytes] | None:
    """Return the project and the metadata as they are stored; None for a row that cannot be stored anyway."""
    try:
        raw: Any = parse_line(f'{{"event_message": "m", "metadata": {metadata}}}'.encode())
        row = read_row(raw, project_path="tenant.ref", now=NOW)
    except BadJSON:
        return None
    except BadRow as fault:
        if "(tenant.ref)" not in fault.reason:
            return None
        stored = read_row({**raw, "project": "-"}, project_path=None, now=NOW)
        return ("" if "is empty" in fault.reason else None), stored.metadata_json
    return row.project, row.metadata_json


def assert_alike(logs: Connection[Any], metadata: str) -> None:
    found = project_of_load(metadata)
    if found is not None:
        project, stored = found
        assert logs.execute(ASK, [stored.decode()]).fetchone() == (project,), orjson.loads(stored)


@pytest.mark.parametrize("metadata", METADATA)
def test_reads_the_project_as_postgresql_does(logs: Connection[Any], metadata: str) -> None:
    assert project_of_load(metadata) is not None
    assert_alike(logs, metadata)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ANYTHING)
def test_reads_the_project_of_any_metadata_as_postgresql_does(logs: Connection[Any], metadata: str) -> None:
    assert_alike(logs, metadata)
