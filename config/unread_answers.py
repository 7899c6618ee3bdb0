"""Closes connections of clients that do not read their answers, which would otherwise stay in memory indefinitely."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Final

from config.connections import Progress, inode, open_connections, sent_so_far

LOOKS: Final = 6  # in the time allowed for a client
BYTES_PER_SECOND: Final = 1024
_NO_LINGERING: Final = struct.pack("ii", 1, 0)


@dataclass(slots=True)
class SlowReaders:
    """The connections that have taken too little of their answer in the last so many seconds."""

    seconds: float
    _since: dict[int, tuple[float, int]] = field(default_factory=dict)  # connection: a time, and what had arrived then

    def look(self, connections: Mapping[int, Progress], now: float) -> list[int]:
        """Note the progress of the connections and return those to close."""
        slow: list[int] = []
        since: dict[int, tuple[float, int]] = {}
        for connection, progress in connections.items():
            if not progress.is_unfinished:
                continue
            began, arrived = self._since.get(connection, (now, progress.arrived))
            if now - began < self.seconds:
                since[connection] = (began, arrived)
            elif progress.arrived - arrived < BYTES_PER_SECOND * self.seconds:
                slow.append(connection)
            else:
                since[connection] = (now, progress.arrived)
        self._since = since
        return slow


def cut_off_unread_answers(port: int, seconds: float) -> None:
    """Watch the connections of this process in a thread, as long as it lives."""
    readers = SlowReaders(seconds)

    def look_again_and_again() -> None:
        while True:
            time.sleep(seconds / LOOKS)
            _look(readers, port)

    threading.Thread(target=look_again_and_again, name="unread answers", daemon=True).start()


def _look(readers: SlowReaders, port: int) -> None:
    with ExitStack() as opened:
        sockets: dict[int, socket.socket] = {}
        for each in open_connections(port):
            sockets[inode(each)] = opened.enter_context(each)
        told = {number: sent_so_far(each) for number, each in sockets.items()}
        known = {number: progress for number, progress in told.items() if progress is not None}
        for number in readers.look(known, time.monotonic()):
            with suppress(OSError):
                # socket(7): without lingering, unsent data is thrown away when granian closes the socket, and the
                # client gets a reset; an orderly end would wait for the bytes that nobody reads.
                sockets[number].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGERING)
                sockets[number].shutdown(socket.SHUT_RDWR)
