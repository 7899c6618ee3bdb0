"""Every production of the sandbox's grammar nested in itself and in each other one, as deep as the checker lets it.

    python -m tests.fuzz.expansions --url postgresql://superuser…/logs

PostgreSQL copies expressions before it looks at its clock: its parser the left side of BETWEEN and IN, its planner the
columns of a subquery that it pulls up. A text that copies what it copied doubles with each level. So each ordered pair
of productions is nested in turn as deep as the checker accepts it, and a flatter nest is repeated as often as it does.
What is accepted runs as the service runs it, as sandbox_reader on a new connection, under a statement_timeout of a
second; it has to end within two, and its process may not grow by more than 128 MiB.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import Connection, RawCursor

from endpoints.dialects import DIALECTS
from endpoints.errors import EndpointError
from endpoints.log_database.sessions import ReaderSession, session_settings_statement
from endpoints.lql.lowering import LIMITS, LQLTable, lower
from endpoints.lql.parser import parse_lql
from endpoints.results.outcomes import Column, SandboxDialect, Statement
from endpoints.sql.sandbox import SandboxTable, check_sandbox_query
from logsources.roles import SANDBOX_READER

STATEMENT_TIMEOUT_SECONDS: Final = 1.0
ENDS_WITHIN_SECONDS: Final = 2 * STATEMENT_TIMEOUT_SECONDS
LARGEST_GROWTH_MIB: Final = 128
WORST_SHOWN: Final = 10
DEEPEST: Final = 32
SCHEMA: Final = "sandbox_expansions"
COLUMNS: Final = ("timestamp", "id", "event_message", "metadata")
TABLES: Final = tuple(SandboxTable(name, COLUMNS) for name in ("edge_logs", "auth_logs"))
BIGQUERY_TABLES: Final = {
    "edge_logs": (
        Column("timestamp", "timestamptz"), Column("id", "uuid"), Column("event_message", "text"),
        Column("metadata", "jsonb"),
    ),
}  # fmt: skip
# PostgreSQL copies conditions, and what it sorts by, for each.
PARTITIONS: Final = "".join(
    f"CREATE TABLE {SCHEMA}.stored_{month} PARTITION OF {SCHEMA}.stored"
    f" FOR VALUES FROM ('2025-{month:02}-01Z') TO ('2025-{month + 1:02}-01Z');"
    for month in range(1, 12)
)
TABLE_ROWS: Final = f"""
    DROP SCHEMA IF EXISTS {SCHEMA} CASCADE;
    CREATE SCHEMA {SCHEMA};
    CREATE TABLE {SCHEMA}.stored ("timestamp" timestamptz, id uuid, event_message text, metadata jsonb)
    PARTITION BY RANGE ("timestamp");
    {PARTITIONS}
    INSERT INTO {SCHEMA}.stored
    SELECT timestamptz '2025-01-01' + n * interval '1 day' AS "timestamp", md5(n::text)::uuid AS id,
        'GET /rest/v1/orders 200 ' || n AS event_message, jsonb_build_array(jsonb_build_object('a', n)) AS metadata
    FROM generate_series(1, 300) AS n;
    CREATE VIEW {SCHEMA}.edge_logs AS SELECT "timestamp", id, event_message, metadata FROM {SCHEMA}.stored;
    CREATE VIEW {SCHEMA}.auth_logs WITH (security_barrier) AS
    SELECT "timestamp", id, event_message, metadata FROM {SCHEMA}.stored ORDER BY "timestamp" DESC;
    GRANT USAGE ON SCHEMA {SCHEMA} TO {SANDBOX_READER};
    GRANT SELECT ON {SCHEMA}.edge_logs, {SCHEMA}.auth_logs TO {SANDBOX_READER};"""

# Whole numbers made of the whole number `{x}`.
EXPRESSIONS: Final = {
    "between": "({x} between 0 and 1)::int",
    "not between": "({x} not between 0 and 1)::int",
    "lower bound": "(1 between {x} and 2)::int",
    "upper bound": "(1 between 0 and {x})::int",
    "between symmetric": "({x} between symmetric 0 and 1)::int",
    "bound of symmetric": "(1 between symmetric 0 and {x})::int",
    "bounds of between": "(1 between {x} and length(id::text))::int",
    "in constants": "({x} in (1, 2, 3))::int",
    "in columns": "({x} in (length(event_message), length(id::text), 3))::int",
    "member of in": "(5 in (1, {x}))::int",
    "row in rows": "(({x}, 1) in ((1, 2), (length(event_message), 4), (5, 6)))::int",
    "in a query": "({x} in (select 1))::int",
    "any of an array": "({x} = any (array[1, 2, length(event_message)]))::int",
    "array": "(array[{x}, 1])[1]",
    "subscript": "(array[1, 2])[{x}]",
    "array of a query": "(array(select {x}))[1]",
    "case": "case when {x} > 0 then 1 else 2 end",
    "case then": "case when event_message > 'a' then {x} else 2 end",
    "simple case": "case {x} when 1 then 2 when 3 then 4 else 5 end",
    "when of simple case": "case length(event_message) when {x} then 2 when 1 then 4 end",
    "coalesce": "coalesce({x}, 1, 2)",
    "nullif": "nullif({x}, 1)",
    "greatest": "greatest({x}, 1)",
    "distinct from": "({x} is distinct from 1)::int",
    "is null": "({x} is null)::int",
    "is true": "(({x} > 0) is not true)::int",
    "between chained": "({x} between 0 and 1 is null between false and true is null)::int",
    "and": "({x} > 0 and length(event_message) > 1)::int",
    "or": "({x} > 0 or length(event_message) > 1)::int",
    "and or": "({x} > 0 and length(event_message) > 1 or id is null)::int",
    "not": "(not {x} > 0)::int",
    "sum": "({x} + 1)",
    "minus": "(- {x})",
    "multiplied": "({x} * 1.5)::int",
    "divided": "(1.5 / nullif({x}, 0)::numeric)::int",
    "remainder": "({x}::numeric % 7.5)::int",
    "power": "({x} ^ 0.5::numeric)::int",
    "logarithm": "ln(abs({x}) + 1.5)::int",
    "rows compared": "(({x}, 1) < (2, 3))::int",
    "rows equal": "(({x}, 1) = (2, 3))::int",
    "overlaps": "((timestamp, timestamp + interval '1 day' * {x}) overlaps (timestamp, now()))::int",
    "extract": "extract(day from timestamp + interval '1 day' * {x})::int",
    "at time zone": "extract(day from (timestamp + interval '1 day' * {x}) at time zone 'UTC')::int",
    "substring": "length(substring(event_message from {x} for 2))",
    "substring of": "length(substring(({x})::text from 1 for 2))",
    "substring similar": "length(substring(({x})::text similar '%#\"a#\"%' escape '#'))",
    "overlay": "length(overlay(({x})::text placing 'a' from 1))",
    "position": "position('a' in ({x})::text)",
    "position of": "position(({x})::text in event_message)",
    "trim": "length(trim(both 'a' from ({x})::text))",
    "trim characters": "length(trim(both ({x})::text from event_message))",
    "like": "(({x})::text like 'a%')::int",
    "like pattern": "(event_message like ({x})::text)::int",
    "not ilike any": "(({x})::text not ilike any (array['a', event_message]))::int",
    "like escape": "(({x})::text like 'a%' escape '#')::int",
    "similar": "(({x})::text similar to 'a%')::int",
    "matches": "(({x})::text ~ 'a')::int",
    "concatenation": "length(({x})::text || event_message)",
    "concatenation right": "length('a' || ({x})::text)",
    "concatenation of other": "length({x} || event_message)",
    "replace": "length(replace(({x})::text, 'a', 'b'))",
    "replace by": "length(replace(event_message, id::text, ({x})::text))",
    "split_part": "length(split_part(({x})::text, event_message, 1))",
    "format": "length(format('%s', {x}))",
    "format template": "length(format(({x})::text, 1))",
    "jsonb": "(to_jsonb({x}) ->> 0)::int",
    "jsonb contains": "(to_jsonb({x}) @> metadata)::int",
    "try_number": "try_number(({x})::text)::int",
    "try_float": "try_float(({x})::text)::int",
    "try_integer": "try_integer(({x})::text)::int",
    "try_boolean": "try_boolean(({x})::text)::int",
    "try_timestamp": "extract(day from try_timestamp(({x})::text))::int",
    "rounded": "rounded({x}, 1)::int",
    "text_part": "length(text_part(({x})::text, 1, 2))",
    "number_text": "length(number_text({x}))",
    "scalar query": "(select {x})",
    "exists": "exists (select 1 where {x} > 0)::int",
    "aggregate": "(select sum({x} + g)::int from generate_series(1, 2) as g)",
    "filter": "(select count(*) filter (where {x} > g)::int from generate_series(1, 2) as g)",
    "within group": "(select percentile_disc(0.5) within group (order by {x} + g) from generate_series(1, 2) as g)",
    "window": "(select sum(g) over (partition by {x} + g order by g)::int from generate_series(1, 2) as g limit 1)",
    "limited": "(select g from generate_series(1, 2) as g order by {x} + g limit 1)",
    "lateral": "(select q.y from generate_series(1, 2) as g, lateral (select g + {x} as y) as q limit 1)",
    "star of row": "(select a + b from (select (r).* from (select row({x}, 1) as r) as s) as q (a, b))",
}  # fmt: skip
# Queries with a column `x` made of the query `{q}`, which has one; `{q1}` is another with one.
QUERIES: Final = {
    "pulled up": "select x + x + x + x as x from ({q}) as q",
    "pulled up once": "select x + 1 as x from ({q}) as q",
    "between": "select (x between 0 and 1)::int as x from ({q}) as q",
    "cases": "select case when x > 2 then x + 1 when x > 1 then x else 0 end as x from ({q}) as q",
    "limited": "select x + x + x + x as x from ({q}) as q limit 10",
    "grouped": "select x + x as x from ({q}) as q group by x",
    "counted": "select count(x + x)::int as x from ({q}) as q group by x + 1",
    "distinct": "select distinct x + x as x from ({q}) as q",
    "window": "select sum(x) over (order by x)::int as x from ({q}) as q where x + x > 1",
    "condition": "select x + x as x from ({q}) as q where x > 0 and x + x < 100",
    "ordered": "select x + x as x from ({q}) as q order by x + x, x",
    "union": "select x + x as x from (select x from ({q}) as q union all select g + g from generate_series(1, 2) as g)"
    " as u where x + x > 0",
    "intersect": "select x + x as x from (select x from ({q}) as q intersect select 1) as u where x + x > 0",
    "except": "select x + x as x from (select x from ({q}) as q except select 1) as u where x + x > 0",
    "cross join": "select q.x + q.x as x from ({q}) as q cross join edge_logs as e",
    "left join": "select q.x + q.x + length(e.event_message) as x from edge_logs as e left join ({q}) as q on q.x > 0",
    "full join": "select x + x as x from ({q}) as q full join (select 1 as x) as r using (x)",
    "natural join": "select x + x as x from ({q}) as q natural join (select 1 as x) as r",
    "lateral": "select y + y as x from ({q}) as q, lateral (select q.x + q.x as y) as r",
    "correlated": "select (with c as (select q.x + q.x as y), d as (select y + y + y + y as y from c)"
    " select y + y from d) as x from ({q}) as q",
    "function": "select g + g as x from ({q}) as q, generate_series(q.x + q.x, 2) as g",
    "unnest": "select g + g as x from ({q}) as q, unnest(array[q.x + q.x, 2]) as g",
    "star": "select * from ({q}) as q where x + x > 0",
    "whole row": "select length(row_to_json(q)::text) + q.x as x from ({q}) as q where q.x > 0",
    "row": "select x + x as x from (select (r).* from (select q as r from ({q}) as q) as s) as t",
    "in a query": "select x + x as x from ({q}) as q where x + x in (select x + x from ({q1}) as r)",
    "sets": "select x + x as x from ({q}) as q group by grouping sets ((x), (x + x), ())",
    "cube": "select sum(x)::int as x from ({q}) as q group by cube (x, x + 1, x + 2, x + 3)",
    "named window": "select sum(x) over w::int as x from ({q}) as q window w as (partition by x + x order by x)",
    "with": "with c as ({q}) select x + x as x from c",
    "with twice": "with c as ({q}) select c.x + d.x as x from c, c as d where c.x = d.x",
    "with copied": "with c as not materialized ({q}) select c.x + d.x as x from c, c as d where c.x = d.x",
    "with materialized": "with c as materialized ({q}) select x + x as x from c",
    "offset": "select x + x as x from ({q} offset 0) as q",
}
# What PostgreSQL copies an operand for, and with it all that is nested in it.
COPYING: Final = ("between", "between symmetric", "bound of symmetric", "between chained", "in columns", "row in rows",
    "in a query", "star of row", "pulled up", "condition", "union", "intersect", "full join", "whole row",
    "with copied")  # fmt: skip
# The same in the BigQuery dialect.
BIGQUERY: Final = {
    "pulled up": "select x + x + x + x as x from ({q}) as q",
    "with": "with c as ({q}) select x + x + x + x as x from c",
    "between": "select if(x between 0 and 1, 1, 2) as x from ({q}) as q",
    "in": "select if(x in (1, x, x + 1), 1, 2) as x from ({q}) as q",
    "cases": "select case when x > 2 then x + 1 when x > 1 then x else 0 end as x from ({q}) as q",
    "safe_divide": "select cast(safe_divide(x, x + 1) as int64) as x from ({q}) as q where x > 0",
    "union": "select x + x as x from (select x from ({q}) as q union all select 1 as x) as q where x > 0",
    "qualify": "select x + x as x from ({q}) as q where true qualify row_number() over (order by x + x) > 0",
    "countif": "select countif(x between 0 and x) as x from ({q}) as q group by x",
}
# Clauses of LQL, which come in any number up to a hundred.
LQL: Final = (
    "m.a{n}:>{n}", "-m.b.c{n}:~x{n}", "m.status:{n}..1000", "m.a{n}:@>~y{n}", "word{n}", "-~word{n}", "m.a{n}:NULL",
    "-m.level:debug..error", "m.a{n}:>1715680800{n:03}", "id:>a{n}", "t:2025-01-{day:02}",
)  # fmt: skip
LEAF: Final = "length(event_message)"
FLAT: Final = 3  # levels of a nest that is repeated
REPEATED: Final = 400  # times, at most


@dataclass(frozen=True, slots=True)
class Case:
    """A nest of productions: the largest text of its kind that the checker accepts, and what then runs."""

    name: str
    statement: Statement


@dataclass(frozen=True, slots=True)
class Measured:
    """How a case ended, after how many seconds, and how much its process had grown."""

    case: Case
    seconds: float
    mib: float
    ending: str  # "result" or the SQLSTATE

    @property
    def is_too_much(self) -> bool:
        """Whether it broke one of the bounds."""
        return self.seconds > ENDS_WITHIN_SECONDS or self.mib > LARGEST_GROWTH_MIB


def cases(*, only: str = "", copying: Sequence[str] = ()) -> Iterator[Case]:
    """Yield the nests of all ordered pairs; those whose name contains `only`, or with a production of `copying`."""

    def largest(
        name: str, most: int, text: Callable[[int], str], *pair: str, checked: Callable[[str], Statement] = _checked
    ) -> Iterator[Case]:
        title = f"{name}: {' / '.join(pair)}"
        if only in title and (not copying or any(one in copying for one in pair)):
            yield from _largest(title, most, text, checked)

    for pair in product(EXPRESSIONS, repeat=2):
        texts = [EXPRESSIONS[one] for one in pair]
        yield from largest("deep", DEEPEST, partial(_nested, texts), *pair)
        yield from largest("wide", REPEATED, partial(_repeated, texts), *pair)
        yield from largest("condition", DEEPEST, partial(_conditions, texts), *pair)
    levels = {**{name: _as_query(text) for name, text in EXPRESSIONS.items()}, **QUERIES}
    for pair in product(QUERIES, levels):
        yield from largest("query", DEEPEST, partial(_layered, [QUERIES[pair[0]], levels[pair[1]]]), *pair)
    for pair in product(LQL, repeat=2):
        yield from largest("lql", 100, partial(_clauses, pair), *pair, checked=_checked_lql)
    for pair in product(BIGQUERY, repeat=2):
        texts = [BIGQUERY[one] for one in pair]
        yield from largest("bigquery", DEEPEST, partial(_layered, texts), *pair, checked=_checked_bigquery)


def _nested(texts: Sequence[str], depth: int) -> str:
    return f"select {_expression(texts, depth)} as x from edge_logs limit 1"


def _conditions(texts: Sequence[str], depth: int) -> str:
    expression = _expression(texts, depth)
    return f"select {expression} as x from edge_logs where {expression} > 0 group by 1 order by {expression}, 1 limit 1"


def _repeated(texts: Sequence[str], times: int) -> str:
    expression = _expression(texts, FLAT)
    return f"select {', '.join([expression] * times)} from edge_logs limit 1"


def _expression(texts: Sequence[str], depth: int) -> str:
    expression = LEAF
    for level in range(depth):
        expression = texts[level % 2].replace("{x}", expression)
    return expression


def _as_query(text: str) -> str:
    return f"select {text.replace('{x}', 'x')} as x from ({{q}}) as q cross join auth_logs"


def _layered(texts: Sequence[str], depth: int) -> str:
    query = f"select {LEAF} as x from edge_logs"
    for level in range(depth):
        query = texts[level % 2].replace("{q1}", "select 1 as x").replace("{q}", query)
    return query


def _clauses(clauses: Sequence[str], number: int) -> str:
    return " ".join(clauses[n % 2].format(n=n, day=n % 28 + 1) for n in range(number))


def _checked_lql(lql: str) -> Statement:
    lowered = lower(
        parse_lql(lql), LQLTable("edge_logs", BIGQUERY_TABLES["edge_logs"]), now=datetime(2025, 1, 20, tzinfo=UTC)
    )
    query = check_sandbox_query(lowered.sql, tables=TABLES, parameters=lowered.parameters, limits=LIMITS)
    return query.statement(lowered.arguments, max_rows=10)


def _checked(sql: str) -> Statement:
    return check_sandbox_query(sql, tables=TABLES).statement({}, max_rows=10)


def _checked_bigquery(sql: str) -> Statement:
    query, _ = DIALECTS[SandboxDialect.BIGQUERY].check(sql, tables=BIGQUERY_TABLES)
    return query.statement({}, max_rows=10)


def _largest(name: str, most: int, text: Callable[[int], str], checked: Callable[[str], Statement]) -> Iterator[Case]:
    """Yield the largest that is accepted, of at most this size; a text grows with its size."""
    accepted, refused = 0, most + 1
    largest: Statement | None = None
    while refused - accepted > 1:
        size = (accepted + refused) // 2
        try:
            largest = checked(text(size))
            accepted = size
        except EndpointError:
            refused = size
    if largest is not None:
        yield Case(f"{name} x {accepted}", largest)


@contextmanager
def rows(conn: Connection[Any]) -> Iterator[None]:
    """Have the sandbox tables of the cases in the database, as a superuser."""
    conn.execute(TABLE_ROWS)
    try:
        yield
    finally:
        conn.execute(f"DROP SCHEMA {SCHEMA} CASCADE")


def measured(
    url: str, case: Case, *, statement_timeout: float = STATEMENT_TIMEOUT_SECONDS, **database: Any
) -> Measured:
    """Run a case on a new connection, as the service would."""
    session = ReaderSession(
        role=SANDBOX_READER,
        search_path=f"{SCHEMA}, log_functions, pg_catalog, pg_temp",
        statement_timeout_seconds=statement_timeout,
        tenant=None,
    )
    with psycopg.connect(url, autocommit=True, **database) as conn:
        conn.execute("BEGIN READ ONLY")
        arming, bound = session_settings_statement(session, case.statement.sql)
        conn.pgconn.exec_params(arming.encode(), list(bound))
        process = Path("/proc", str(conn.info.backend_pid), "status")
        before = _largest_mib(process)
        started = time.perf_counter()
        ending = "result"
        try:
            RawCursor(conn).execute(case.statement.sql, case.statement.arguments)
        except psycopg.Error as error:
            ending = error.sqlstate or "?"
        seconds = time.perf_counter() - started
        return Measured(case, seconds, _largest_mib(process) - before, ending)


def _largest_mib(process: Path) -> float:
    found = re.search(r"VmHWM:\s+(\d+) kB", process.read_text())
    assert found
    return int(found[1]) / 1024


def worst(results: Iterable[Measured], number: int = WORST_SHOWN) -> list[Measured]:
    """Return those nearest to a bound, or furthest above it."""
    share = {id(one): max(one.seconds / ENDS_WITHIN_SECONDS, one.mib / LARGEST_GROWTH_MIB) for one in results}
    return sorted(results, key=lambda one: -share[id(one)])[:number]


def main() -> int:
    """Measure every case and print the worst; 1 when one broke a bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="a superuser's, of a log database on this machine")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--copying", action="store_true", help="pairs with a production that PostgreSQL copies for")
    arguments = parser.parse_args()
    chosen = cases(only=arguments.only, copying=COPYING if arguments.copying else ())
    with psycopg.connect(arguments.url, autocommit=True) as conn, rows(conn):
        results = []
        for case in chosen:
            results.append(measured(arguments.url, case))
            if results[-1].is_too_much:
                _show(results[-1])
    sys.stdout.write("\n")
    for one in worst(results):
        _show(one)
    endings = Counter(one.ending for one in results)
    broken = sum(one.is_too_much for one in results)
    sys.stdout.write(f"{len(results)} cases, {broken} above a bound; endings: {dict(endings)}\n")
    return 1 if broken else 0


def _show(one: Measured) -> None:
    sys.stdout.write(f"{one.seconds:6.2f} s {one.mib:6.1f} MiB  {one.ending:8} {one.case.name}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
