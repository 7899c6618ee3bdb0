"""Ten million rows: logs.all over 200 partitions, usage.api-counts over a week. Takes half an hour and 40 GB."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Final

import psycopg

from benchmarks.made_up_rows import empty, fill
from benchmarks.measured import Measured
from benchmarks.measurements.sizes import DAYS, counts_time, rows_time
from benchmarks.stand import Stand

NAME = "ten-million"
MILLION: Final = 1_000_000
WEEK: Final = 7


def measure(stand: Stand, *, rounds: int, seconds: float) -> Iterator[Measured]:
    """Yield logs.all at ten million rows against a hundred thousand, and the rows a second of usage.api-counts."""
    with closing(psycopg.connect(stand.superuser_url, autocommit=True, cursor_factory=psycopg.RawCursor)) as connection:
        empty(connection)
        fill(connection, MILLION // 10, days=DAYS)
        small = rows_time(stand)
        fill(connection, 10 * MILLION - MILLION // 10, days=DAYS)
        yield Measured(
            "logs.all latency at 10,000,000 rows",
            "at 100,000 rows",
            "ms",
            (rows_time(stand),),
            (small,),
            target=1.3,
            at_least=False,
            note=f"{DAYS} partitions, the whole table as the window",
        )
        empty(connection)
        fill(connection, MILLION, days=WEEK)
        small = counts_time(connection)
        fill(connection, 9 * MILLION, days=WEEK)
        yield Measured(
            "usage.api-counts daily, 10,000,000 rows, rows a second",
            "at 1,000,000 rows",
            "rows/s",
            (10 * MILLION / counts_time(connection) * 1000,),
            (MILLION / small * 1000,),
            target=0.9,
            at_least=True,
            note=f"all rows within {WEEK} days",
        )
