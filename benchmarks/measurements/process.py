"""One process of the service: what it needs to start, to check a sandbox query, and after many calls."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from urllib.parse import urlencode

from benchmarks.load import call_without_pause
from benchmarks.measured import Measured, against_constant
from benchmarks.stand import PROJECT_NAME, Stand
from tests.live.processes import PROJECT, children

NAME = "process"
MEGABYTE = 1 << 20
FIRST_CALLS, ALL_CALLS = 1_000, 100_000
SANDBOX_SQL = (
    "select timestamp, event_message, metadata->0->'request'->0->>'path' as path from edge_logs"
    " where metadata->0->'response'->0->>'status_code' = '500' order by timestamp desc limit 20"
)
# Run in a process of its own, so that nothing else is counted: CPU of the check, of the whole call in this process, and
# of the call in PostgreSQL (proc(5), schedstat: nanoseconds).
SHARE_CODE = """
import os, sys, time
from pathlib import Path
import psycopg
NEW = sys.argv.pop() == "new"
from config.wsgi import application
from django.test import RequestFactory
from endpoints.calling import consumer_queries
checking = 0.0
original = consumer_queries.check_query
def counted(*arguments):
    global checking
    started = time.thread_time()
    try:
        return original(*arguments)
    finally:
        checking += time.thread_time() - started
consumer_queries.check_query = counted
environ = RequestFactory().get("/api/endpoints/query/logs.all", headers={"host": "127.0.0.1"}).environ
secret, query_string = sys.argv[1:]
def call(number):
    if not NEW:
        number = 0
    text = query_string.replace("limit+20", f"limit+{20 + number}")
    made = {**environ, "HTTP_X_API_KEY": secret, "QUERY_STRING": text}
    status = []
    b"".join(application(made, lambda line, headers: status.append(line)))
    assert status == ["200 OK"], status
def in_postgres():
    return sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in server_processes) / 1e9
for number in range(20):
    call(number)
with psycopg.connect(os.environ["LOGS_SUPERUSER_URL"]) as connection:
    query = "SELECT pid FROM pg_stat_activity WHERE usename = 'logs_gate'"
    server_processes = [pid for (pid,) in connection.execute(query)]
checking, started, there = 0.0, time.thread_time(), in_postgres()
for number in range(20, 220):
    call(number)
print(checking, time.thread_time() - started, in_postgres() - there)
"""


def measure(stand: Stand, *, rounds: int, seconds: float) -> Iterator[Measured]:
    """Yield the import time of config.wsgi, the checker's share of a call, and resident memory after many calls."""
    yield _start(stand, rounds)
    yield from _checker_shares(stand, texts="new", name="sandbox check of a new text")
    yield from _checker_shares(stand, texts="same", name="the same text again")
    yield from _memory(stand)


def _start(stand: Stand, rounds: int) -> Measured:
    code = "import time; started = time.perf_counter(); import config.wsgi; print(time.perf_counter() - started)"
    times = [float(_python(stand, code)) for _ in range(rounds + 1)][1:]  # the first run compiles
    return against_constant("import of config.wsgi", median(times), limit=1.2, unit="s")


def _checker_shares(stand: Stand, *, texts: str, name: str) -> Iterator[Measured]:
    query_string = urlencode({"project": PROJECT_NAME, "sql": SANDBOX_SQL})
    printed = _python(stand, SHARE_CODE, stand.installation.secret, query_string, texts).splitlines()[-1]
    checking, here, in_postgres = map(float, printed.split())
    share = 100 * checking / (here + in_postgres)
    yield against_constant(f"{name}, share of the request's CPU time", share, limit=10, unit="%")
    share = 100 * checking / here
    yield against_constant(f"{name}, of the web process's part of it", share, limit=10, unit="%")


def _memory(stand: Stand) -> Iterator[Measured]:
    workers = children(stand.installation.web.id)
    cached = stand.endpoint_url("usage.api-counts", urlencode({"interval": "daily", "project": PROJECT_NAME}))
    rows = stand.endpoint_url("logs.all", urlencode({"project": PROJECT_NAME}))
    sandbox = stand.endpoint_url("logs.all", urlencode({"project": PROJECT_NAME, "sql": SANDBOX_SQL}))
    _call(stand, (cached, rows, sandbox), FIRST_CALLS)
    early = max(map(resident_bytes, workers)) / MEGABYTE
    _call(stand, (cached, rows, sandbox), ALL_CALLS - FIRST_CALLS)
    late = max(map(resident_bytes, workers)) / MEGABYTE
    name = f"resident memory of a web worker after {ALL_CALLS:,} mixed calls"
    yield Measured(name, f"after {FIRST_CALLS:,}", "MiB", (late,), (early,), target=1.1, at_least=False)
    yield against_constant(name, late, limit=150, unit="MiB")


def _call(stand: Stand, urls: tuple[str, ...], calls: int) -> None:
    """Make at least so many calls, 18 cached ones for each of the others."""
    made = 0
    while made < calls:
        for url, seconds in zip(urls, (3.0, 1.0, 1.0), strict=True):
            seconds = min(seconds, 1.0) if calls <= FIRST_CALLS else seconds
            load = call_without_pause(url, headers=stand.headers, connections=8, seconds=seconds)
            made += int(load.requests_per_second * seconds)


def resident_bytes(process: int) -> int:
    """Return what of a process is in memory, shared libraries included (proc(5), statm)."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _python(stand: Stand, code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=PROJECT,
        env=stand.installation.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
