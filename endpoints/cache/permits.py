"""Limits how many of something run at the same time, over all processes: exact, without a question to Redis for each.

Each process holds permits, and Redis knows how many: never more than the limit over all of them. A call that begins
takes one that its process holds; if none is left, it asks Redis for more. A call that ends leaves its permit to
the next. Ten times a second the process tells Redis what it still needs, so that the others get the rest; if there
is not enough for all, each gets its share.

A process that dies loses its permits after LEASE_SECONDS. While Redis is away, each process keeps the limit by itself.
"""

from __future__ import annotations

import os
import secrets
import threading
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

import structlog

from endpoints.cache.connection import CacheUnavailable, Script, ask_for, ask_script, clock
from endpoints.cache.keys import PREFIX

LEASE_SECONDS: Final = 5.0
TICK_SECONDS: Final = 0.1
# For a limit this small a permit is returned at once: kept until the next tick, it would stop another process.
_SMALL_LIMIT: Final = 3

# A hash for each limited thing: process -> "running waiting held wanted until", the last in milliseconds of the
# server's clock.
# A process above its share (others have come, or the limit was lowered) keeps what runs and gets no more.
_EXCHANGE: Final = Script("""
local process, running, waiting, wanted = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local limit, lease = tonumber(ARGV[5]), tonumber(ARGV[6])
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local others_held, others_wanted = 0, 0
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
    if all[i] ~= process then
        local held, want, ends = string.match(all[i + 1], '^%d+ %d+ (%d+) (%d+) (%d+)$')
        if tonumber(ends) <= now or tonumber(ends) > now + lease then
            redis.call('HDEL', KEYS[1], all[i])
        else
            others_held, others_wanted = others_held + held, others_wanted + want
        end
    end
end
local share = limit
if wanted + others_wanted > limit then share = math.ceil(limit * wanted / (wanted + others_wanted)) end
local held = math.max(running, math.min(wanted, share, limit - others_held))
if held + wanted == 0 then
    redis.call('HDEL', KEYS[1], process)
else
    local numbers = string.format('%d %d %d %d %d', running, waiting, held, wanted, now + lease)
    redis.call('HSET', KEYS[1], process, numbers)
    redis.call('PEXPIRE', KEYS[1], lease)
end
return {held, limit - others_held - held}
""")

logger = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Counter:
    """What this process knows about one limited thing; `peak` is the most it needed since it last told Redis."""

    limit: int
    freed: threading.Condition
    exchanging: threading.Lock = field(default_factory=threading.Lock)
    running: int = 0
    waiting: int = 0
    peak: int = 0
    held: int = 0
    held_until: float = 0.0  # as all moments here by the monotonic clock
    slack: int = 0  # permits that nobody held when Redis was last asked
    denied_at: float = field(default=float("-inf"))

    def has_permit(self, now: float) -> bool:
        return self.running < min(self.held, self.limit) and now < self.held_until

    def begin(self) -> None:
        self.running += 1
        self.peak = max(self.peak, self.running + self.waiting)


class Permits:
    """The permits of one process, for all its threads."""

    def __init__(self) -> None:
        self._process = secrets.token_hex(8)
        self._lock = threading.Lock()
        self._counters: dict[str, _Counter] = {}
        self._waiting = 0
        self._ticking = threading.Event()
        self._ticker: threading.Thread | None = None

    def take(self, name: str, *, limit: int, wait_seconds: float, may_wait: int) -> bool:
        """Take a permit, to be given back; return whether there was one within these seconds.

        At most `may_wait` threads of the process wait, for any permits: the others get their answer at once.
        """
        with self._lock:
            counter = self._counters.get(name)
            if counter is None:
                counter = self._counters[name] = _Counter(limit, threading.Condition(self._lock))
            counter.limit = limit
            if not counter.waiting and counter.has_permit(monotonic()):
                counter.begin()
                return True
            counter.waiting += 1
            counter.peak = max(counter.peak, counter.running + counter.waiting)
            waits = self._waiting < may_wait
            self._waiting += waits
            is_news = monotonic() - counter.denied_at >= TICK_SECONDS
        self._keep_ticking()
        if is_news:
            self._exchange(name, counter)
        return self._begin_when_possible(counter, wait_seconds, waits=waits)

    def give_back(self, name: str) -> None:
        """Give back a permit that was taken; never raises."""
        with self._lock:
            counter = self._counters[name]
            counter.running -= 1
            if counter.waiting:
                counter.freed.notify()
                return
            is_short = counter.limit <= _SMALL_LIMIT and counter.slack <= 0
            if is_short:
                counter.peak = counter.running
        if is_short:
            self._exchange(name, counter)

    def tick(self) -> None:
        """Tell Redis what this process still needs of everything, which keeps its leases; never raises."""
        with self._lock:
            counters = list(self._counters.items())
        for name, counter in counters:
            self._exchange(name, counter)
        with self._lock:
            for name, counter in counters:
                if not (counter.held or counter.running or counter.waiting):
                    self._counters.pop(name, None)
            if not self._counters:
                self._ticking.clear()

    def _begin_when_possible(self, counter: _Counter, wait_seconds: float, *, waits: bool) -> bool:
        """Wait for a permit, if this thread may, and stop waiting with it or without."""
        deadline = monotonic() + wait_seconds
        with self._lock:
            try:
                while not counter.has_permit(now := monotonic()):
                    if not waits or now >= deadline:
                        return False
                    counter.freed.wait(deadline - now)
            finally:
                counter.waiting -= 1
                self._waiting -= waits
            counter.begin()
            return True

    def _exchange(self, name: str, counter: _Counter) -> None:
        """Tell Redis what is running and wanted here, and store what this process may hold from now on."""
        with counter.exchanging:  # two answers in the wrong order would leave more here than Redis knows of
            with self._lock:
                running, waiting, limit = counter.running, counter.waiting, counter.limit
                wanted = max(counter.peak, running + waiting)
                counter.peak = running + waiting
                counter.held = min(counter.held, running)  # no permit is used that Redis does not know
                asked_at = monotonic()
            numbers = (self._process, running, waiting, wanted, limit, round(LEASE_SECONDS * 1000))
            try:
                held, slack = ask_script(_EXCHANGE, [_key(name)], numbers)
            except CacheUnavailable:
                held, slack = limit, limit
            with self._lock:
                counter.held, counter.slack, counter.held_until = held, slack, asked_at + LEASE_SECONDS
                counter.denied_at = asked_at if held < wanted else float("-inf")
                if held > counter.running:
                    counter.freed.notify(held - counter.running)

    def _keep_ticking(self) -> None:
        """Start the thread that reports held permits to Redis and gives them back."""
        self._ticking.set()
        with self._lock:
            if self._ticker is not None and self._ticker.is_alive():
                return
            self._ticker = threading.Thread(target=self._tick_for_ever, name="permits", daemon=True)
            try:
                self._ticker.start()
            except RuntimeError:  # no thread is available: the next call that asks Redis tries again
                self._ticker = None
                logger.warning("permits_not_renewed")

    def _tick_for_ever(self) -> None:
        pause = threading.Event()
        while True:
            self._ticking.wait()
            pause.wait(TICK_SECONDS)
            self.tick()


@dataclass(frozen=True, slots=True)
class Use:
    """What runs and what waits at a moment, over all processes."""

    running: int
    waiting: int


def use_of(name: str) -> Use:
    """Return how a limited thing is used, to a tenth of a second. Raises CacheUnavailable."""
    now_ms = clock() * 1000
    running = waiting = 0
    for numbers in ask_for("HVALS", _key(name)):
        runs, waits, _, _, until = map(int, numbers.split())
        if until > now_ms:
            running, waiting = running + runs, waiting + waits
    return Use(running, waiting)


def _key(name: str) -> str:
    return f"{PREFIX}:permits:{name}"


PERMITS = Permits()


def _forget_permits() -> None:
    """A forked child runs nothing of what its parent does, and has none of its threads."""
    PERMITS.__init__()  # type: ignore[misc]  # the one that others have imported


os.register_at_fork(after_in_child=_forget_permits)
