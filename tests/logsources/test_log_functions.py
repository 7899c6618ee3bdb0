"""The functions of ours in the log database: what they read, that no row fails them, who may call them, and how."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from django.conf import settings
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from logsources.allowed_functions import LOG_FUNCTIONS_SCHEMA, OWN_FUNCTIONS
from logsources.log_functions import FUNCTION_SCHEMA, GUARD_FUNCTIONS, LOG_FUNCTIONS, ensure_log_functions

pytestmark = pytest.mark.sql

CASES = [
    ("try_number(text)", "404", Decimal(404)),
    ("try_number(text)", " -1.5e3 ", Decimal(-1500)),
    ("try_number(text)", ".5", Decimal("0.5")),
    ("try_number(text)", "12 ms", None),
    ("try_number(text)", "NaN", None),
    ("try_number(text)", "", None),
    ("try_number(text)", "1e9999", None),
    ("try_number(text)", "9" * 400, None),
    ("try_number(jsonb)", "404", Decimal(404)),
    ("try_number(jsonb)", '"404"', Decimal(404)),
    ("try_number(jsonb)", "true", None),
    ("try_number(jsonb)", "[404]", None),
    ("try_number(jsonb)", "null", None),
    ("try_integer(text)", "+12", 12),
    ("try_integer(text)", "12.0", None),
    ("try_integer(text)", "9223372036854775807", 2**63 - 1),
    ("try_integer(text)", "9223372036854775808", None),
    ("try_integer(text)", " -0x1f ", -31),
    ("try_integer(text)", "0x", None),
    ("try_integer(text)", "-0x8000000000000000", -(2**63)),
    ("try_integer(text)", "0x8000000000000000", None),
    ("try_integer(jsonb)", '"0x1F"', 31),
    ("try_integer(jsonb)", "2.5", 3),
    ("try_integer(jsonb)", '"7"', 7),
    ("try_integer(jsonb)", "true", 1),
    ("try_integer(jsonb)", "1e30", None),
    ("try_integer(jsonb)", "{}", None),
    ("try_integer(numeric)", "-2.5", -3),
    ("try_integer(numeric)", "1e30", None),
    ("try_integer(numeric)", "NaN", None),
    ("try_float(text)", "-1.5e3", -1500.0),
    ("try_float(text)", "1e400", float("inf")),
    ("try_float(text)", "-1e400", float("-inf")),
    ("try_float(text)", "1e-400", 0.0),
    ("try_float(text)", " -Infinity ", float("-inf")),
    ("try_float(text)", "12 ms", None),
    ("try_float(text)", "0x1F", 31.0),
    ("try_float(text)", "1.7976931348623157e308", 1.7976931348623157e308),
    ("try_float(text)", "1e-310", 1e-310),
    ("try_date(text)", "2025-6-2", date(2025, 6, 2)),
    ("try_date(text)", "2025-02-30", None),
    ("try_date(text)", "2025-06-02T08:15:00Z", None),
    ("try_boolean(text)", "TRUE", True),
    ("try_boolean(text)", "false", False),
    ("try_boolean(text)", "1", None),
    ("try_json(text)", '{"a": [1]}', {"a": [1]}),
    ("try_json(text)", " 5 ", 5),
    ("try_json(text)", "GET | 200", None),
    ("try_json(text)", '{"a": ', None),
    ("try_json(text)", '"\\u0000"', None),
    ("try_json(text)", '"\\ud800"', None),
    ("try_json(text)", "1e999999", None),
    ("try_json(text)", "[" * 20_000, None),
    ("try_timestamp(text)", "2025-06-02T08:15:00.000001Z", datetime(2025, 6, 2, 8, 15, 0, 1, tzinfo=UTC)),
    ("try_timestamp(text)", "2025-06-02 10:15:00+02", datetime(2025, 6, 2, 8, 15, tzinfo=UTC)),
    ("try_timestamp(text)", "2025-06-02 08:15:04 UTC", datetime(2025, 6, 2, 8, 15, 4, tzinfo=UTC)),
    ("try_timestamp(text)", "2025-06-02", datetime(2025, 6, 2, tzinfo=UTC)),
    ("try_timestamp(text)", "2025-06-02 08:15:04 Europe/Berlin", datetime(2025, 6, 2, 6, 15, 4, tzinfo=UTC)),
    ("try_timestamp(text)", "2025-06-02 08:15:04 No/Where", None),
    ("try_timestamp(text)", "2025-02-30", None),
    ("try_timestamp(text)", "now", None),
    ("try_timestamp(text)", "infinity", None),
]

STABLE = {"concatenated_1", "concatenated_2", "array_to_string", "measured_array_to_string", "largest_value"}
STABLE |= {"moment_text", "time_text"}
DEFINER = {"stored_size", "largest_value"}


def value(connection: psycopg.Connection[Any], signature: str, argument: str | None) -> Any:
    name, _, type_ = signature.removesuffix(")").partition("(")
    row = connection.execute(f"SELECT log_functions.{name}(%s::text::{type_})", [argument]).fetchone()
    assert row is not None
    return row[0]


@pytest.mark.parametrize(("signature", "argument", "expected"), CASES)
def test_reads_what_it_can_and_fails_on_nothing(log_database, signature, argument, expected):
    log_database.execute("SET TimeZone = 'Europe/Lisbon'")
    assert value(log_database, signature, argument) == expected
    assert value(log_database, signature, None) is None


@pytest.mark.parametrize(
    ("argument", "elements"),
    [
        ('[{"a": 1}, 2, "x"]', [{"a": 1}, 2, "x"]),
        ('{"a": [1]}', [{"a": [1]}]),
        ("[]", []),
        ('"text"', []),
        ("null", []),
        (None, []),
    ],
)
def test_takes_an_object_for_one_element_and_a_scalar_for_none(log_database, argument, elements):
    rows = log_database.execute("SELECT * FROM log_functions.json_elements(%s::jsonb)", [argument]).fetchall()
    assert [row[0] for row in rows] == elements


@pytest.mark.parametrize("name", ["try_number", "try_integer", "try_float", "try_boolean", "try_json", "try_timestamp"])
@hypothesis_settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\x00"))
    | st.from_regex(r"[-+.\d eE:TZ]{0,30}")
    | st.from_regex(r"\A *[-+]?0[xX][0-9a-fA-F]{0,50} *\Z")
    | st.from_regex(
        r"\A[0-9]{4}-[01][0-9]-[0-3][0-9] [0-2][0-9]:[0-5][0-9]:[0-6][0-9]( [A-Z][a-z]{2,6}|[-+][01][0-9])\Z"
    )
)
def test_fails_on_no_text(log_database, name, text):
    value(log_database, f"{name}(text)", text.replace("\x00", ""))


def test_is_read_into_the_query_where_it_is_an_expression(log_database):
    # Inlined: no call per row, except for a text that is hexadecimal.
    query = "EXPLAIN (VERBOSE) SELECT e FROM logs.edge_logs, log_functions.json_elements(metadata) AS e"
    condition = " WHERE log_functions.try_number(e -> 'a') > 5 AND log_functions.try_integer(e -> 'a') > 5"
    plan = "\n".join(row[0] for row in log_database.execute(query + condition).fetchall())
    assert set(re.findall(r"log_functions\.(\w+)", plan)) == {"hexadecimal"}
    assert "jsonb_array_elements" in plan


def test_owns_what_it_makes_and_lets_the_readers_alone_call_it(log_database):
    rows = log_database.execute(
        "SELECT p.proname, p.provolatile, p.prosecdef, p.proowner::regrole::text = current_user,"
        " (SELECT array_agg(a.grantee::regrole::text ORDER BY 1) FROM aclexplode(p.proacl) AS a"
        "  WHERE a.grantee <> p.proowner)"
        " FROM pg_proc AS p WHERE p.pronamespace = 'log_functions'::regnamespace"
    ).fetchall()
    assert {row[0] for row in rows} == OWN_FUNCTIONS | {function.name for function in GUARD_FUNCTIONS}
    assert len(rows) == len(LOG_FUNCTIONS | GUARD_FUNCTIONS)
    for name, volatility, is_definer, is_owned, readers in rows:
        # What joins a text and a value of another type is stable in PostgreSQL too.
        assert volatility == ("s" if name in STABLE else "i"), name
        assert is_definer == (name in DEFINER), name
        assert (is_owned, readers) == (True, ["query_reader", "sandbox_reader"]), name


def test_marks_as_parallel_safe_what_starts_no_subtransaction(log_database):
    rows = log_database.execute(
        "SELECT DISTINCT l.lanname, p.proparallel FROM pg_proc AS p JOIN pg_language AS l ON l.oid = p.prolang"
        " WHERE p.pronamespace = 'log_functions'::regnamespace"
    ).fetchall()
    assert set(rows) == {("sql", "s"), ("plpgsql", "u"), ("plpgsql", "s")}


def test_the_gate_itself_may_not_call_it(log_database):
    with psycopg.connect(**settings.LOGS_GATE, autocommit=True) as gate:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            gate.execute("SELECT log_functions.try_json('1')")
        gate.execute("SET ROLE sandbox_reader")
        assert gate.execute("SELECT log_functions.try_json('1')").fetchone() == (1,)
        gate.execute("SET default_transaction_read_only = off")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            gate.execute("CREATE FUNCTION log_functions.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'")


def test_can_be_made_again(log_database):
    ensure_log_functions(log_database)
    assert value(log_database, "try_number(text)", "1") == 1


def test_the_checker_pins_the_same_schema():
    assert LOG_FUNCTIONS_SCHEMA == FUNCTION_SCHEMA
    assert {function.name for function in LOG_FUNCTIONS} == OWN_FUNCTIONS
