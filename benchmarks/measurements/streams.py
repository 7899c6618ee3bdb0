"""Five million rows as one stream: what the web process needs for them, and what other callers feel meanwhile."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

from benchmarks.load import call_at_pace
from benchmarks.measured import Measured, side_by_side
from benchmarks.stand import PROJECT_NAME, Stand, window
from tests.live.processes import children

NAME = "streams"
STREAM = "bench.stream"
ROWS, FEW_ROWS = 5_000_000, 10_000
MEGABYTE = 1 << 20
CALLS_PER_SECOND = 100.0
NDJSON = "application/x-ndjson"
# As wide as a log row without its metadata; in FROM, PostgreSQL would store all numbers before the first row.
SQL = (
    "SELECT n, now() AS timestamp, 'GET | 200 | /orders/' || n AS event_message"
    " FROM (SELECT generate_series(1, @rows::bigint) AS n) AS numbers"
)
LONGEST_SECONDS = 600.0


def measure(stand: Stand, *, rounds: int, seconds: float) -> Iterator[Measured]:
    """Yield the memory after five million rows beside that after a few, and the p99 of calls beside a stream."""
    stand.installation.save(STREAM, SQL, parameters={"rows": "integer"}, stream_rows=2 * ROWS, cache_seconds=0)
    yield _memory(stand)
    yield from _others(stand, rounds, seconds)


def _memory(stand: Stand) -> Measured:
    for _ in range(8):  # every process has sent one
        with streaming(stand, FEW_ROWS) as few:
            few.wait()
    first = _resident(stand)
    started = time.monotonic()
    with streaming(stand, ROWS) as reader:
        highest = first
        while reader.poll() is None:
            highest = max(highest, _resident(stand))
            time.sleep(0.1)
    return Measured(
        f"resident memory of the web processes while {ROWS:,} rows are streamed",
        f"after {FEW_ROWS:,}",
        "MB",
        (highest,),
        (first,),
        target=1.1,
        at_least=False,
        note=f"{ROWS / (time.monotonic() - started):,.0f} rows a second",
    )


def _others(stand: Stand, rounds: int, seconds: float) -> Iterator[Measured]:
    start, end = window(1)
    arguments = {"project": PROJECT_NAME, "iso_timestamp_start": start, "iso_timestamp_end": end}
    urls = [
        stand.endpoint_url("usage.api-counts", urlencode({"interval": "daily", "project": PROJECT_NAME})),
        stand.endpoint_url("logs.all", urlencode(arguments)),
    ]

    def p99s() -> tuple[float, ...]:
        secret = stand.installation.secret
        return call_at_pace(urls, secret=secret, calls_per_second=CALLS_PER_SECOND, seconds=seconds)

    p99s()
    figures = []
    for _ in range(rounds):
        calm = p99s()
        with streaming(stand, 2 * ROWS) as reader:
            busy = p99s()
            assert reader.poll() is None, "the stream was over too early"
        figures.append(
            {
                **{f"calm {name}": each * 1000 for name, each in zip(("cached", "uncached"), calm, strict=True)},
                **{f"busy {name}": each * 1000 for name, each in zip(("cached", "uncached"), busy, strict=True)},
            }
        )
    for name, what in (("cached", "cached hits"), ("uncached", "logs.all")):
        yield Measured(
            f"p99 of {what}, {CALLS_PER_SECOND / 2:g} a second, beside a stream",
            "p99 without",
            "ms",
            side_by_side(figures, f"busy {name}"),
            side_by_side(figures, f"calm {name}"),
            target=1.2,
            at_least=False,
            note="its reader takes what it gets, from a process with the lowest priority",
        )


@contextmanager
def streaming(stand: Stand, rows: int) -> Iterator[subprocess.Popen[bytes]]:
    """Read a stream in a process of its own for the length of the block."""
    url = stand.endpoint_url(STREAM, urlencode({"rows": rows}))
    command = ["nice", "-n", "19", "curl", "--silent", "--show-error", "--fail", "--output", os.devnull]
    command += ["--max-time", str(LONGEST_SECONDS), "--header", f"Accept: {NDJSON}"]
    for name, value in stand.headers.items():
        command += ["--header", f"{name}: {value}"]
    reader = subprocess.Popen([*command, url])
    try:
        yield reader
    finally:
        if reader.poll() is None:
            reader.kill()
        reader.wait()


def _resident(stand: Stand) -> float:
    """Return the memory of the largest web process, in megabytes."""
    pages = [int(Path(f"/proc/{each}/statm").read_text().split()[1]) for each in children(stand.installation.web.id)]
    return max(pages) * os.sysconf("SC_PAGE_SIZE") / MEGABYTE
