"""The two endpoints over many rows: how their time grows, and what the extracted columns save."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from statistics import median
from time import perf_counter
from typing import Any, Final

import psycopg

from benchmarks.made_up_rows import empty, fill
from benchmarks.measured import Measured
from benchmarks.stand import PROJECT_NAME, STAND_DAYS, Stand, stored_statement, window
from endpoints.results.outcomes import Statement

NAME = "sizes"
SMALL, LARGE = 100_000, 1_000_000
DAYS: Final = STAND_DAYS
RUNS: Final = 5
# Each connection of the pools plans the query once; after so many calls most have.
WARMING_CALLS: Final = 100
CALLS: Final = 200
# What a user would write without extracted columns, over the same rows.
UNNESTED = """
SELECT date_trunc('day', t.timestamp, 'UTC') AS timestamp,
  count(*) FILTER (WHERE r ->> 'path' ~ '/rest') AS total_rest_requests,
  count(*) FILTER (WHERE r ->> 'path' ~ '/storage') AS total_storage_requests,
  count(*) FILTER (WHERE r ->> 'path' ~ '/auth') AS total_auth_requests,
  count(*) FILTER (WHERE r ->> 'path' ~ '/realtime') AS total_realtime_requests
FROM logs.edge_logs AS t
CROSS JOIN LATERAL jsonb_array_elements(t.metadata) AS m
CROSS JOIN LATERAL jsonb_array_elements(m -> 'request') AS r
WHERE t.timestamp >= now() - interval '168 hours' AND t.timestamp <= now() AND r ->> 'url' ~ $1::text
GROUP BY 1 ORDER BY 1
"""


def measure(stand: Stand, *, rounds: int, seconds: float) -> Iterator[Measured]:
    """Yield the times over a large table against those over a small one, and against unnesting."""
    with closing(psycopg.connect(stand.superuser_url, autocommit=True, cursor_factory=psycopg.RawCursor)) as connection:
        empty(connection)
        fill(connection, SMALL, days=7)
        fill(connection, SMALL // 10, days=DAYS)
        small_latency, small_counts = rows_time(stand), counts_time(connection)
        fill(connection, LARGE - SMALL, days=7)
        fill(connection, LARGE // 10, days=DAYS)
        large_latency, large_counts = rows_time(stand), counts_time(connection)
        unnested = median(_times(connection, Statement(UNNESTED, (PROJECT_NAME,))))
        sizes = f"{LARGE:,} rows in 7 days, {LARGE // 10:,} more in {DAYS} partitions"
        yield Measured(
            "usage.api-counts daily",
            "the same query unnesting jsonb",
            "ms",
            (large_counts,),
            (unnested,),
            target=0.15,
            at_least=False,
            note=sizes,
        )
        yield Measured(
            "logs.all latency",
            f"at {SMALL:,} rows",
            "ms",
            (large_latency,),
            (small_latency,),
            target=1.3,
            at_least=False,
            note=sizes,
        )
        yield Measured(
            "usage.api-counts daily, rows a second",
            f"at {SMALL:,} rows",
            "rows/s",
            (LARGE / large_counts * 1000,),
            (SMALL / small_counts * 1000,),
            target=0.9,
            at_least=True,
            note=sizes,
        )


def rows_time(stand: Stand) -> float:
    """Return the milliseconds of a call of logs.all over the whole table, as its caller sees them."""
    start, end = window(DAYS)
    arguments = {"project": PROJECT_NAME, "iso_timestamp_start": start, "iso_timestamp_end": end}
    with stand.installation.caller() as caller:
        answers = [caller.query("logs.all", arguments) for _ in range(WARMING_CALLS + CALLS)]
    assert all(len(answer.rows) == 100 for answer in answers)
    return median(answer.seconds for answer in answers[WARMING_CALLS:]) * 1000


def counts_time(connection: psycopg.Connection[Any]) -> float:
    """Return the milliseconds of usage.api-counts daily on a connection of its own."""
    arguments = {"interval": "daily", "project": PROJECT_NAME}
    return median(_times(connection, stored_statement("usage.api-counts", arguments)))


def _times(connection: psycopg.Connection[Any], statement: Statement, *, runs: int = RUNS) -> list[float]:
    """Return the milliseconds of some runs, the first one left out."""
    times = []
    for _ in range(runs + 1):
        started = perf_counter()
        connection.execute(statement.sql, statement.arguments, prepare=True).fetchall()
        times.append((perf_counter() - started) * 1000)
    return times[1:]
