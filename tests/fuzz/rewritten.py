"""PostgreSQL's rewriter as a judge: the relations and functions that a query really uses, by oid.

A parse tree hides attribute calls: ``o.a`` looks the same whether ``a`` is a column or a function. So a view is made of
the text that the checker emitted and its stored form is read (pg_rewrite.ev_action), where every call and every table
is an oid.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg import sql

from logsources.allowed_functions import ALLOWED_FUNCTIONS, SYNTAX_FUNCTIONS
from tests.fuzz.generator import MORE_TABLES, TABLES

SCHEMA: Final = "sandbox_oracle"
_SET_UP: Final = f"""
    CREATE SCHEMA {SCHEMA};
    SET search_path = {SCHEMA};
    CREATE TABLE auth_user (username text, password text);
    CREATE FUNCTION leak(anyelement) RETURNS int LANGUAGE sql AS 'SELECT 42';
    CREATE FUNCTION x(record) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN 42; END';
    CREATE FUNCTION n(text) RETURNS int LANGUAGE sql AS 'SELECT 42';
    CREATE FUNCTION key(anyarray) RETURNS int LANGUAGE sql AS 'SELECT 42';
"""
_LOG_COLUMNS: Final = 'id uuid, "timestamp" timestamptz, event_message text, metadata jsonb'
_LEAK_COLUMNS: Final = "id int, leak text, to_jsonb jsonb"
# FUNCEXPR of the form "f(x)" (0) or SQL syntax (3); 1 and 2 are casts. In 18 the node's first fields are the same.
_CALL: Final = re.compile(
    r"\{FUNCEXPR :funcid (\d+) :funcresulttype \d+ :funcretset \w+ :funcvariadic \w+ :funcformat (\d)"
)
_AGGREGATE: Final = re.compile(r"\{(?:AGGREF :aggfnoid|WINDOWFUNC :winfnoid) (\d+)")
_RELATION: Final = re.compile(r":relid (\d+)")
_CAST_FORMATS: Final = frozenset({"1", "2"})


class RewriteOracle:
    """Judges emitted queries by the view PostgreSQL makes of them; `judged` counts those it could make."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.judged = 0
        self._connection = connection
        self._functions = {
            oid
            for (oid,) in connection.execute(
                "SELECT oid FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND proname = ANY(%s)"
                " OR pronamespace = 'log_functions'::regnamespace",
                [sorted(ALLOWED_FUNCTIONS.union(*SYNTAX_FUNCTIONS.values()))],
            )
        }
        self._casts = {oid for (oid,) in connection.execute("SELECT castfunc FROM pg_cast")}
        self._relations = {
            oid
            for (oid,) in connection.execute(
                "SELECT oid FROM pg_class WHERE relnamespace = %s::regnamespace AND relname = ANY(%s)",
                [SCHEMA, sorted({*TABLES, *MORE_TABLES})],
            )
        }

    def complaints(self, emitted: str) -> list[str]:
        """Return what the query uses beyond what is allowed; nothing when PostgreSQL refuses it."""
        with self._connection.transaction(force_rollback=True):
            try:
                self._connection.execute(
                    f"CREATE VIEW judged AS SELECT count(*) AS n FROM (\n{emitted}\n) AS result".encode()
                )
            except psycopg.Error as error:
                if error.sqlstate is None:
                    raise
                return []
            row = self._connection.execute(
                "SELECT ev_action, 'judged'::regclass::oid FROM pg_rewrite WHERE ev_class = 'judged'::regclass"
            ).fetchone()
        assert row is not None
        self.judged += 1
        return self._judge(*row)

    def _judge(self, action: str, view: int) -> list[str]:
        found = []
        for oid, form in _CALL.findall(action):
            if int(oid) not in (self._casts if form in _CAST_FORMATS else self._functions):
                found.append(f"function {self._name('regprocedure', oid)}")
        found += [
            f"aggregate {self._name('regprocedure', oid)}"
            for oid in _AGGREGATE.findall(action)
            if int(oid) not in self._functions
        ]
        found += [
            f"relation {self._name('regclass', oid)}"
            for oid in _RELATION.findall(action)
            if int(oid) not in self._relations | {0, view}
        ]
        return found

    def _name(self, type_name: str, oid: str) -> str:
        query = sql.SQL("SELECT {}::oid::{}::text").format(sql.Literal(oid), sql.Identifier(type_name))
        row = self._connection.execute(query).fetchone()
        return f"{oid} {row[0] if row else ''}"


@contextmanager
def rewrite_oracle(connection: psycopg.Connection[Any]) -> Iterator[RewriteOracle]:
    """Make the generator's tables and functions in a schema of their own, and nothing that outlives the block."""
    with connection.transaction(force_rollback=True):
        connection.execute(_SET_UP)
        for table in (*TABLES, *MORE_TABLES):
            columns = _LEAK_COLUMNS if table == "leaks" else _LOG_COLUMNS
            connection.execute(
                sql.SQL("CREATE TABLE {} ({})").format(sql.Identifier(table), sql.SQL(columns))  # type: ignore[arg-type]
            )
        yield RewriteOracle(connection)
