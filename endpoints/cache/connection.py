"""Redis for the cache: an answer within a quarter of a second, or CacheUnavailable.

If Redis does not answer, the whole process leaves it alone for a second; then one thread tries it again while
the others still fail at once. So an outage costs one short wait a second, not one a call.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from time import monotonic, sleep
from typing import Any, TypeVar, cast

import structlog
from django_redis import get_redis_connection
from redis import Redis
from redis.connection import ConnectionPool
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import MaxConnectionsError, NoScriptError, RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

BREAK_SECONDS = 1.0
# A blocking wait asks the server to wait at most this long; a server that does not answer soon after hangs.
WAIT_SECONDS = 1.0
_WAIT_MARGIN_SECONDS = 0.25
_WAITING_CONNECTIONS = 1000  # each belongs to a waiting thread
_REFUSAL_LOG_SECONDS = 60.0

T = TypeVar("T")
Part = str | bytes | int | float
logger = structlog.get_logger(__name__)


class CacheUnavailable(Exception):
    """Redis cannot be reached, does not answer in time or refuses the command: continue without a cache."""


class RedisRefuses(CacheUnavailable):
    """Redis answers, and does not do what it is asked; `reason` says of a write why."""

    reason = "Refuses writes: it is full, a read-only replica, or cannot write to its disk"


class RedisLeftAlone(CacheUnavailable):
    """Redis did not answer a moment ago, so it was not asked."""


class Script:
    """A Lua script, known to the server by the SHA-1 of its text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


class _Breaker:
    """Whether this process asks Redis at the moment; one log line when that ends, one when it begins again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._retry_at: float | None = None  # None: Redis answers
        self._refusal_logged_at: float | None = None

    def check(self) -> None:
        """Raise RedisLeftAlone while Redis is left alone; let one thread a second through."""
        if self._retry_at is None:
            return
        with self._lock:
            retry_at, now = self._retry_at, monotonic()
            if retry_at is not None and now < retry_at:
                raise RedisLeftAlone("Redis did not answer a moment ago")
            if retry_at is not None:
                self._retry_at = now + BREAK_SECONDS

    def note_silence(self, error: Exception) -> None:
        with self._lock:
            is_news = self._retry_at is None
            self._retry_at = monotonic() + BREAK_SECONDS
        if is_news:
            logger.warning("cache_unavailable", error=f"{type(error).__name__}: {error}")

    def note_answer(self) -> None:
        if self._retry_at is None:
            return
        with self._lock:
            is_news = self._retry_at is not None
            self._retry_at = None
        if is_news:
            logger.warning("cache_available_again")

    def note_refusal(self, error: Exception) -> None:
        """Log, once a minute, that Redis answers but refuses a command (full, read only)."""
        with self._lock:
            now = monotonic()
            is_due = self._refusal_logged_at is None or now - self._refusal_logged_at >= _REFUSAL_LOG_SECONDS
            if is_due:
                self._refusal_logged_at = now
        if is_due:
            logger.warning("cache_refuses", error=f"{type(error).__name__}: {error}")


_breaker = _Breaker()


def ask(operation: Callable[[Redis], T]) -> T:
    """Return what the operation gets from Redis. Raises CacheUnavailable."""
    return _ask(_client, operation)


def ask_and_wait(*command: Part) -> Any:
    """Return the answer to a command that blocks on the server, for up to WAIT_SECONDS. Raises CacheUnavailable."""
    return _ask(_waiting_client, lambda client: client.execute_command(*command))  # type: ignore[no-untyped-call]


def ask_for(*command: Part) -> Any:
    """Return the answer to one command. Raises CacheUnavailable."""
    return ask(lambda client: client.execute_command(*command))  # type: ignore[no-untyped-call]


def clock() -> float:
    """Return the unix seconds of Redis's clock, the one that all processes share. Raises CacheUnavailable."""
    seconds, microseconds = ask_for("TIME")
    return float(seconds) + float(microseconds) / 1e6


def ask_for_all(commands: Sequence[Sequence[Part]]) -> list[Any]:
    """Return the answers to several commands in one round trip. Raises CacheUnavailable."""

    def run(client: Redis) -> list[Any]:
        with client.pipeline(transaction=False) as pipeline:
            for command in commands:
                pipeline.execute_command(*command)  # type: ignore[no-untyped-call]
            return pipeline.execute()

    return ask(run)


def ask_script(script: Script, names: Sequence[str], arguments: Sequence[Part] = ()) -> Any:
    """Return what a Lua script returns, in one round trip once the server knows it. Raises CacheUnavailable."""

    def run(client: Redis) -> Any:
        try:
            return client.execute_command(  # type: ignore[no-untyped-call]
                "EVALSHA", script.sha, len(names), *names, *arguments
            )
        except NoScriptError:  # a server that was restarted
            return client.execute_command(  # type: ignore[no-untyped-call]
                "EVAL", script.text, len(names), *names, *arguments
            )

    return ask(run)


def _ask(connect: Callable[[], Redis], operation: Callable[[Redis], T]) -> T:
    _breaker.check()
    try:
        result = operation(connect())
    except MaxConnectionsError as error:
        _breaker.note_refusal(error)
        raise CacheUnavailable("every connection to Redis is in use") from error
    except (RedisConnectionError, RedisTimeoutError, OSError) as error:
        _breaker.note_silence(error)
        raise CacheUnavailable("Redis does not answer") from error
    except RedisError as error:
        _breaker.note_answer()
        _breaker.note_refusal(error)
        raise RedisRefuses("Redis refuses the command") from error
    _breaker.note_answer()
    return result


def _client() -> Redis:
    return cast(Redis, get_redis_connection("default"))


_waiting_lock = threading.Lock()
_waiting: tuple[ConnectionPool, Redis] | None = None  # the pool it was derived from, and the client


def _waiting_client() -> Redis:
    """Return a client like the default one, with connections of its own that may stay silent a little longer."""
    global _waiting
    pool = _client().connection_pool
    with _waiting_lock:
        if _waiting is None or _waiting[0] is not pool:
            options = {**pool.connection_kwargs, "socket_timeout": WAIT_SECONDS + _WAIT_MARGIN_SECONDS}
            waiting_pool = type(pool)(
                connection_class=pool.connection_class, max_connections=_WAITING_CONNECTIONS, **options
            )
            _waiting = (pool, Redis(connection_pool=waiting_pool))
        return _waiting[1]


# --- Trust ------------------------------------------------------------------------------------------------------------
# For how long a process may rely on what Redis has told it, without asking again.
#
# A change or purge waits that long before it returns: from then on no process relies on the state
# before. So a hundred calls a second for one result cost Redis ten questions, and no caller sees an old state.
TRUSTED_SECONDS: float = 0.1  # counted from before the question was sent
_MARGIN_SECONDS = 0.02  # for a clock that runs slower in another process


def wait_until_expired() -> None:
    """Return when no process relies any more on what it was told before this call."""
    if TRUSTED_SECONDS:
        sleep(TRUSTED_SECONDS + _MARGIN_SECONDS)
