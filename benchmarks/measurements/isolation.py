"""What callers of a cached result feel while a slow query runs in every connection to the log database."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from urllib.parse import urlencode

from benchmarks.load import Load, call_without_pause
from benchmarks.measured import Measured, side_by_side
from benchmarks.stand import PROJECT_NAME, WEB_WORKERS, Stand

NAME = "isolation"
CALLERS = 4
SLOW = "bench.slow"
POOL_SIZE = 8  # ENDPOINTS_POOL_SIZE by default, in each process


def measure(stand: Stand, *, rounds: int, seconds: float) -> Iterator[Measured]:
    """Yield the 99th percentile of cached hits with the slow queries against the same without."""
    url = stand.endpoint_url("usage.api-counts", urlencode({"interval": "daily", "project": PROJECT_NAME}))
    stand.body(url)
    stand.installation.save(
        SLOW,
        "SELECT logs.counted(@label, @seconds::float8) AS label",
        parameters={"label": "text", "seconds": "number"},
        statement_timeout_seconds=60,
    )

    def load() -> Load:
        return call_without_pause(url, headers=stand.headers, connections=CALLERS, seconds=seconds)

    load()
    figures = []
    for number in range(rounds):
        calm = load()
        with every_connection_busy(stand, seconds=seconds + 2, label=f"round {number}"):
            busy = load()
        figures.append({"calm": calm.p99_seconds * 1000, "busy": busy.p99_seconds * 1000})
    yield Measured(
        "p99 of cached hits, a slow query in every database connection",
        "p99 without",
        "ms",
        side_by_side(figures, "busy"),
        side_by_side(figures, "calm"),
        target=1.5,
        at_least=False,
        note=f"{POOL_SIZE * WEB_WORKERS} slow queries, {CALLERS} callers",
    )


@contextmanager
def every_connection_busy(stand: Stand, *, seconds: float, label: str) -> Iterator[None]:
    """Let a slow query run in each of the pools' connections for the length of the block."""
    count = POOL_SIZE * WEB_WORKERS
    mark = stand.installation.servers.mark()

    def call(number: int) -> int:
        with stand.installation.caller() as caller:
            return caller.query(SLOW, {"label": f"{label} {number}", "seconds": seconds}).status

    with ThreadPoolExecutor(2 * count) as pool:
        # Which process takes a connection of ours is chance; what it has no connection left for is a 503.
        calls = [pool.submit(call, number) for number in range(2 * count)]
        stand.wait(lambda: len(stand.installation.servers.statements(mark, label=label)) >= count)
        stand.wait(lambda: sum(each.done() for each in calls) >= count)  # those without a connection
        yield
        statuses = [each.result() for each in calls]
    assert statuses.count(200) >= count, statuses
