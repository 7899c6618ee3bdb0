"""Every body is exactly what the query returns, whatever is killed, stopped, saved and purged meanwhile.

ENDPOINTS_DRILL_CALLS is the number of calls (default 2,000); all of the outages come about at least once.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Event

import pytest

from tests.live.calls import Answer, Caller
from tests.live.installation import Installation
from tests.live.processes import OperatorError

CALLS = int(os.environ.get("ENDPOINTS_DRILL_CALLS", "2000"))
THREADS = 8
OUTAGE_SECONDS = 0.6
PAUSE_SECONDS = 0.3
SLOWEST_SECONDS = 4.0  # two outages may follow each other
KINDS = {"cached": 600, "expiring": 1, "plain": 0}
LABELS = ("a", 'Zürich, "quoted"', "x'; SELECT 1 --", "日本\n語")
COUNTS = (0, 1, 40, 1500)
FORMATS = ("application/json", "text/csv", "application/x-ndjson")
SQL = """
SELECT {saved} AS saved, n AS number, @label::text AS label, md5(@label || n) AS digest
FROM generate_series(1, @count::int) AS n ORDER BY n
"""
OUTAGE_CODES = {"database_unavailable": 503, "overloaded": 503, "query_timeout": 504}


@lru_cache(maxsize=1000)
def expected_body(saved: int, label: str, count: int, media_type: str) -> bytes:
    """The bytes of a result, made without the service."""
    rows = [
        {"saved": saved, "number": n, "label": label, "digest": hashlib.md5(f"{label}{n}".encode()).hexdigest()}
        for n in range(1, count + 1)
    ]
    if media_type == "text/csv":
        quoted = f'"{label.replace(chr(34), chr(34) * 2)}"' if any(sign in label for sign in ',"\n\r') else label
        lines = [f"{row['saved']},{row['number']},{quoted},{row['digest']}\r\n" for row in rows]
        return "".join(["saved,number,label,digest\r\n", *lines]).encode()
    objects = [json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows]
    if media_type == "application/x-ndjson":
        return "".join(f"{each}\n" for each in objects).encode()
    return f'{{"result":[{",".join(objects)}]}}'.encode()


@dataclass(frozen=True, slots=True)
class Request:
    kind: str
    label: str
    count: int
    media_type: str


@dataclass
class Drill:
    """What goes on, and what was seen."""

    installation: Installation
    name: str
    saved: int = 0  # the last version whose save has returned
    begun: int = 0  # the last version whose save was begun; where it failed it may be there all the same
    over: Event = field(default_factory=Event)
    seen: Counter[tuple[str, int, str, str]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    slowest: float = 0.0

    def save(self) -> None:
        self.begun += 1
        for kind, cache_seconds in KINDS.items():
            self.installation.save(
                f"{self.name}.{kind}",
                SQL.format(saved=self.begun),
                parameters={"label": "text", "count": "integer"},
                cache_seconds=cache_seconds,
                max_rows=5000,
                statement_timeout_seconds=5,
            )
        self.saved = self.begun

    def save_again(self) -> None:
        for _ in range(3):
            # PostgreSQL may be on its way back.
            with suppress(OperatorError):
                return self.save()
        return None

    def purge(self) -> None:
        with self.installation.caller() as caller:
            assert caller.purge(f"{self.name}.cached").status in {200, 503}

    def call(self, caller: Caller, request: Request) -> None:
        first = self.saved
        answer = caller.query(
            f"{self.name}.{request.kind}",
            {"label": request.label, "count": request.count},
            accept=request.media_type,
        )
        versions = range(first, self.begun + 1)
        self.seen[request.kind, answer.status, answer.cache, "" if answer.status == 200 else answer.code] += 1
        self.slowest = max(self.slowest, answer.seconds)
        if not is_allowed(answer, request, versions):
            self.wrong.append(f"{request} {versions}: {answer.status} {dict(answer.headers)} {answer.body[:300]!r}")


def is_allowed(answer: Answer, request: Request, versions: range) -> bool:
    if answer.status != 200:
        is_documented = OUTAGE_CODES.get(answer.code) == answer.status and bool(answer.error["message"])
        return is_documented and answer.error["request_id"] == answer.headers["x-request-id"]
    bodies = (expected_body(version, request.label, request.count, request.media_type) for version in versions)
    return (
        answer.body in bodies
        and answer.headers["content-type"] == f"{request.media_type}; charset=utf-8"
        and answer.headers["x-result-rows"] == str(request.count)
        and "x-result-truncated" not in answer.headers
        and (answer.cache == "bypass" if request.kind == "plain" else True)
    )


def disturb(drill: Drill, enough: Callable[[], bool]) -> None:
    """Bring every outage about in turn, at least once, with a purge and a save after each, until it was enough."""
    servers = drill.installation.servers
    outages = [servers.redis_killed, servers.postgres_killed, servers.redis_frozen, servers.postgres_frozen]
    outages += [servers.postgres_refusing, servers.redis_full, servers.redis_emptied]
    try:
        while True:
            for outage in outages:
                with outage():
                    time.sleep(OUTAGE_SECONDS)
                time.sleep(PAUSE_SECONDS)
                drill.purge()
                time.sleep(PAUSE_SECONDS)
                drill.save_again()
                time.sleep(PAUSE_SECONDS)
            if enough():
                return
    finally:
        drill.over.set()


def call_without_pause(drill: Drill, seed: int) -> None:
    chance = random.Random(seed)
    while not drill.over.is_set():
        with drill.installation.caller() as caller:
            for _ in range(50):
                count = chance.choices(COUNTS, weights=(2, 4, 8, 1))[0]
                drill.call(
                    caller,
                    Request(chance.choice(list(KINDS)), chance.choice(LABELS), count, chance.choice(FORMATS)),
                )


def report(drill: Drill, seconds: float) -> None:
    """Write down what was seen; pytest shows it with -s or -rP."""
    lines = [f"{drill.seen.total()} calls in {seconds:.0f} s, {drill.begun} versions, slowest {drill.slowest:.2f} s"]
    lines += [f"{number:6} {' '.join(map(str, key))}" for key, number in sorted(drill.seen.items())]
    sys.stdout.write("\n".join([*lines, ""]))


@pytest.mark.timeout(1700)  # twenty thousand calls
def test_no_body_is_wrong_mixed_or_cut_whatever_happens(installation: Installation, name: str) -> None:
    drill = Drill(installation, name)
    drill.save()
    started = time.monotonic()
    with ThreadPoolExecutor(THREADS + 1) as pool:
        disturbing = pool.submit(disturb, drill, lambda: drill.seen.total() >= CALLS)
        calling = [pool.submit(call_without_pause, drill, seed) for seed in range(THREADS)]
        for work in (*calling, disturbing):
            work.result()
    report(drill, time.monotonic() - started)
    assert drill.wrong == []
    assert drill.seen.total() >= CALLS
    assert drill.slowest < SLOWEST_SECONDS
    answered = Counter({(kind, cache): n for (kind, status, cache, _), n in drill.seen.items() if status == 200})
    assert {("cached", "hit"), ("cached", "miss"), ("cached", "bypass"), ("expiring", "stale")} <= answered.keys()
    assert {code for _, _, _, code in drill.seen if code} >= {"database_unavailable"}
    assert answered.total() > drill.seen.total() / 2
