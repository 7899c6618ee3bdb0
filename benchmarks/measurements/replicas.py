"""A standby on the same machine: what a call costs there, and whether a read with a load's position is ever stale."""

from __future__ import annotations

import json
import os
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
SHIPPERS = 4
SOURCE = "rest_logs"
ENDPOINT = "bench.rows"
SQL = f"SELECT count(*) AS rows FROM {SOURCE} WHERE starts_with(event_message, @prefix)"
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def measure(stand: Stand, *, rounds: int, seconds: float) -> Iterator[Measured]:
    """Yield calls of a web server with a standby against one that knows the primary only, and stale reads."""
    with Installation(rows=STAND_ROWS, days=1, server_settings=SERVER_SETTINGS, replicas=1) as installation:
        installation.save(ENDPOINT, SQL, parameters={"prefix": "text"}, cache_seconds=0)
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
    secret: str = installation.console.do("issue", name="replicas", may_load=True)
    for label, sends_position in (("with its position", True), ("without its position", False)):
        with ThreadPoolExecutor(SHIPPERS) as pool:
            names = [f"{label} {number} " for number in range(SHIPPERS)]
            stale = sum(pool.map(partial(_load_and_read, installation, secret, sends_position), names))
        yield Measured(
            f"reads that see the load just before, {label}",
            f"{LOADS:,} loads",
            "reads",
            (LOADS - stale,),
            (LOADS,),
            target=1.0 if sends_position else 0.0,
            at_least=True,
            note=f"{SHIPPERS} callers, one standby; {stale:,} were stale",
        )


def _load_and_read(installation: Installation, secret: str, sends_position: bool, prefix: str) -> int:
    """Return how many reads did not see every row that their caller had loaded."""
    stale = 0
    with Caller(installation.port, secret) as caller:
        for loaded in range(1, LOADS // SHIPPERS + 1):
            row = {"project": PROJECT_NAME, "event_message": f"{prefix}{loaded}"}
            answer = caller.request(
                "POST", f"/api/logs?source={SOURCE}", body=json.dumps(row).encode(), content_type="application/json"
            )
            headers = {"x_log_position": answer.headers["x-log-position"]} if sends_position else {}
            (seen,) = caller.query(ENDPOINT, {"prefix": prefix}, **headers).rows
            stale += seen["rows"] < loaded
    return stale
