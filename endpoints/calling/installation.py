"""The state of each part of the installation, for the operator; a part that fails or hangs is reported in time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from time import time
from typing import Final

import psycopg
from django.db import Error as StateDatabaseError
from django.db import connections
from django.db.models import Max
from django_celery_beat.models import PeriodicTask

from config.deadlines import answer_within
from endpoints.cache import CacheUnavailable
from endpoints.cache.connection import ask_for
from endpoints.cache.keys import PREFIX, TRIED_WRITE
from endpoints.calling.calls import check_log_database
from endpoints.errors import EndpointError, Overloaded
from endpoints.log_database.servers import ServerReport, ServerState, log_servers
from logsources.databases import owner_connection
from logsources.measures import newest_rows
from logsources.models import LogSource

# --- Liveness ---------------------------------------------------------------------------------------------------------
# The Celery worker leaves a heartbeat in Redis whenever it runs the task for it.
_NAME: Final = f"{PREFIX}:worker-seen"
_KEPT_SECONDS: Final = 7 * 24 * 3600


def note_worker(*, now: float) -> None:
    """Say that a worker runs tasks at this moment, unix seconds. Raises CacheUnavailable."""
    ask_for("SET", _NAME, now, "EX", _KEPT_SECONDS)


def worker_seen_at() -> float | None:
    """Return when a worker was last seen, in unix seconds; None for not within a week. Raises CacheUnavailable."""
    stored = ask_for("GET", _NAME)
    return None if stored is None else float(stored)


# --- Installation -----------------------------------------------------------------------------------------------------
CHECK_SECONDS: Final = 0.5
LOG_SOURCES_SECONDS: Final = 1.0
# Beat sends a heartbeat every minute and writes down what it has sent every three.
SILENCE_SECONDS: Final = 600
STARTING_SECONDS: Final = 180  # beat and worker of an installation that has just been started may need so long


class State(StrEnum):
    """The state of a part; the value is the word for it."""

    RUNNING = "running"
    BUSY = "busy"
    STARTING = "starting"
    UNKNOWN = "unknown"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the installation; `told` is one sentence on it."""

    name: str
    state: State
    told: str


@dataclass(frozen=True, slots=True)
class SourceAge:
    """A log source and the time of its newest row, None if it has none."""

    name: str
    newest: datetime | None


@dataclass(frozen=True, slots=True)
class Installation:
    """The parts, and the log sources by name; None if the log database does not answer in time."""

    parts: tuple[Part, ...]
    sources: tuple[SourceAge, ...] | None


def note_worker_heartbeat() -> None:
    """Say that a worker runs tasks. Raises CacheUnavailable."""
    note_worker(now=time())


def look_at_installation(*, up_seconds: float = float("inf")) -> Installation:
    """Return the state of the databases, Redis, worker and beat, in that order; never raises for their failures.

    If the log database has several servers, they follow it. `up_seconds` is how long the process is up that asks:
    worker and beat may have been started with it.
    """
    state_database = _answering(
        "Django database", _check_state_database, "Processes use what they already know for as long as possible."
    )
    log_database = _answering("Log database", _check_log_database, "Callers get cached results; other calls get a 503.")
    redis = _answering("Redis", _check_redis, "Calls continue without the cache; worker and beat wait.")
    scheduling = _scheduling(redis_answers=redis.state is State.RUNNING, is_new=up_seconds < STARTING_SECONDS)
    # Not asked again if it has just kept the operator waiting.
    sources = _source_ages() if log_database.state is State.RUNNING else None
    servers = tuple(map(_server_part, log_servers().reports()))
    return Installation((state_database, log_database, *servers, redis, *scheduling), sources)


def _server_part(report: ServerReport) -> Part:
    name = f"{report.role.capitalize()} {report.name}"
    lag = "" if report.lag_seconds is None else f" {ago(report.lag_seconds)} behind the primary."
    if report.state is ServerState.UNAVAILABLE:
        return Part(name, State.DOWN, "Does not answer; the other servers take its calls.")
    if report.state is ServerState.BEHIND:
        return Part(name, State.DOWN, f"Takes no calls until it has caught up.{lag}")
    return Part(name, State.RUNNING, f"Takes calls.{lag}")


def _source_ages() -> tuple[SourceAge, ...] | None:
    try:
        with answer_within(LOG_SOURCES_SECONDS):
            names = list(LogSource.objects.order_by("name").values_list("name", flat=True))
            with owner_connection() as connection:
                newest = newest_rows(connection, names)
    except (psycopg.Error, StateDatabaseError):
        return None
    return tuple(SourceAge(name, newest[name]) for name in names)


def _answering(name: str, check: Callable[[], None], otherwise: str) -> Part:
    try:
        check()
    except Overloaded:
        return Part(name, State.BUSY, "Every connection of this process is in use: calls wait or get a 503.")
    except (CacheUnavailable, EndpointError, psycopg.Error, StateDatabaseError) as error:
        return Part(name, State.DOWN, f"{getattr(error, 'reason', '') or 'Does not answer'}. {otherwise}")
    return Part(name, State.RUNNING, "Answers.")


def _check_state_database() -> None:
    with answer_within(CHECK_SECONDS), connections["default"].cursor() as cursor:
        cursor.execute("SELECT 1")


def _check_log_database() -> None:
    with answer_within(CHECK_SECONDS):
        check_log_database()


def _check_redis() -> None:
    ask_for(*TRIED_WRITE)


def _scheduling(*, redis_answers: bool, is_new: bool) -> tuple[Part, Part]:
    """Return worker and beat. A heartbeat that a worker has run was sent by beat, so it is a sign of both."""
    now = time()
    try:
        worker_at = worker_seen_at() if redis_answers else None
    except CacheUnavailable:
        worker_at, redis_answers = None, False
    if worker_at is not None and worker_at > now + SILENCE_SECONDS:
        worker_at = None  # noted by a clock that was ahead
    beat_at = max(filter(None, (_last_sent_at(now), worker_at)), default=None)
    worker_is_late, beat_is_late = _is_late(worker_at, now=now), _is_late(beat_at, now=now)
    missing = State.STARTING if is_new else State.DOWN
    beat_seen = _seen("Sent a task", beat_at, now=now) or _not_seen("beat", is_new=is_new)
    beat = Part("Beat", missing if beat_is_late else State.RUNNING, beat_seen)
    seen = _seen("Ran a task", worker_at, now=now)
    if not worker_is_late:
        worker = Part("Worker", State.RUNNING, seen)
    elif not redis_answers:
        worker = Part("Worker", State.UNKNOWN, "It reports to Redis, which does not answer.")
    elif beat_is_late and not is_new:
        worker = Part("Worker", State.UNKNOWN, f"{seen or 'Not seen yet.'} Without beat it has nothing to run.")
    else:
        worker = Part("Worker", missing, seen or _not_seen("worker", is_new=is_new))
    return worker, beat


def _last_sent_at(now: float) -> float | None:
    try:
        with answer_within(CHECK_SECONDS):
            known = PeriodicTask.objects.filter(
                last_run_at__lte=datetime.fromtimestamp(now + SILENCE_SECONDS, UTC)  # later: a clock that was ahead
            )
            last: datetime | None = known.aggregate(last=Max("last_run_at"))["last"]
    except StateDatabaseError:
        return None
    return last.timestamp() if last else None


def _is_late(seen_at: float | None, *, now: float) -> bool:
    return seen_at is None or now - seen_at > SILENCE_SECONDS


def _seen(what: str, seen_at: float | None, *, now: float) -> str:
    return "" if seen_at is None else f"{what} {ago(now - seen_at)} ago."


def _not_seen(what: str, *, is_new: bool) -> str:
    return f"Not seen yet{'; the first task comes within a minute.' if is_new else f': run celery -A config {what}'}"


def ago(seconds: float) -> str:
    """Return a span of time in its largest fitting unit, such as 3 minutes."""
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}s"
    whole = round(max(0.0, seconds))
    return f"{whole} second{'' if whole == 1 else 's'}"
