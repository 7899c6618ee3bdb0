"""What a call costs beside another commit: CPU of web processes, PostgreSQL and Redis together, and time.

.venv/bin/python -m benchmarks.paired HEAD~1                      all kinds of calls, seven runs, about eight minutes
.venv/bin/python -m benchmarks.paired 0e17f37 --only cached sandbox --runs 3

Three installations stand side by side: this tree, the other commit, and the other commit once more. A run calls each of
them in turn by bursts, one caller on one connection; a figure is the median of the runs' ratios. The third installation
says what the machine's noise makes of two that are the same (A/A).
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final
from urllib.parse import urlencode

import psycopg
from redis import Redis

PROJECT: Final = Path(__file__).resolve().parent.parent
BURSTS: Final = 6  # of each contestant in a run
ROWS: Final = 20_000
QUERY: Final = "/api/endpoints/query/"
LOGS: Final = f"{QUERY}logs.all?project=acme"
LOAD: Final = "/api/logs?source=edge_logs"
JSON: Final = {"Content-Type": "application/json"}
MISSES: Final = "bench.misses"
MISSED_SQL: Final = (
    "SELECT id, timestamp, event_message, metadata, @n AS n FROM edge_logs WHERE project = 'acme'"
    " ORDER BY timestamp DESC, id LIMIT 100"
)
SANDBOX_SQL: Final = (
    "select m.value -> 'response' ->> 'status_code' as status, count(*) as n from edge_logs"
    " cross join jsonb_array_elements(metadata) as m(value) group by 1 order by 2 desc, 1 limit 20"
)


def _load(rows: int, number: int) -> bytes:
    """Return a load of rows that no other load has; a tenth of the keys that real rows have."""
    metadata = {"request": {"method": "GET", "path": f"/orders/{number}"}, "response": {"status_code": 200}}
    return json.dumps(
        [
            {"id": f"{number:09}-{row:04}", "project": "acme", "event_message": "GET | 200", "metadata": metadata}
            for row in range(rows)
        ]
    ).encode()


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of call: its path, in which {} becomes the call's number, calls a burst, and its body, if it has one."""

    path: str
    calls: int
    sql: str = ""
    posted: str = ""
    rows: int = 0  # of a load

    def request(self, number: int) -> tuple[str, str, bytes | None, dict[str, str]]:
        if self.rows:
            return "POST", self.path, _load(self.rows, number), JSON
        if self.posted:
            return "POST", self.path, self.posted.encode(), JSON
        return "GET", f"{self.path}&{urlencode({'sql': self.sql})}" if self.sql else self.path.format(number), None, {}


KINDS: Final = {
    "cached": Kind(f"{QUERY}usage.api-counts?interval=hourly&project=acme", 300),
    "uncached": Kind(LOGS, 60),
    "miss": Kind(f"{QUERY}{MISSES}?n={{}}", 40),  # 200 kB, cached for a caller who never comes
    "redacted": Kind(LOGS, 20),
    "sandbox": Kind(LOGS, 40, sql=SANDBOX_SQL),
    "lql": Kind(f"{LOGS}&lql=m.response.status_code%3A%3E%3D500%20s%3Aevent_message", 40),
    "post": Kind(f"{QUERY}logs.all", 60, posted='{"project": "acme"}'),
    "load-1": Kind(LOAD, 60, rows=1),
    "load-500": Kind(LOAD, 8, rows=500),
}


class Contestant:
    """A running installation of one tree."""

    def __init__(self, tree: Path, stack: ExitStack) -> None:
        environment = {**os.environ, "PYTHONPATH": str(tree)}
        command = [sys.executable, __file__, "--serve"]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, cwd=tree, env=environment, stdin=pipe, stdout=pipe, text=True)
        stack.callback(process.wait)
        assert process.stdin is not None
        stack.callback(process.stdin.close)
        self._process = process
        self._number = 0

    def wait_until_ready(self) -> None:
        assert self._process.stdout is not None
        said: dict[str, Any] = json.loads(self._process.stdout.readline())
        self._roots: list[int] = said["processes"]
        self._secrets: dict[str, str] = said["secrets"]
        self._connection = http.client.HTTPConnection("127.0.0.1", said["port"], timeout=60)

    def burst(self, name: str) -> tuple[float, float]:
        """Return the seconds of CPU, and the seconds, that a burst of calls took."""
        kind = KINDS[name]
        headers = {"X-API-KEY": self._secrets["load" if kind.rows else "query"]}
        headers |= {"SVC-ENDPOINT-REDACT-PII": "true"} if name == "redacted" else {}
        self._connection.close()  # the server may have closed it while the others had their turns
        cpu, started = self._cpu_seconds(), time.perf_counter()
        for _ in range(kind.calls):
            self._number += 1
            method, path, body, more = kind.request(self._number)
            self._connection.request(method, path, body, headers | more)
            answer = self._connection.getresponse()
            content = answer.read()
            if answer.status != 200:
                raise RuntimeError(f"{name}: {answer.status} {content[:500]!r}")
        elapsed = time.perf_counter() - started
        return self._cpu_seconds() - cpu, elapsed

    def _cpu_seconds(self) -> float:
        return sum(map(_cpu_seconds, self._roots))


def _cpu_seconds(process: int) -> float:
    """Return what a process has used, with its children, those that have ended too."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:  # it has ended meanwhile: its parent has its figures
        return 0.0
    # proc(5): utime, stime, cutime, cstime, in ticks.
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK") + sum(_cpu_seconds(int(child)) for child in children)


def serve() -> None:
    """Run an installation of the tree in the working folder, say where it is, and stop it at the end of stdin."""
    sys.path[0] = str(Path.cwd())
    from tests.live.installation import Installation

    settings = {"shared_buffers": "256MB", "fsync": "off", "synchronous_commit": "off"}
    with Installation(rows=ROWS, days=7, server_settings=settings) as installation:
        installation.save(MISSES, MISSED_SQL, parameters={"n": "integer"}, cache_seconds=600)
        with psycopg.connect(installation.environment["DATABASE_URL"]) as connection:
            backend = connection.info.backend_pid
        postmaster = int(Path(f"/proc/{backend}/stat").read_text().rpartition(")")[2].split()[1])
        redis = int(Redis.from_url(installation.environment["REDIS_URL"]).info("server")["process_id"])
        secret = installation.console.do("issue", name="loads", may_load=True, no_endpoints=True)
        said: dict[str, Any] = {"port": installation.port, "processes": [installation.web.id, postmaster, redis]}
        said["secrets"] = {"query": installation.secret, "load": secret}
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()
        sys.stdin.read()


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """Yield a folder with the files of a commit."""
    with tempfile.TemporaryDirectory(prefix="endpoints-paired-") as folder:
        Path(folder).chmod(0o755)
        archive = subprocess.run(["git", "archive", commit], cwd=PROJECT, check=True, stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        yield Path(folder)


def compare(commit: str, names: Sequence[str], *, runs: int) -> None:
    """Print a line for each kind of call."""
    with ExitStack() as stack:
        other = stack.enter_context(checked_out(commit))
        contestants = [Contestant(tree, stack) for tree in (PROJECT, other, other)]
        for each in contestants:
            each.wait_until_ready()
        line = "{:10} {:>10} {:>10} {:>9} {:>9} {:>9} {:>9}   {}"
        columns = ("CPU ms", "before", "CPU", "A/A", "time", "A/A", "CPU ratios of the runs")
        sys.stdout.write(line.format("a call", *columns) + "\n")
        for name in names:
            for each in contestants:
                each.burst(name)  # plans, caches and connections are warm in the runs
            figures = [_run(contestants, name, run) for run in range(runs)]
            ours, theirs = (median(run[number][0] for run in figures) * 1000 for number in (0, 1))
            cpu = sorted(run[0][0] / run[1][0] for run in figures)
            ratios = [
                median(cpu),
                median(run[2][0] / run[1][0] for run in figures),
                median(run[0][1] / run[1][1] for run in figures),
                median(run[2][1] / run[1][1] for run in figures),
            ]
            spread = f"{cpu[0]:.3f} to {cpu[-1]:.3f}"
            cells = [f"{ours:.3f}", f"{theirs:.3f}", *(f"{ratio:.3f}" for ratio in ratios)]
            sys.stdout.write(line.format(name, *cells, spread) + "\n")
            sys.stdout.flush()


def _run(contestants: Sequence[Contestant], name: str, run: int) -> list[tuple[float, float]]:
    """Return the seconds of CPU and the seconds a call took for each contestant, in bursts that take turns."""
    sums = [[0.0, 0.0] for _ in contestants]
    for burst in range(BURSTS):
        for turn in range(len(contestants)):
            number = (turn + burst + run) % len(contestants)
            cpu, elapsed = contestants[number].burst(name)
            sums[number][0] += cpu
            sums[number][1] += elapsed
    calls = KINDS[name].calls * BURSTS
    return [(cpu / calls, elapsed / calls) for cpu, elapsed in sums]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", nargs="?", help="what to compare this tree with")
    parser.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS), help="kinds of calls; default: all")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
    elif options.commit is None:
        parser.error("name the commit to compare with")
    else:
        compare(options.commit, options.only, runs=options.runs)


if __name__ == "__main__":
    main()
