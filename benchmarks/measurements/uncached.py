"""logs.all without caching: 100 rows of about 1 kB, eight callers without pause."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlencode

import psycopg

from benchmarks.limits import run_pgbench
from benchmarks.load import call_without_pause
from benchmarks.made_up_rows import fill
from benchmarks.measured import Measured, side_by_side
from benchmarks.stand import PROJECT_NAME, Stand, planner_settings, stored_statement, window

NAME = "uncached"
CALLERS = 8
ROWS = 30_000  # of about 1 kB, the newest of the table


def measure(stand: Stand, *, rounds: int, seconds: float) -> Iterator[Measured]:
    """Yield the service against pgbench, a plain Django view and FastAPI, all in turn within a round."""
    with psycopg.connect(stand.superuser_url, autocommit=True, cursor_factory=psycopg.RawCursor) as connection:
        fill(connection, ROWS, days=1)
    start, end = window(30)
    statement = stored_statement(
        "logs.all", {"project": PROJECT_NAME, "iso_timestamp_start": start, "iso_timestamp_end": end}
    )
    arguments = urlencode({"project": PROJECT_NAME, "iso_timestamp_start": start, "iso_timestamp_end": end})
    url = stand.endpoint_url("logs.all", arguments)
    body = stand.body(url)
    figures = []
    with ExitStack() as stack:
        django = stack.enter_context(stand.django_peer(statement, b"{}", tuned=False))
        tuned = stack.enter_context(stand.django_peer(statement, b"{}"))
        fastapi = stack.enter_context(stand.fastapi_peer(statement))
        targets = {
            "service": (url, stand.headers),
            "django": (f"{django.url}/rows", django.headers),
            "tuned django": (f"{tuned.url}/rows", tuned.headers),
            "fastapi": (f"{fastapi.url}/rows", fastapi.headers),
        }
        for target, headers in targets.values():
            call_without_pause(target, headers=headers, connections=CALLERS, seconds=2)  # plans, pools, caches
        for _ in range(rounds):
            rates = {
                name: call_without_pause(
                    target, headers=headers, connections=CALLERS, seconds=seconds
                ).requests_per_second
                for name, (target, headers) in targets.items()
            }
            rates["pgbench"] = run_pgbench(stand.superuser_url, statement, callers=CALLERS, seconds=seconds)
            rates["planned once"] = run_pgbench(
                stand.superuser_url,
                statement,
                callers=CALLERS,
                seconds=seconds,
                settings=planner_settings("logs.all"),
            )
            figures.append(rates)
    ours = side_by_side(figures, "service")
    name, note = "logs.all, 100 rows, uncached", f"{len(body):,} bytes a body"
    for against, label, target in (
        ("pgbench", "pgbench, the identical statement", 0.70),
        ("planned once", "the same under the endpoint's planner settings", 0.70),
        ("django", "a plain Django view with JSONRenderer", 3.5),
        ("tuned django", "the same, connections kept, statements prepared", 3.5),
        ("fastapi", "FastAPI + asyncpg + orjson", 1.0),
    ):
        theirs = side_by_side(figures, against)
        yield Measured(name, label, "requests/s", ours, theirs, target=target, at_least=True, note=note)
