"""No function or operator of the allowlist runs on past its time limit, however large its operands are.

Each overload with one choice of operands, and the guarded ones with all: `python -m tests.fuzz.large_operands` tries
the rest, and takes minutes. That one holds each case to two seconds; here a busy machine has five times as long, which
an unguarded one misses by far: it takes half a minute to several.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import psycopg
import pytest

from logsources.guards import GUARD_SQLSTATE, GUARDED_FUNCTIONS
from logsources.rows import MAX_ROW_BYTES
from tests.fuzz.large_operands import ENDS_WITHIN_SECONDS, Case, cases, chains, stored_chains, timed

pytestmark = pytest.mark.sql

QUERY_CANCELED = "57014"
CHECK_VIOLATION = "23514"  # a link would make more than may be built
WITHIN_SECONDS = 5 * ENDS_WITHIN_SECONDS
GUARDED_SIGNS = (" ~~ ", " !~~* ", " && ", " @> ", "jsonb - ", " || ", " ?| ")


def is_guarded(case: Case) -> bool:
    return case.name.partition("(")[0] in GUARDED_FUNCTIONS or any(sign in case.name for sign in GUARDED_SIGNS)


def test_everything_allowed_ends_in_time(superuser: psycopg.Connection[Any]) -> None:
    chosen = {case.sql: case for case in cases(superuser, choices=1)}
    chosen |= {case.sql: case for case in cases(superuser, choices=3) if is_guarded(case)}
    timings = [timed(superuser, case, statement_timeout=0.2) for case in chosen.values()]
    endings = Counter(timing.ending for timing in timings)
    assert [timing for timing in timings if timing.seconds > WITHIN_SECONDS] == []
    # Most of them do run, and the guards do refuse.
    assert endings["result"] > len(timings) / 4
    assert endings[GUARD_SQLSTATE] + endings[CHECK_VIOLATION] > 100
    assert len(timings) > 700


def test_a_chain_of_calls_in_one_row_ends_in_time(superuser: psycopg.Connection[Any]) -> None:
    # PostgreSQL looks at its clock between rows: the longer the chain, the smaller what it may build.
    timings = [timed(superuser, case, statement_timeout=0.2) for case in chains(lengths=(160,))]
    assert [timing for timing in timings if timing.seconds > WITHIN_SECONDS] == []
    assert {timing.ending for timing in timings} <= {"result", QUERY_CANCELED, CHECK_VIOLATION}
    assert sum(timing.ending != CHECK_VIOLATION for timing in timings) > len(timings) / 2


def test_a_chain_of_calls_over_a_stored_value_ends_in_time(superuser: psycopg.Connection[Any]) -> None:
    # A row may have a larger value than a long query may build: the slow functions look at the clock at each call.
    superuser.execute(f"CREATE TEMPORARY TABLE stored AS SELECT repeat(' ', {MAX_ROW_BYTES}) AS v")
    superuser.execute("GRANT SELECT ON stored TO sandbox_reader")
    timings = [timed(superuser, case, statement_timeout=0.2) for case in stored_chains()]
    endings = (QUERY_CANCELED, CHECK_VIOLATION)  # what is built from it has the bound of built values
    assert [timing for timing in timings if timing.seconds > WITHIN_SECONDS or timing.ending not in endings] == []
    assert sum(timing.ending == QUERY_CANCELED for timing in timings) > len(timings) / 2


def test_a_row_computes_with_large_numerics_in_time(superuser: psycopg.Connection[Any]) -> None:
    # Unbounded, 290 divisions of 131,000 digits by 65,500 take a minute, and so does variance() of as many.
    digits = (
        "(select string_agg((n::bigint * n * n % 1000003 % 10)::text, '') from generate_series(1, {}) as n)::numeric"
    )
    large = f"select {digits.format(131_000)} as a, {digits.format(65_500)} as b offset 0"
    links = ("a / b", "a % b", "b * b", "mod(a, b)", "variance(b + {})", "ln(a)", "1.5 ^ b", "exp(b)")
    for link in links:
        chain = " + ".join(link.format(number) for number in range(290))
        timing = timed(superuser, Case(link, f"select {chain} from ({large}) as q"), statement_timeout=0.2)
        assert timing.seconds < ENDS_WITHIN_SECONDS, timing
        # A busy machine needs longer than the timeout to make the digits, and that can be interrupted.
        assert timing.ending in (GUARD_SQLSTATE, CHECK_VIOLATION, QUERY_CANCELED), timing


def test_a_row_computes_with_the_largest_numerics_in_time(superuser: psycopg.Connection[Any]) -> None:
    fits = "select '{0}.{1}'::numeric as a, '1.{1}'::numeric as b, '{2}.{2}'::numeric as c offset 0"
    largest = fits.format("7" * 480, "7" * 240, "7" * 90)
    links = ("a * a", "a / b", "a % b", "sqrt(a)", "gcd(a, b)", "stddev(a + {})", "ln(c)", "log(2, c)", "c ^ 2.5")
    for link in links:
        chain = " + ".join(link.format(number) for number in range(290))
        timing = timed(superuser, Case(link, f"select {chain} from ({largest}) as q"), statement_timeout=5.0)
        assert timing.seconds < ENDS_WITHIN_SECONDS, timing
        assert timing.ending == "result", timing
