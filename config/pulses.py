"""Shows whether the web processes still do anything: each increases a number that their parent can read.

A stopped process keeps its place in the kernel's list of listeners: it gets its share of new connections and answers
none of them.
"""

from __future__ import annotations

import mmap
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

BEAT_SECONDS: Final = 0.5
_COUNT: Final = struct.Struct("@Q")
_SLOTS: Final = mmap.PAGESIZE // _COUNT.size


class Pulses:
    """Counters in memory that child processes made by fork share."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)
        self._given = 0

    def new_slot(self) -> int:
        """Return the place of a process that is about to start; there are enough for all that live at the same time."""
        slot = 1 + self._given % (_SLOTS - 1)
        self._given += 1
        _COUNT.pack_into(self._memory, slot * _COUNT.size, 0)
        return slot

    def count(self, slot: int) -> int:
        return int(_COUNT.unpack_from(self._memory, slot * _COUNT.size)[0])

    def beat(self, slot: int) -> None:
        _COUNT.pack_into(self._memory, slot * _COUNT.size, self.count(slot) + 1)

    def note_start(self) -> None:
        """Note that a process has begun to serve."""
        self.beat(0)

    def has_started(self) -> bool:
        """Tell whether any process ever has begun to serve."""
        return self.count(0) > 0

    def keep_beating(self, slot: int) -> None:
        """Beat from a thread of this process as long as it lives; end the process if its parent is gone."""
        parent = os.getppid()

        def beat() -> None:
            while os.getppid() == parent:
                self.beat(slot)
                time.sleep(BEAT_SECONDS)
            # Otherwise nobody would restart or end it, and its port could not be used again.
            os.kill(os.getpid(), signal.SIGKILL)

        threading.Thread(target=beat, name="pulse", daemon=True).start()


@dataclass(slots=True)
class SilenceCounter:
    """Counts the looks at a process without a new beat.

    Looks, not seconds: if the whole machine slept or the parent itself was stopped, nobody looked.
    """

    most: int
    _seen: dict[int, tuple[int, int]] = field(default_factory=dict)

    def is_dead(self, process: int, count: int) -> bool:
        """Look at a process; tell whether it has been silent for the given number of looks."""
        last, silent = self._seen.get(process, (-1, 0))
        silent = silent + 1 if count == last else 0
        self._seen[process] = (count, silent)
        return silent >= self.most

    def forget_others(self, processes: Iterable[int]) -> None:
        living = set(processes)
        self._seen = {process: seen for process, seen in self._seen.items() if process in living}


def watch(processes: Callable[[], dict[int, int]], *, silent_seconds: float, report: Callable[[int], None]) -> None:
    """Kill each process whose count has not moved for so long; `processes` returns the counts by process id."""
    silence = SilenceCounter(most=max(1, round(silent_seconds / BEAT_SECONDS)))
    while True:
        time.sleep(BEAT_SECONDS)
        counts = processes()
        silence.forget_others(counts)
        for process, count in counts.items():
            if silence.is_dead(process, count):
                report(process)
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
        tell_systemd("WATCHDOG=1")


def tell_systemd(message: str) -> None:
    """Send a message to the service manager that started this, sd_notify(3); only it sets NOTIFY_SOCKET."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, suppress(OSError):
            manager.sendto(message.encode(), address.replace("@", "\0", 1) if address[0] == "@" else address)
