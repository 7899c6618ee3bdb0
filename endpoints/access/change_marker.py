"""Which state of the endpoints and access tokens is current: a random text in Redis that every change replaces.

    lqe:generation      the random text
    lqe:changing        the changes under way; while there is one, nobody may rely on what is known

A change is announced before it is committed and once more after that, so no moment exists in which it can be read from
the database and the old marker still counts: what a process has been told counts for a tenth of a second, and who
changes something returns after that. Where Redis cannot be told, it is tried again for a minute, and what
processes know stays for as long as the directory keeps it unasked.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from time import monotonic, sleep
from typing import Final, cast

import structlog
from django.db import transaction

from endpoints.cache import connection
from endpoints.cache.connection import CacheUnavailable, Script, ask_script

MARKER_KEY: Final = "lqe:generation"
CHANGING_KEY: Final = "lqe:changing"
# Counted from the beginning of the last change, or of a part of one: whose process died, or what was rolled back later,
# ends then.
CHANGE_SECONDS: Final = 60
RETRY_SECONDS: Final = 0.3
ANNOUNCING_THREAD: Final = "announce a change"
SAVER_WAITS_SECONDS: Final = 1.5  # a little longer than Redis is left alone after it did not answer

logger = structlog.get_logger(__name__)

# LASTSAVE is when the server was started, until it saves: one that comes back with an old marker counts as new, for
# a change may have been made while it was away. A server that does not let it be asked does without.
_CURRENT = Script("""
if redis.call('SCARD', KEYS[2]) > 0 then return false end
local marker = redis.call('GET', KEYS[1])
if not marker then
    marker = ARGV[1]
    redis.call('SET', KEYS[1], marker)
end
local started = redis.pcall('LASTSAVE')
return marker .. ':' .. (type(started) == 'number' and string.format('%.0f', started) or '')
""")
# DEL first: a full Redis takes it, and lets a script go on that has written.
_BEGIN = Script("""
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1])
redis.call('SADD', KEYS[2], ARGV[2])
redis.call('EXPIRE', KEYS[2], ARGV[3])
""")
_FINISH = Script("""
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1])
redis.call('SREM', KEYS[2], ARGV[2])
""")


_under_way: Final[ContextVar[str | None]] = ContextVar("the change that this one is a part of", default=None)
_trusted: tuple[str, float] | None = None  # a marker, and until when it counts by time.monotonic()


def current_marker() -> str | None:
    """Return the current marker; None while a change is under way, or when Redis cannot tell.

    What Redis has said counts for `connection.TRUSTED_SECONDS`, which every change waits for.
    """
    global _trusted
    asked_at = monotonic()
    trusted = _trusted
    if trusted is not None and asked_at < trusted[1]:
        return trusted[0]
    try:
        found = ask_script(_CURRENT, [MARKER_KEY, CHANGING_KEY], [_random()])
    except CacheUnavailable:
        return None
    if not found:
        return None
    marker = cast(bytes, found).decode()
    _trusted = (marker, asked_at + connection.TRUSTED_SECONDS)
    return marker


@contextmanager
def changing() -> Iterator[None]:
    """Announce a change of endpoints or access tokens: put this around the whole transaction, or a part of it.

    Inside a larger transaction the change counts as under way until that one is committed. A change inside another one
    is a part of it, so that whoever changes much waits once.
    """
    global _trusted
    outer = _under_way.get()
    change = outer or _random()
    _announce(_BEGIN, change, CHANGE_SECONDS)  # again for a part: the time counts from the newest
    _trusted = None
    if outer:
        yield
        return
    token = _under_way.set(change)
    try:
        yield
    except BaseException:
        _finish(change)
        raise
    finally:
        _under_way.reset(token)
    transaction.on_commit(partial(_finish, change))


def _finish(change: str) -> None:
    """Tell Redis, which may be out of reach for a moment, and may then have missed the beginning too."""
    global _trusted
    if _finish_within(change, SAVER_WAITS_SECONDS):
        _trusted = None
        connection.wait_until_expired()
        return
    logger.warning("change_not_announced_yet")
    # It goes on without who saved: as soon as Redis is back, no process believes what it knew before.
    later = threading.Thread(target=_finish_within, args=(change, CHANGE_SECONDS), name=ANNOUNCING_THREAD, daemon=True)
    try:
        later.start()
    except RuntimeError as error:  # no thread to be had, and the change is committed all the same
        logger.error("change_not_announced", reason=str(error))


def _finish_within(change: str, seconds: float) -> bool:
    deadline = monotonic() + seconds
    while not _announce(_FINISH, change):
        if monotonic() >= deadline:
            return False
        sleep(RETRY_SECONDS)
    return True


def _announce(script: Script, change: str, *arguments: int) -> bool:
    try:
        ask_script(script, [MARKER_KEY, CHANGING_KEY], [_random(), change, *arguments])
    except CacheUnavailable:
        return False
    return True


def _random() -> str:
    return secrets.token_hex(12)
