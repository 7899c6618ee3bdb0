"""Every function and operator that a sandbox query may use, with operands as large as a query can make them.

    python -m tests.fuzz.large_operands --url postgresql://superuser…/logs

PostgreSQL looks at its clock between rows and in some loops, but not inside most functions: one call that takes a
minute takes it whatever statement_timeout says. So each overload of each allowed name is called once with each choice
of operands, as sandbox_reader, through the checker, under a statement_timeout of a second; it has to end within two,
with a result, a refusal or the timeout. Operands come from `generate_series` and aggregates, as a consumer's would.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, product
from typing import Any, Final

import psycopg
from psycopg import Connection
from psycopg.pq import TransactionStatus

from endpoints.errors import SandboxViolation
from endpoints.sql.sandbox import SandboxTable, check_sandbox_query
from endpoints.sql.sandbox.vocabulary import OPERATORS
from logsources.allowed_functions import ALLOWED_FUNCTIONS, OWN_FUNCTIONS
from logsources.guards import LARGEST_VALUE_SETTING, largest_value

STATEMENT_TIMEOUT_SECONDS: Final = 1.0
ENDS_WITHIN_SECONDS: Final = 2.0
SLOWEST_SHOWN: Final = 10
# What the service looks operators up in (calling.sessions), without the schema of an endpoint.
SEARCH_PATH: Final = "log_functions, pg_catalog, pg_temp"

_THOUSAND: Final = "a" * 1000
_OTHERS: Final = "bc" * 500
# Large values by name: text of 3 MB and of 100 kB, arrays and documents of 200,000 and of 20,000 elements, numbers of
# 100,000 and of 50,000 digits. Texts begin or end with what is not in the large one, or have nothing of it.
VALUES: Final = {
    "t3": f"select string_agg('{_THOUSAND}', '') as v from generate_series(1, 3000)",
    "t2": f"select string_agg('{_THOUSAND}', '') || 'b' as v from generate_series(1, 100)",
    "u2": f"select 'b' || string_agg('{_THOUSAND}', '') as v from generate_series(1, 100)",
    "x2": f"select string_agg('{_OTHERS}', '') as v from generate_series(1, 100)",
    "w2": f"select '%' || string_agg('{_THOUSAND}', '') || 'b%' as v from generate_series(1, 20)",
    "b3": f"select convert_to(string_agg('{_THOUSAND}', ''), 'UTF8') as v from generate_series(1, 3000)",
    "c2": f"select convert_to('b' || string_agg('{_THOUSAND}', ''), 'UTF8') as v from generate_series(1, 100)",
    "b2": f"select convert_to(string_agg('{_THOUSAND}', '') || 'b', 'UTF8') as v from generate_series(1, 100)",
    "j3": "select jsonb_agg(n) as v from generate_series(1, 200000) as n",
    "j2": "select jsonb_agg(-n) as v from generate_series(1, 20000) as n",
    "o3": "select jsonb_object_agg(n, n) as v from generate_series(1, 100000) as n",
    "n3": "select 1e100000 - 1 as v",
    "n2": "select 1e50000 - 7 as v",
    "i3": "select array_agg(n) as v from generate_series(1, 200000) as n",
    "i2": "select array_agg(-n) as v from generate_series(1, 20000) as n",
    "s3": "select array_agg(n::text) as v from generate_series(1, 200000) as n",
    "s2": "select array_agg('k' || n) as v from generate_series(1, 20000) as n",
    "r3": "select range_agg(int4range(n * 2, n * 2 + 1)) as v from generate_series(1, 20000) as n",
}
# For the type of an argument: the values it takes, by name, or an expression.
OPERANDS: Final[dict[str, tuple[str, ...]]] = {
    "text": ("t3", "t2", "u2", "x2", "w2"),
    "bytea": ("b3", "b2", "c2"),
    "jsonb": ("j3", "j2", "o3"),
    "json": ("j3::text::json", "o3::text::json"),
    "numeric": ("n3", "n2", "0.5 + 1 / n2"),
    "anyarray": ("i3", "i2", "s3", "s2"),
    "anycompatiblearray": ("i3", "i2", "s3", "s2"),
    "_text": ("s3", "s2"),
    "anyelement": ("1", "n3", "t3"),
    "anycompatible": ("1", "n3", "t3"),
    "anynonarray": ("n3", "t3"),
    "any": ("t3", "j3", "i3"),
    "record": ("row(t3, j3)",),
    "int4": ("2000000000", "1"),
    "int8": ("9000000000000000000", "1"),
    "int2": ("32000::int2",),
    "float8": ("1e300::float8", "1e-300::float8"),
    "float4": ("1e30::float4",),
    "bool": ("true",),
    "jsonpath": ("'$.**'::jsonpath", "'$[*] ? (@ > $[*])'::jsonpath"),
    "timestamptz": ("'290000-01-01'::timestamptz",),
    "timestamp": ("'290000-01-01'::timestamp",),
    "date": ("'5000000-01-01'::date",),
    "time": ("'12:00'::time",),
    "timetz": ("'12:00+00'::timetz",),
    "interval": ("'170000 years'::interval", "'1 microsecond'::interval"),
    "inet": ("'::/0'::inet",),
    "cidr": ("'::/0'::cidr",),
    "macaddr": ("'08:00:2b:01:02:03'::macaddr",),
    "uuid": ("'00000000-0000-0000-0000-000000000000'::uuid",),
    "bpchar": ("t3::bpchar",),
    "anyrange": ("int4range(1, 2000000000)",),
    "anycompatiblerange": ("int4range(1, 2000000000)",),
    "anymultirange": ("r3",),
    "anycompatiblemultirange": ("r3",),
}
MAX_CHOICES: Final = 12  # of operands for one overload


@dataclass(frozen=True, slots=True)
class Case:
    """A call of one overload, or one operator, as a consumer writes it."""

    name: str
    sql: str


@dataclass(frozen=True, slots=True)
class Timing:
    """How a case ended, and after how many seconds."""

    case: Case
    seconds: float
    ending: str  # "result", "refused" by the checker, or the SQLSTATE


def cases(conn: Connection[Any], *, choices: int = MAX_CHOICES) -> Iterator[Case]:
    """Yield cases for each overload in pg_catalog of what the allowlist lets through: so many choices of operands."""
    names = sorted(ALLOWED_FUNCTIONS - OWN_FUNCTIONS)
    overloads = conn.execute(
        "SELECT proname, prokind::text, ARRAY(SELECT typname FROM unnest(proargtypes) WITH ORDINALITY AS a (type,"
        " place) JOIN pg_type AS t ON t.oid = a.type ORDER BY place) FROM pg_proc"
        " WHERE pronamespace = 'pg_catalog'::regnamespace AND proname = ANY (%s) ORDER BY 1, 3",
        (names,),
    ).fetchall()
    for name, kind, types in overloads:
        for operands in islice(_choices(types), choices):
            over = " over ()" if kind == "w" else ""
            yield _case(f"{name}({', '.join(types)})", f"{name}({', '.join(operands)}){over}", operands)
    operators = conn.execute(
        "SELECT oprname, l.typname, r.typname FROM pg_operator JOIN pg_type AS l ON l.oid = oprleft"
        " JOIN pg_type AS r ON r.oid = oprright"
        " WHERE oprnamespace = 'pg_catalog'::regnamespace AND oprname = ANY (%s) ORDER BY 1, 2, 3",
        (sorted(OPERATORS),),
    ).fetchall()
    for name, *types in operators:
        for left, right in islice(_choices(types), choices):
            yield _case(f"{types[0]} {name} {types[1]}", f"({left}) {name} ({right})", (left, right))
    for title, expression in SYNTAX.items():
        yield _case(title, expression, (expression,))


# Syntax that calls functions without naming them, and casts that make large values.
SYNTAX: Final = {
    "position": "position(t2 in t3)",
    "position of bytea": "position(b2 in b3)",
    "trim": "trim(both t2 from t3)",
    "overlay": "overlay(t3 placing t2 from 5)",
    "substring similar": "substring(t3 similar w2 escape '#')",
    "substring from": "substring(t3 from '(a*)*b')",
    "similar": "t3 similar to w2",
    "like": "t3 like w2",
    "like escape": "t3 like w2 escape '#'",
    "not ilike": "t3 not ilike w2",
    "like any": "t3 like any (array[w2, t2])",
    "extract": "extract(century from '290000-01-01'::timestamptz)",
    "at time zone": "('290000-01-01'::timestamptz at time zone t2)",
    "in": "t2 in (t3, w2)",
    "any of an array": "'k' = any (s3)",
    "array of arrays": "array[s3, s3, s3]",
    "text to jsonb": "(t3::text)::jsonb",
    "jsonb to text": "j3::text",
    "array to text": "s3::text",
    "text to array": "(s3::text)::text[]",
    "number to text": "n3::text",
    "text to number": "(n3::text)::numeric",
    "wide char": "'a'::char(10000000)",
    "wide varchar": "t3::varchar(10000000)",
    "width of format": "format('%400000000s', '')",
    "width of format as argument": "format('%*s', 400000000, '')",
    "precision": "n3::numeric(1000, 1000)",
    "hashes": " || ".join(["sha512(b3)"] * 60),
    "cases": " || ".join(["upper(lower(t2))"] * 20),
}
# What one row of a query can do many times, over the largest value that a query of this length may build: `v` is a
# text of blanks, `d` a document of such a text.
LINKS: Final = (
    "length(upper(v))",
    "length(lower(v))",
    "length(initcap(v))",
    "length(reverse(v))",
    "length(v)",
    "length(left(v, -1))",
    "length(substr(v, 2))",
    "length(overlay(v placing 'b' from 2))",
    "length(quote_literal(v))",
    "length(md5(v))",
    "length(sha512(convert_to(v, 'UTF8')))",
    "length(encode(convert_to(v, 'UTF8'), 'hex'))",
    "length(regexp_replace(v, 'b', 'c', 'g'))",
    "length(replace(v, 'b', 'c'))",
    "length(translate(v, 'b', 'c'))",
    "(v like '%b')::int",
    "(v ilike '%b')::int",
    "(v ~ 'b$')::int",
    "(v ~* 'b$')::int",
    "(v similar to '%b')::int",
    "(v < v || ' ')::int",
    "strpos(v, 'b')",
    "length(to_jsonb(v)::text::jsonb::text)",
    "length(to_jsonb(v)::text)",
    "length((d ->> 'k'))",
    "(d @> '{\"k\": 1}')::int",
    "(d = d)::int",
    "cardinality(string_to_array(v, 'b'))",
    "cardinality(regexp_split_to_array(v, 'b'))",
)
MOST_TOKENS: Final = 2_900  # of a chain; a consumer's text has at most 3,000, and 16,384 characters
MOST_CHARACTERS: Final = 15_000
CHAINS: Final = (10, 40, 160, 600)


def chains(*, lengths: Sequence[int] = CHAINS) -> Iterator[Case]:
    """Yield queries whose one row takes as many links of a kind, each over the largest value that may be built."""
    for link, number in product(LINKS, lengths):
        most = min(MOST_TOKENS // (len(re.findall(r"\w+|[^\w\s]", link)) + 1), MOST_CHARACTERS // (len(link) + 3))
        links = " + ".join([link] * min(number, most))
        sql = check_sandbox_query(_chain(links, 1), tables=()).statement({}, max_rows=10).sql
        yield Case(f"{number} x {link}", _chain(links, largest_value(sql) // 10_000))


# Slow links over a value that a row may have, however long the query is.
STORED_LINKS: Final = (
    "length(translate(v, 'bcdefghijklmnopq', 'x'))",
    *(f"length({name}(v, 'bcdefghijklmnop '))" for name in ("btrim", "ltrim", "rtrim")),
    "length(trim(both 'bcdefghijklmnop ' from v))",
    "length(btrim(convert_to(v, 'UTF8'), 'bcdefghijklmnop '::bytea))",
    "length(initcap(v))",
)
STORED: Final = SandboxTable("stored", ("v",))


def stored_chains() -> Iterator[Case]:
    """Yield queries whose one row takes as many of these links as a text has room for."""
    for link in STORED_LINKS:
        number = min(MOST_TOKENS // (len(re.findall(r"\w+|[^\w\s]", link)) + 1), MOST_CHARACTERS // (len(link) + 3))
        yield Case(f"{number} x {link}", f"select {' + '.join([link] * number)} from stored")


def _chain(links: str, ten_thousands: int) -> str:
    built = f"select string_agg(format('%9999s', ''), '') as v from generate_series(1, {ten_thousands})"
    return f"select {links} from (select v, jsonb_build_object('k', v) as d from ({built}) as a offset 0) as b"


def _choices(types: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield operands for the types: the first of each, then each other one in turn."""
    known = [OPERANDS.get(type_) for type_ in types]
    if not types or any(values is None for values in known):
        return
    lists = [values for values in known if values]
    first = tuple(values[min(index, len(values) - 1)] for index, values in enumerate(lists))
    seen = {first}
    yield first
    for place, values in enumerate(lists):
        for value in values:
            for base in (first, tuple(one[0] for one in lists)):
                choice = (*base[:place], value, *base[place + 1 :])
                if choice not in seen and len(seen) < MAX_CHOICES:
                    seen.add(choice)
                    yield choice


def _case(name: str, expression: str, operands: Iterable[str]) -> Case:
    used = [value for value in VALUES if any(value in operand.replace("(", " ") for operand in operands)]
    ctes = ", ".join(f"{value}_ as materialized ({VALUES[value]})" for value in used)
    for value in used:
        expression = expression.replace(value, f"{value}_.v")
    source = f" from {', '.join(f'{value}_' for value in used)}" if used else ""
    # num_nulls() of a row counts nothing and shows nothing: the result itself is not sent.
    return Case(
        name, f"{f'with {ctes} ' if ctes else ''}select num_nulls(x) from (select {expression} as x{source}) as q"
    )


def timed(conn: Connection[Any], case: Case, *, statement_timeout: float = STATEMENT_TIMEOUT_SECONDS) -> Timing:
    """Run a case as the service would; `conn` is a superuser's or the gate's, in autocommit."""
    try:
        checked = check_sandbox_query(case.sql, tables=(STORED,))
    except SandboxViolation:
        return Timing(case, 0.0, "refused")
    started = time.perf_counter()
    ending = "result"
    try:
        conn.execute("BEGIN READ ONLY")
        statement = checked.statement({}, max_rows=10).sql
        for name, value in {
            "search_path": SEARCH_PATH,
            LARGEST_VALUE_SETTING: str(largest_value(statement)),
            "max_parallel_workers_per_gather": "0",
            "work_mem": "8MB",
            "jit": "off",
            "statement_timeout": str(round(statement_timeout * 1000)),
            "role": "sandbox_reader",
        }.items():
            conn.execute("SELECT set_config(%s, %s, true)", (name, value))
        started = time.perf_counter()
        conn.execute(statement.encode())
    except psycopg.OperationalError as error:
        if conn.closed:
            raise
        ending = error.sqlstate or "?"
    except psycopg.Error as error:
        ending = error.sqlstate or "?"
    seconds = time.perf_counter() - started
    _roll_back(conn)
    return Timing(case, seconds, ending)


def _roll_back(conn: Connection[Any]) -> None:
    """End the transaction; a timeout that comes as its statement ends cancels the next one, which may be ROLLBACK."""
    while conn.info.transaction_status != TransactionStatus.IDLE:
        with suppress(psycopg.errors.QueryCanceled):
            conn.execute("ROLLBACK")


def main() -> int:
    """Time every case and print the slowest; 1 when one ended too late."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="a superuser's or the gate's, of a log database")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    arguments = parser.parse_args()
    with psycopg.connect(arguments.url, autocommit=True) as conn:
        wanted = [case for case in (*cases(conn), *chains()) if arguments.only in case.name]
        timings = [timed(conn, case) for case in wanted]
    timings.sort(key=lambda timing: -timing.seconds)
    late = [timing for timing in timings if timing.seconds > ENDS_WITHIN_SECONDS]
    for timing in [*late, *timings[len(late) : len(late) + SLOWEST_SHOWN]]:
        sys.stdout.write(f"{timing.seconds:7.2f} s  {timing.ending:8} {timing.case.name:45} {timing.case.sql[-90:]}\n")
    endings: dict[str, int] = {}
    for timing in timings:
        endings[timing.ending] = endings.get(timing.ending, 0) + 1
    sys.stdout.write(f"{len(timings)} cases, {len(late)} ended late; endings: {endings}\n")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
