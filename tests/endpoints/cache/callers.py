"""A process full of callers that want the same result at the same moment: `python -m … '<JSON of a Party>'`.

It says "ready", calls when a line comes in, and then prints what each caller got. Where runs wait to end, it says
before that when all callers are in one flight, of which one leads.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import redis

from tests.files import PROJECT
from tests.live.calls import until

RUNS = "test:runs"  # how often the query ran, over all processes
MAY_END = "test:may-end"  # a list that lets runs end as soon as it has an element
PATIENCE_SECONDS = 60  # for the machine


@dataclass(frozen=True, slots=True)
class Party:
    """`fails` names an error class; "" makes a body of random bytes, so that equal bytes prove a shared run.

    With `waits_to_end` a run goes on until the test lets it end (`let_runs_end`), then for as long as runs take.
    """

    endpoint_id: str
    callers: int = 1
    run_seconds: float = 0.3
    lease_seconds: float = 20.0
    fails: str = ""
    body_bytes: int = 100_000
    waits_to_end: bool = False


@dataclass(frozen=True, slots=True)
class Got:
    """What one caller got: the digest of the body, or the error."""

    body: str
    error: str
    role: str
    shared: bool
    seconds: float


class Child:
    """Such a process, ready to call."""

    def __init__(self, party: Party, *, redis_url: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.endpoints.cache.callers", json.dumps(asdict(party))],
            cwd=PROJECT,
            env={
                **os.environ,
                "REDIS_URL": redis_url,
                "COUNTER_URL": os.environ["REDIS_URL"],  # the suite's: runs count while the cache's Redis is broken
                "ENDPOINTS_WAITING_CALLS": "100",  # there are more threads than in a web process
                "DJANGO_SETTINGS_MODULE": "config.settings",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def wait_until_ready(self) -> None:
        self._hear("ready")

    def wait_until_all_are_in(self) -> None:
        """Return when its callers are in one flight; only of a party whose runs wait to end."""
        self._hear("all in")

    def call(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def results(self) -> list[Got]:
        output, _ = self.process.communicate(timeout=2 * PATIENCE_SECONDS)
        return [Got(**got) for got in json.loads(output)]

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()

    def _hear(self, word: str) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == f"{word}\n"


def start_flights(*parties: Party, redis_url: str) -> list[Child]:
    """Return the processes once all callers of each are in one flight; their runs wait to end."""
    children = start(*parties, redis_url=redis_url)
    for child in children:
        child.call()
    for child in children:
        child.wait_until_all_are_in()
    return children


def start(*parties: Party, redis_url: str) -> list[Child]:
    children = [Child(party, redis_url=redis_url) for party in parties]
    for child in children:
        child.wait_until_ready()
    return children


def let_runs_end(suite: redis.Redis) -> None:
    suite.rpush(MAY_END, 1)


def call_together(parties: Sequence[Party], *, redis_url: str) -> list[list[Got]]:
    """Let all processes call at once and return what their callers got."""
    children = start(*parties, redis_url=redis_url)
    for child in children:
        child.call()
    return [child.results() for child in children]


def _main(party: Party) -> None:
    from endpoints import errors
    from endpoints.cache import CachePolicy, flights, result_key, run_once
    from endpoints.errors import EndpointError
    from endpoints.results.outcomes import Outcome
    from tests.endpoints.cache.results import outcome, request

    counter = redis.Redis.from_url(os.environ["COUNTER_URL"], protocol=2)
    key = result_key(party.endpoint_id, 1, request())
    policy = CachePolicy(fresh_seconds=900, stale_seconds=3600, lease_seconds=party.lease_seconds)
    together = threading.Barrier(party.callers)

    def produce() -> Outcome:
        counter.incr(RUNS)
        if party.waits_to_end:
            counter.blmove(MAY_END, MAY_END, timeout=PATIENCE_SECONDS)  # back where it was, for the other runs
        time.sleep(party.run_seconds)
        if party.fails:
            raise getattr(errors, party.fails)("the same for all", details=[{"line": 3}], headers={"X-Made": "yes"})
        return outcome(os.urandom(party.body_bytes))

    def call(_: int) -> dict[str, Any]:
        together.wait()
        began = time.monotonic()
        body = error = role = ""
        shared = False
        try:
            result = run_once(key, produce=produce, policy=policy)
            body, role, shared = hashlib.sha256(result.outcome.body).hexdigest(), result.role.value, result.shared
        except EndpointError as raised:
            error = json.dumps([type(raised).__name__, raised.status, raised.headers, raised.body("id")])
        return asdict(Got(body=body, error=error, role=role, shared=shared, seconds=time.monotonic() - began))

    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    with ThreadPoolExecutor(party.callers) as pool:
        answers = pool.map(call, range(party.callers))
        if party.waits_to_end:
            until(
                lambda: party.callers - 1 in [len(flight._followers) for flight in list(flights._flights.values())],
                seconds=PATIENCE_SECONDS,
            )
            sys.stdout.write("all in\n")
            sys.stdout.flush()
        sys.stdout.write(json.dumps(list(answers)))


if __name__ == "__main__":
    _main(Party(**json.loads(sys.argv[1])))
