"""A standby on the same machine: what a call costs there, and whether a read just after a load is ever stale."""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from benchmarks.load import call_without_pause
from benchmarks.measured import Measured, side_by_side
from benchmarks.stand import PROJECT_NAME, SERVER_SETTINGS, STAND_ROWS, WEB_THREADS, WEB_WORKERS, Stand
from tests.live.calls import Caller, until
from tests.live.installation import Installation
from tests.live.processes import Process, children
from tests.live.replicated import server_processes

NAME = "replicas"
CALLERS = 8
LOADS = 10_000
LOADING = threading.Semaphore(4)  # no load is refused, because too many come at once
SHIPPERS = 16  # each waits for a tenth of a second in a cached call with no-cache
SOURCE = "rest_logs"
ENDPOINT, CACHED = "bench.rows", "bench.cached"
PLAIN = "plainly and uncached"
READS = {  # in this order, after each load
    PLAIN: (ENDPOINT, {}),
    "uncached by no-cache": (ENDPOINT, {"cache_control": "no-cache"}),
    "cached by no-cache": (CACHED, {"cache_control": "no-cache"}),
    "then plainly from the cache": (CACHED, {}),
}
SQL = f"SELECT count(*) AS rows FROM {SOURCE} WHERE starts_with(event_message, @prefix)"
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def measure(stand: Stand, *, rounds: int, seconds: float) -> Iterator[Measured]:
    """Yield calls of a web server with a standby against one that knows the primary only, and stale reads."""
    with Installation(rows=STAND_ROWS, days=1, server_settings=SERVER_SETTINGS, replicas=1) as installation:
        for name, cache_seconds in ((ENDPOINT, 0), (CACHED, 600)):
            installation.save(name, SQL, parameters={"prefix": "text"}, cache_seconds=cache_seconds)
        installation.servers.caught_up()
        yield from _costs(installation, rounds=rounds, seconds=seconds)
        yield from _stale_reads(installation)


def _costs(installation: Installation, *, rounds: int, seconds: float) -> Iterator[Measured]:
    servers = installation.servers
    gate = conninfo_to_dict(str(servers.urls.logs_gate_url))
    primary = {**gate, "host": str(gate["host"]).split(",")[-1]}
    del primary["target_session_attrs"]
    figures = []
    with installation.another_web(workers=WEB_WORKERS, threads=WEB_THREADS, LOGS_GATE_URL=make_conninfo(**primary)) as (
        alone,
        port,
    ):
        contestants = {"with": (installation.web, installation.port), "without": (alone, port)}
        until(lambda: installation.server_states() == ["serves", "serves"], seconds=20)
        for _, its_port in contestants.values():
            _call(installation, its_port, seconds=2)  # plans, pools
        for number in range(rounds):
            figures.append(
                {
                    figure: value
                    for name in sorted(contestants, reverse=bool(number % 2))
                    for figure, value in _round(installation, name, *contestants[name], seconds=seconds).items()
                }
            )
    for unit, target, at_least in (("requests/s", 0.97, True), ("ms of CPU a call", 1.03, False)):
        yield Measured(
            "logs.all, 100 rows, uncached, with a standby",
            "on the primary alone",
            unit,
            side_by_side(figures, f"with {unit}"),
            side_by_side(figures, f"without {unit}"),
            target=target,
            at_least=at_least,
            note="web processes, primary and standby on one machine",
        )


def _round(installation: Installation, name: str, web: Process, port: int, *, seconds: float) -> dict[str, float]:
    servers = installation.servers
    processes = [web.id, server_processes(servers.standby)[0], server_processes(servers.primary)[0]]
    before = sum(map(_cpu_seconds, processes))
    load = _call(installation, port, seconds=seconds)
    spent = sum(map(_cpu_seconds, processes)) - before
    calls = load * seconds
    return {f"{name} requests/s": load, f"{name} ms of CPU a call": spent / calls * 1000}


def _call(installation: Installation, port: int, *, seconds: float) -> float:
    url = f"http://127.0.0.1:{port}/api/endpoints/query/logs.all?{urlencode({'project': PROJECT_NAME})}"
    headers = {"X-API-KEY": installation.secret}
    return call_without_pause(url, headers=headers, connections=CALLERS, seconds=seconds).requests_per_second


def _cpu_seconds(process: int) -> float:
    """Return the time that a process and its descendants have used (proc(5), fields 14 to 17)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS_PER_SECOND + sum(map(_cpu_seconds, children(process)))


def _stale_reads(installation: Installation) -> Iterator[Measured]:
    # One each, because a call with no-cache takes a turn of its access token for a tenth of a second.
    secrets = [installation.console.do("issue", name=f"replicas {number}", may_load=True) for number in range(SHIPPERS)]
    over, stale = threading.Event(), Counter[str]()
    with ThreadPoolExecutor(SHIPPERS + 1) as pool:
        lagging = pool.submit(_let_replay_lag, installation, over)
        try:
            for counted in pool.map(partial(_load_and_read, installation), secrets):
                stale += counted
        finally:
            over.set()
        lagging.result()
    for label in READS:
        yield Measured(
            f"reads that see the load just before, {label}",
            f"{LOADS:,} loads",
            "reads",
            (LOADS - stale[label],),
            (LOADS,),
            target=0.0 if label == PLAIN else 1.0,
            at_least=True,
            note=f"{SHIPPERS} callers, a standby that lags up to two seconds; {stale[label]:,} were stale",
        )


def _let_replay_lag(installation: Installation, over: threading.Event) -> None:
    """Let the standby pause again and again, never for so long that it takes no calls."""
    while not over.is_set():
        with installation.servers.replay_paused():
            over.wait(2)
        over.wait(0.2)


def _load_and_read(installation: Installation, secret: str) -> Counter[str]:
    """Return how many reads of each kind did not see every row that their caller had loaded."""
    stale: Counter[str] = Counter()
    prefix = f"{secret[:16]} "  # the public part of the access token
    with Caller(installation.port, secret) as caller:
        for loaded in range(1, LOADS // SHIPPERS + 1):
            row = {"project": PROJECT_NAME, "event_message": f"{prefix}{loaded}"}
            with LOADING:
                answer = caller.request(
                    "POST", f"/api/logs?source={SOURCE}", body=json.dumps(row).encode(), content_type="application/json"
                )
            assert answer.status == 200, answer.body
            for label, (endpoint, headers) in READS.items():
                (seen,) = caller.query(endpoint, {"prefix": prefix}, **headers).rows
                stale[label] += seen["rows"] < loaded
    return stale
