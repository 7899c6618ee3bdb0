"""What other callers feel while one caller does its worst: slow bodies, a crowd of heavy queries, costly requests."""

from __future__ import annotations

import gzip
import json
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from http.client import HTTPException
from itertools import cycle, islice
from urllib.parse import urlencode

from benchmarks.load import call_at_pace
from benchmarks.measured import Measured, side_by_side
from benchmarks.stand import PROJECT_NAME, Stand
from tests.faults.test_slow_clients import SlowClients, kinds
from tests.live.calls import Answer, Caller

NAME = "attacks"
CALLS_PER_SECOND = 100  # of somebody else; without pause they would be the load themselves
REFUSED_PAUSE_SECONDS = 0.5  # of an attacker that is refused; every answer says a second or more
BEGINS_SECONDS = 1.0  # what comes once for each process, such as reading a template, is no attack
LEAST_PRIORITY = 19
PLAIN = "bench.plain"
LOAD = "/api/logs?source=edge_logs"
SLOW_CONNECTIONS = 64
CROWD = 40
LOGINS = 32
# Fifty thousand rows joined with themselves: as heavy as a text of a consumer gets before the statement timeout.
HEAVY = "select count(*) from edge_logs a, edge_logs b where a.event_message < b.event_message"
# PostgreSQL would look for each of 40,000 characters in 50,000, without a look at its timeout.
UNINTERRUPTIBLE = "select length(translate(format('%40000s',''), replace(format('%50000s',''),' ','x'), ''))"

Attack = Callable[[Stand, str], AbstractContextManager[None]]


def measure(stand: Stand, *, rounds: int, seconds: float) -> Iterator[Measured]:
    """Yield the 99th percentile of cached hits and of plain calls during each attack against the same without."""
    cached = stand.endpoint_url("usage.api-counts", urlencode({"interval": "daily", "project": PROJECT_NAME}))
    plain = stand.endpoint_url(PLAIN, "")
    stand.body(cached)
    stand.installation.save(PLAIN, "SELECT 1 AS one", cache_seconds=0)
    # With the limits that an installation has by default.
    attacker: str = stand.installation.console.do("issue", name="attacker", limits={}, may_load=True)

    def others() -> dict[str, float]:
        secret = stand.installation.secret
        taken = call_at_pace([cached, plain], secret=secret, calls_per_second=CALLS_PER_SECOND, seconds=seconds)
        return dict(zip(("cached hits", "plain calls"), taken, strict=True))

    others()
    for attack_name, attack in ATTACKS.items():
        figures: dict[str, list[dict[str, float]]] = {}
        for _ in range(rounds):
            calm = others()
            with _elsewhere(attack, stand, attacker):
                attacked = others()
            for name in calm:
                figures.setdefault(name, []).append({"calm": calm[name] * 1000, "attacked": attacked[name] * 1000})
        for name, taken in figures.items():
            yield Measured(
                f"p99 of {name} during {attack_name}",
                "p99 without",
                "ms",
                side_by_side(taken, "attacked"),
                side_by_side(taken, "calm"),
                target=3.0,
                at_least=False,
                note=f"{CALLS_PER_SECOND} calls a second; an answer that is not 200 ends the run",
            )


@contextmanager
def _elsewhere(attack: Attack, stand: Stand, secret: str) -> Iterator[None]:
    """Attack from a process of its own, whose work another machine would do: it takes what the service leaves."""
    context = multiprocessing.get_context("fork")
    over = context.Event()

    def work() -> None:
        os.nice(LEAST_PRIORITY)
        with attack(stand, secret):
            over.wait()

    process = context.Process(target=work)
    process.start()
    try:
        time.sleep(BEGINS_SECONDS)
        yield
    finally:
        over.set()
        process.join()


# --- Attacks: each goes on for the length of its block ----------------------------------------------------------------
@contextmanager
def _slow_bodies(stand: Stand, secret: str) -> Iterator[None]:
    texts = list(islice(cycle(kinds(secret, secret).values()), SLOW_CONNECTIONS))
    with SlowClients(stand.installation.port, texts, pause_seconds=REFUSED_PAUSE_SECONDS):
        yield


def _heavy_queries(stand: Stand, secret: str) -> AbstractContextManager[None]:
    return _repeated(
        stand, secret, CROWD, lambda caller: caller.query("logs.all", {"project": PROJECT_NAME, "sql": HEAVY})
    )


def _uninterruptible_queries(stand: Stand, secret: str) -> AbstractContextManager[None]:
    arguments = {"project": PROJECT_NAME, "sql": UNINTERRUPTIBLE}
    return _repeated(stand, secret, 4, lambda caller: caller.query("logs.all", arguments))


def _costly_requests(stand: Stand, secret: str) -> AbstractContextManager[None]:
    """Thousands of keys, gzip data of empty members, rows without number: each costs its reader the most per byte."""
    keys = json.dumps({f"key_{number}": 1 for number in range(8_000)}).encode()
    members = gzip.compress(b"") * 50_000
    rows = gzip.compress(b"{}\n" * 2_000_000)
    json_type = {"content_type": "application/json"}
    packed = {"content_type": "application/x-ndjson", "content_encoding": "gzip"}

    loads = ((LOAD, body, packed) for body in (members, rows))
    requests = cycle([("/api/endpoints/query/logs.all", keys, json_type), *loads])

    def send(caller: Caller) -> Answer:
        path, body, headers = next(requests)
        return caller.request("POST", path, body=body, **headers)

    return _repeated(stand, secret, 2, send)


def _logins(stand: Stand, secret: str) -> AbstractContextManager[None]:
    token = "a" * 32
    body = urlencode({"username": "nobody", "password": "wrong", "csrfmiddlewaretoken": token}).encode()
    headers = {"content_type": "application/x-www-form-urlencoded", "cookie": f"csrftoken={token}"}
    return _repeated(
        stand, secret, LOGINS, lambda caller: caller.request("POST", "/admin/login/", body=body, **headers)
    )


@contextmanager
def _repeated(stand: Stand, secret: str, threads: int, call: Callable[[Caller], Answer]) -> Iterator[None]:
    """Let so many threads call without pause, but for a moment after a refusal: the machine is not the attacker's."""
    over = threading.Event()

    def work() -> None:
        with Caller(stand.installation.port, secret) as caller:
            while not over.is_set():
                try:
                    answer = call(caller)
                except (OSError, HTTPException):  # the server may hang up on an attack
                    over.wait(REFUSED_PAUSE_SECONDS)
                else:
                    if answer.status in (429, 503):
                        over.wait(REFUSED_PAUSE_SECONDS)

    workers: Sequence[threading.Thread] = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        over.set()
        for worker in workers:
            worker.join()


ATTACKS: dict[str, Attack] = {
    "slow bodies": _slow_bodies,
    "queries that PostgreSQL cannot interrupt": _uninterruptible_queries,
    "a crowd of heavy queries": _heavy_queries,
    "requests that are costly to read": _costly_requests,
    "a flood of logins": _logins,
}
