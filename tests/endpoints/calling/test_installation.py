"""What an operator is told of databases, Redis, worker and beat: the truth, soon, whatever is gone or hangs."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connections
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from endpoints import tasks
from endpoints.calling import installation
from endpoints.calling.installation import (
    STARTING_SECONDS,
    Installation,
    State,
    ago,
    look_at_installation,
    note_worker,
)
from endpoints.log_database import servers
from endpoints.log_database.gate import GatePool
from endpoints.log_database.servers import LogServers
from logsources.models import LogSource
from tests.endpoints.cache.own_redis import REFUSES_WRITES, OwnRedis
from tests.moments import now

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_not_met_yet")]
# The page has two seconds, and this machine may be busy.
SOON_SECONDS = 20.0  # without a deadline it would never answer


def states() -> dict[str, str]:
    return {part.name: part.state.value for part in look_at_installation().parts}


def told(name: str) -> str:
    (part,) = [part for part in look_at_installation().parts if part.name == name]
    return part.told


def beat_sent(ago_seconds: float) -> None:
    every, _ = IntervalSchedule.objects.get_or_create(every=60, period=IntervalSchedule.SECONDS)
    PeriodicTask.objects.update_or_create(
        name="note-heartbeat",
        defaults={
            "task": "endpoints.tasks.note_heartbeat",
            "interval": every,
            "last_run_at": datetime.now(UTC) - timedelta(seconds=ago_seconds),
        },
    )


def looked_soon() -> Installation:
    started = time.monotonic()
    installation = look_at_installation()
    assert time.monotonic() - started < SOON_SECONDS
    return installation


def test_everything_that_answers_is_running(own_redis: OwnRedis) -> None:
    beat_sent(60)
    tasks.note_heartbeat()
    assert states() == dict.fromkeys(["Django database", "Log database", "Redis", "Worker", "Beat"], "running")
    assert told("Log database") == "Answers."
    assert told("Worker").startswith("Ran a task ")


def test_what_a_clock_ahead_has_noted_is_no_sign_of_life(own_redis: OwnRedis) -> None:
    beat_sent(-86_400)
    installation.note_worker(now=time.time() + 86_400)
    assert (states()["Beat"], states()["Worker"]) == ("down", "unknown")
    every = IntervalSchedule.objects.get(every=60)
    PeriodicTask.objects.create(name="other", task="x", interval=every, last_run_at=now())
    assert states()["Beat"] == "running"


def test_a_new_installation_has_seen_neither_beat_nor_worker(own_redis: OwnRedis) -> None:
    PeriodicTask.objects.update(last_run_at=None)
    assert (states()["Beat"], states()["Worker"]) == ("down", "unknown")
    assert told("Beat") == "Not seen yet: run celery -A config beat"
    assert told("Worker") == "Not seen yet. Without beat it has nothing to run."


@pytest.mark.parametrize(
    ("beat_ago", "worker_ago", "beat", "worker"),
    [
        (None, None, "starting", "starting"),
        (60, None, "running", "starting"),
        (700, 700, "starting", "starting"),
        (60, 700, "running", "starting"),
        (60, 60, "running", "running"),
    ],
)
def test_nothing_is_down_that_may_have_been_started_with_the_process(
    own_redis: OwnRedis, beat_ago: float | None, worker_ago: float | None, beat: str, worker: str
) -> None:
    PeriodicTask.objects.update(last_run_at=None)
    if beat_ago is not None:
        beat_sent(beat_ago)
    if worker_ago is not None:
        note_worker(now=time.time() - worker_ago)
    for up_seconds, is_new in ((10, True), (STARTING_SECONDS, False)):
        parts = {part.name: part.state for part in look_at_installation(up_seconds=up_seconds).parts}
        assert (parts["Beat"], parts["Worker"]) == (beat, worker) or not is_new
        assert (State.STARTING in parts.values()) == (is_new and "starting" in (beat, worker))


@pytest.mark.parametrize(
    ("beat_ago", "worker_ago", "beat", "worker"),
    [
        (500, 550, "running", "running"),
        (500, 700, "running", "down"),
        (700, 700, "down", "unknown"),
        (None, 100, "running", "running"),  # the worker ran what beat had sent
        (100, None, "running", "down"),
        (700, 100, "running", "running"),
    ],
)
def test_beat_and_worker_are_late_after_ten_minutes(
    own_redis: OwnRedis, beat_ago: float | None, worker_ago: float | None, beat: str, worker: str
) -> None:
    if beat_ago is not None:
        beat_sent(beat_ago)
    if worker_ago is not None:
        installation.note_worker(now=time.time() - worker_ago)
    assert (states()["Beat"], states()["Worker"]) == (beat, worker)


@pytest.mark.parametrize("breaks", [OwnRedis.kill, OwnRedis.pause])
def test_redis_gone_or_hanging_is_told_soon(own_redis: OwnRedis, breaks: Any) -> None:
    beat_sent(60)
    breaks(own_redis)
    parts = {part.name: part for part in looked_soon().parts}
    assert parts["Redis"].state is State.DOWN
    assert (parts["Worker"].state, parts["Worker"].told) == (
        State.UNKNOWN,
        "It reports to Redis, which does not answer.",
    )
    assert parts["Beat"].state is State.RUNNING


@pytest.mark.parametrize("breaks", REFUSES_WRITES)
def test_redis_that_refuses_writes_is_down_and_told_so(own_redis: OwnRedis, breaks: Any) -> None:
    assert states()["Redis"] == "running"
    breaks(own_redis)
    assert states()["Redis"] == "down"
    assert told("Redis") == (
        "Refuses writes: it is full, a read-only replica, or cannot write to its disk. "
        "Calls continue without the cache; worker and beat wait."
    )


def test_trying_to_write_leaves_nothing_for_long(own_redis: OwnRedis) -> None:
    look_at_installation()
    assert [name for name in own_redis.client.scan_iter() if own_redis.client.pttl(name) not in range(-2, 1001)] == []
    assert own_redis.client.dbsize() <= 1


def test_a_log_database_that_is_gone_is_told_soon(
    own_redis: OwnRedis, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = GatePool({**settings.LOGS_GATE, "host": "127.0.0.1", "port": "1"}, size=1, wait_seconds=0.2)
    monkeypatch.setattr(servers, "_servers", LogServers([nowhere]))
    try:
        installation = looked_soon()
    finally:
        nowhere.close()
    assert {part.name: part.state for part in installation.parts}["Log database"] is State.DOWN
    assert installation.sources is None


def test_a_pool_in_use_is_busy_and_not_down(
    own_redis: OwnRedis, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = GatePool(settings.LOGS_GATE, size=1, wait_seconds=0.2)
    small._pool.wait(timeout=30)  # on a busy machine its first connection takes longer than a call waits
    monkeypatch.setattr(servers, "_servers", LogServers([small]))
    try:
        with small.connection():
            assert states()["Log database"] == "busy"
    finally:
        small.close()


def test_sources_are_told_by_name_with_their_newest_row(own_redis: OwnRedis, insert_rows: Any) -> None:
    rows = [
        {"timestamp": now() - timedelta(hours=hours), "project": project}
        for project, hours in (("a", 50), ("b", 3), ("", 7))
    ]
    insert_rows("edge_logs", rows)
    sources = look_at_installation().sources
    assert sources is not None
    assert [source.name for source in sources] == sorted(LogSource.objects.values_list("name", flat=True))
    newest = {source.name: source.newest for source in sources}
    assert newest["edge_logs"] == now() - timedelta(hours=3)
    assert newest["auth_logs"] is None


def test_sources_are_not_known_where_their_owner_cannot_connect(
    own_redis: OwnRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections["logs"].settings_dict, "HOST", "127.0.0.1")
    monkeypatch.setitem(connections["logs"].settings_dict, "PORT", "1")
    assert look_at_installation().sources is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0 seconds"),
        (0.4, "0 seconds"),
        (1, "1 second"),
        (119, "119 seconds"),
        (121, "2 minutes"),
        (7199, "120 minutes"),
        (7200, "2 hours"),
        (172_800, "2 days"),
    ],
)
def test_a_span_is_told_in_its_largest_fitting_unit(seconds: float, text: str) -> None:
    assert ago(seconds) == text
