"""The attack and legit cases: what must be refused is, what must pass does, and what passes is harmless."""

from __future__ import annotations

import json

import pytest

from endpoints.errors import EndpointError
from endpoints.sql.sandbox import SandboxTable, check_sandbox_query
from tests.files import CASES
from tests.fuzz.oracle import complaints, parses

COLUMNS = ("id", "timestamp", "event_message", "metadata")
NAMES = ("edge_logs", "auth_logs", "database_logs", "function_logs", "function_edge_logs", "storage_logs")
TABLES = tuple(SandboxTable(name, COLUMNS) for name in NAMES)


def cases(name, *expectations):
    lines = (CASES / f"{name}.jsonl").read_text().splitlines()
    loaded = [json.loads(line) for line in lines]
    chosen = [case for case in loaded if not expectations or case["expect"] in expectations]
    return [pytest.param(case["sql"], id=case["id"]) for case in chosen]


@pytest.mark.parametrize("sql", cases("attacks", "reject"))
def test_refuses_attack(sql):
    with pytest.raises(EndpointError) as refusal:
        check_sandbox_query(sql, tables=TABLES)
    assert refusal.value.status in (400, 413)


@pytest.mark.parametrize("sql", cases("legit"))
def test_accepts_legit_query(sql):
    checked = check_sandbox_query(sql, tables=TABLES)
    statement = checked.statement({}, max_rows=100).sql
    assert parses(statement)
    assert complaints(statement, NAMES) == []


@pytest.mark.parametrize(
    ("sql", "emitted"),
    [
        ("select * from edge_logs where 1=1 -- ) q limit 10", 'SELECT * FROM "edge_logs" WHERE 1 = 1'),
        ("select 10 %(select 3) from edge_logs", 'SELECT 10 % ( SELECT 3 ) FROM "edge_logs"'),
        ("select 1 /* ) ; drop table x */ from edge_logs", 'SELECT 1 FROM "edge_logs"'),
    ],
)
def test_neutralises_by_writing_the_text_anew(sql, emitted):
    assert check_sandbox_query(sql, tables=TABLES).sql == emitted


@pytest.mark.parametrize("sql", cases("attacks", "reject-or-limit", "reject-or-neutralise"))
def test_refuses_costly_query_or_leaves_only_its_cost(sql):
    try:
        checked = check_sandbox_query(sql, tables=TABLES)
    except EndpointError:
        return
    assert parses(checked.sql)
    assert complaints(checked.statement({}, max_rows=100).sql, NAMES) == []


def test_refuses_all_but_the_purely_costly_attacks():
    passed = []
    for case in cases("attacks", "reject-or-limit"):
        try:
            check_sandbox_query(case.values[0], tables=TABLES)
        except EndpointError:
            continue
        passed.append(case.id)
    # A huge series twice, and cross joins spread over common table expressions.
    assert passed == ["A870", "A871", "A877"]
