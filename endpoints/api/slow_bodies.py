"""Limits how many requests may read their body at the same time, and how long each may take.

A web server hands a body over while it arrives, so a thread that reads from a slow client is lost to everybody else.
There are separate places for known callers, whose access token or login was checked before they read, and for
strangers, who get few. Late readers are cut off.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from time import monotonic, sleep
from typing import Final

import structlog

from endpoints.errors import EndpointError, Overloaded, RequestTimeout

STRANGER: Final = ""
PIECE_BYTES: Final = 16_384
GRACE_SECONDS: Final = 2.0  # a lost packet is sent again after 0.2 to 1 s
# A body that has arrived is read within a millisecond: a longer read holds a thread.
SLOW_AFTER_SECONDS: Final = 0.25
WAIT_SECONDS: Final = 0.1  # for a place: waiting holds a thread too
WARY_SECONDS: Final = 60.0
_TOO_MANY: Final = "Too many requests are still sending their body."

HangUp = Callable[[EndpointError], None]

logger = structlog.get_logger(__name__)


class BodyCutOff(OSError):
    """The body will not be read to its end; `failure` is the answer. Django reports it as an unreadable body."""

    def __init__(self, failure: EndpointError | None = None) -> None:
        self.failure = failure


@dataclass(eq=False, slots=True)
class Reader:
    """A request that reads its body: its caller, and how to end it from another thread if the server can."""

    who: str
    hang_up: HangUp | None
    began: float = 0.0
    late_at: float | None = None  # set while it waits for a piece
    failure: EndpointError | None = None


@dataclass(eq=False)
class ReadingPlaces:
    """The places of one web process: half of its threads, a quarter of these for strangers.

    One known caller gets at most half of the remaining places for slow bodies. Half as many requests as there are
    places may wait, so a quarter of the threads stays free even then. Times are seconds of `clock`.
    """

    threads: int
    body_seconds: float
    bytes_per_second: int
    clock: Callable[[], float] = monotonic
    _readers: list[Reader] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _watch: threading.Thread | None = None
    _waiting: int = 0
    _cut_off: dict[str, float] = field(default_factory=dict)  # time of the last cut, by caller

    def __post_init__(self) -> None:
        places = max(2, self.threads // 2)
        self._for_strangers = max(1, places // 4)
        self._for_known = places - self._for_strangers
        self._for_one_caller = max(1, self._for_known // 2)
        self._most_waiting = places // 2

    def refuse_in_vain(self, who: str) -> None:
        """Raise Overloaded if slow bodies hold every place of this kind, before any work is done for one more."""
        with self._changed:
            if not self._has_place(who) and self._is_stuck(who):
                raise Overloaded(_TOO_MANY)

    def enter(self, who: str, hang_up: HangUp | None = None) -> Reader:
        """Take a place for a reader. Raises Overloaded if slow bodies hold all places that this caller may have."""
        reader = Reader(who, hang_up)
        with self._changed:
            self._wait_for_place(who)
            if not self._has_place(who) or self._is_hogging(who):
                raise Overloaded(_TOO_MANY)
            reader.began = self.clock()
            self._readers.append(reader)
        return reader

    def leave(self, reader: Reader) -> None:
        with self._changed:
            self._readers.remove(reader)
            self._changed.notify_all()

    def wait_for_piece(self, reader: Reader, size: int) -> None:
        """Note that a reader waits for so many bytes. Raises BodyCutOff if its whole time is over."""
        with self._changed:
            now = self.clock()
            end = reader.began + self.body_seconds
            if now >= end:
                reader.failure = RequestTimeout(self.body_seconds)
            if reader.failure is not None:
                raise BodyCutOff
            reader.late_at = min(end, now + GRACE_SECONDS + size / self.bytes_per_second)
            self._start_watch()

    def note_piece(self, reader: Reader) -> None:
        """Note that the piece came. Raises BodyCutOff if it was too late."""
        with self._changed:
            reader.late_at = None
            if reader.failure is not None:
                raise BodyCutOff

    def take_late(self) -> list[Reader]:
        """Return the readers to cut off, each once, with its failure.

        These are readers that waited too long, and slow bodies beyond the share of one caller.
        """
        with self._changed:
            now = self.clock()
            late: list[Reader] = []
            slow: Counter[str] = Counter()
            for reader in self._readers:
                slow[reader.who] += self._is_slow(reader)
                if reader.failure is not None or reader.late_at is None:
                    continue
                if reader.late_at <= now:
                    reader.failure = RequestTimeout(self.body_seconds)
                elif reader.who != STRANGER and slow[reader.who] > self._for_one_caller:
                    reader.failure = Overloaded(_TOO_MANY)
                else:
                    continue
                late.append(reader)
                self._cut_off[reader.who] = now
            return late

    def _wait_for_place(self, who: str) -> None:
        if self._has_place(who) or self._waiting >= self._most_waiting:
            return
        self._waiting += 1
        try:
            self._changed.wait_for(lambda: self._has_place(who) or self._is_stuck(who), WAIT_SECONDS)
        finally:
            self._waiting -= 1

    def _places(self, who: str) -> int:
        return self._for_strangers if who == STRANGER else self._for_known

    def _has_place(self, who: str) -> bool:
        return sum((each.who == STRANGER) is (who == STRANGER) for each in self._readers) < self._places(who)

    def _is_stuck(self, who: str) -> bool:
        """Tell whether slow bodies hold every place of this kind, so that waiting is useless."""
        return all(self._is_slow(each) for each in self._readers if (each.who == STRANGER) is (who == STRANGER))

    def _is_hogging(self, who: str) -> bool:
        """Tell whether a caller has its share of slow bodies; shortly after a cut-off, all its bodies count as slow."""
        if who == STRANGER:
            return False
        if self._cut_off.get(who, -inf) < self.clock() - WARY_SECONDS:
            self._cut_off.pop(who, None)
            held = sum(each.who == who and self._is_slow(each) for each in self._readers)
        else:
            held = sum(each.who == who for each in self._readers)
        return held >= self._for_one_caller

    def _is_slow(self, reader: Reader) -> bool:
        return self.clock() - reader.began > SLOW_AFTER_SECONDS

    # --- The watch: ends those whose thread waits for bytes that do not come ----------------------------------------
    def _start_watch(self) -> None:
        if self._watch is not None:
            return
        watch = threading.Thread(target=self._watch_while_read, name="slow bodies", daemon=True)
        try:
            watch.start()
        except RuntimeError as error:  # no thread available: the next piece of any body tries again
            logger.warning("slow_bodies_not_watched", reason=str(error))
        else:
            self._watch = watch

    def _watch_while_read(self) -> None:
        while True:
            sleep(SLOW_AFTER_SECONDS)
            for reader in self.take_late():
                if reader.hang_up is not None and reader.failure is not None:
                    self._end(reader, reader.hang_up, reader.failure)
            with self._changed:
                if not self._readers:
                    self._watch = None
                    return

    @staticmethod
    def _end(reader: Reader, hang_up: HangUp, failure: EndpointError) -> None:
        try:
            hang_up(failure)
        except Exception:
            # The watch must continue: the threads of other readers depend on it.
            logger.exception("hanging_up_failed", caller_is_known=reader.who != STRANGER)
