"""The connections of this process as the kernel sees them: granian, which accepted them, does not show them.

Linux reports the progress of each (tcp(7), TCP_INFO); on other systems none are found.
"""

from __future__ import annotations

import os
import secrets
import socket
import struct
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Any, Final

_OPEN_STATES: Final = (1, 8)  # TCP_ESTABLISHED; TCP_CLOSE_WAIT: the client sends no more but may still read
# struct tcp_info of linux/tcp.h, since 4.19: tcpi_unacked, tcpi_bytes_acked, tcpi_notsent_bytes, tcpi_bytes_sent.
_TCP_INFO: Final = struct.Struct("@24xI92xQ16xI52xQ")


@dataclass(frozen=True, slots=True)
class Progress:
    """The bytes sent, the bytes that have arrived, and whether any have still to arrive."""

    sent: int
    arrived: int
    is_unfinished: bool


def inode(connection: socket.socket) -> int:
    """Return the identity of a socket; its duplicates have the same."""
    return os.fstat(connection.fileno()).st_ino


def sent_so_far(connection: socket.socket) -> Progress | None:
    """Return the progress of a connection, None if the system does not report it."""
    try:
        told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
    except OSError:
        return None
    if len(told) < _TCP_INFO.size:
        return None
    unacknowledged, arrived, not_sent, sent = _TCP_INFO.unpack(told)
    return Progress(sent, arrived, is_unfinished=unacknowledged > 0 or not_sent > 0)


def open_connections(port: int) -> Iterator[socket.socket]:
    """Yield a duplicate of each connection from this port's clients to this process; the caller closes it.

    Duplicates made meanwhile may be listed too: see `inode`.
    """
    try:
        names = os.listdir("/proc/self/fd")
    except OSError:
        return
    for name in names:
        try:
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            duplicate = _duplicate(int(name))
        except OSError:
            continue  # It has been closed meanwhile.
        if _is_connection_of(duplicate, port):
            yield duplicate
        else:
            duplicate.close()


def _duplicate(descriptor: int) -> socket.socket:
    duplicate = os.dup(descriptor)
    try:
        return socket.socket(fileno=duplicate)
    except OSError:
        os.close(duplicate)
        raise


def _is_connection_of(each: socket.socket, port: int) -> bool:
    try:
        return (
            each.family in (socket.AF_INET, socket.AF_INET6)
            and each.type == socket.SOCK_STREAM
            and each.getsockname()[1] == port
            and each.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] in _OPEN_STATES
        )
    except OSError:
        return False


# --- Hang ups ---------------------------------------------------------------------------------------------------------
# Ends a connection of granian whose body does not arrive, while a thread waits for it.
#
# granian gives a WSGI application no way to stop reading: only the end of the connection frees the thread, and the
# application does not know which connection carries the request. So the answer marks it: its body is the error
# followed by blanks (JSON allows them) in pieces of lengths made up here, and the one socket that has sent exactly
# these is shut down. Only Linux counts the bytes that a socket has sent (tcp(7), TCP_INFO); elsewhere the answer goes
# out and the thread keeps waiting.
HANG_UP: Final = "endpoints.hang_up"  # in the environ (WSGI, PEP 3333) of a request with a body
ROUNDS: Final = 3
MOST_ROUNDS: Final = 8  # on a busy machine a piece may be sent together with the next one
ROUND_SECONDS: Final = 0.1
# Of an answer that is torn: its buffers may be full of rows, and nobody waits for its thread.
MOST_TORN_ROUNDS: Final = 20
TORN_ROUND_SECONDS: Final = 0.5
_LONGEST_BLANKS: Final = 400

Headers = Sequence[tuple[str, str]]

_one_at_a_time = threading.Lock()


def hang_up(protocol: Any, port: int, status: int, headers: Headers, body: bytes) -> bool:
    """Answer from any thread, then shut the connection down; tell whether it was found.

    `protocol` is granian's WSGIProtocol. If the request is already answered, nothing happens.
    """
    answer = _TellingAnswer(body, port)
    with _one_at_a_time, answer:
        protocol.response_iter(status, [*headers, ("Connection", "close")], _Pieces(answer))
        return answer.shut_down()


def torn_end(port: int, last: bytes) -> Iterator[bytes]:
    """Yield the end of an answer in pieces that has failed in the middle, then shut its connection down unfinished.

    A client then knows by HTTP that something is missing. Empty lines before the last one tell which connection it is;
    if it cannot be found, because its client reads slowly, the answer ends as if nothing had happened.
    """
    with _TellingAnswer(
        b"\n", port, blank=b"\n", most_rounds=MOST_TORN_ROUNDS, round_seconds=TORN_ROUND_SECONDS
    ) as answer:
        yield from answer
        yield last
        answer.shut_down(after_seconds=0.05)


class _Pieces:
    """The iterator that granian asks for one piece after another, and closes."""

    def __init__(self, answer: _TellingAnswer) -> None:
        self.__next__ = iter(answer).__next__

    def close(self) -> None:
        """Do nothing: the answer closes its own sockets."""


class _TellingAnswer:
    """The body of the answer, sent piece by piece, and the sockets that may carry it."""

    def __init__(
        self,
        body: bytes,
        port: int,
        *,
        blank: bytes = b" ",
        most_rounds: int = MOST_ROUNDS,
        round_seconds: float = ROUND_SECONDS,
    ) -> None:
        self._body = body
        self._blank = blank
        self._most_rounds = most_rounds
        self._round_seconds = round_seconds
        self._port = port
        self._sockets: dict[int, socket.socket] = {}
        self._rounds = 0
        self._opened = ExitStack()

    def __enter__(self) -> _TellingAnswer:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def __iter__(self) -> Iterator[bytes]:
        for each in open_connections(self._port):
            self._sockets[inode(each)] = self._opened.enter_context(each)
        yield self._body
        for _ in range(self._most_rounds):
            if not self._sockets or self._rounds == ROUNDS:
                return
            sleep(0.01)  # until the previous piece is sent
            blanks = secrets.randbelow(_LONGEST_BLANKS) + 1
            before = _bytes_sent(self._sockets)
            yield self._blank * blanks
            found = self._those_that_sent(blanks, before)
            if found:
                self._sockets = found
                self._rounds += 1

    def shut_down(self, *, after_seconds: float = 0.005) -> bool:
        """Shut the connection down if it is the only one that sent exactly these lengths."""
        if self._rounds < ROUNDS or len(self._sockets) != 1:
            return False
        (connection,) = self._sockets.values()
        sleep(after_seconds)  # for the end of the answer
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return True  # The client was quicker.
        return True

    def _those_that_sent(self, blanks: int, before: Mapping[int, int]) -> dict[int, socket.socket]:
        # RFC 9112 section 7.1: the length of a chunk in hexadecimal, two line ends; HTTP/1.0 has no chunks.
        wanted = (blanks, blanks + len(f"{blanks:x}") + 4)
        deadline = monotonic() + self._round_seconds
        found: set[int] = set()
        while not found and monotonic() < deadline:
            sleep(0.001)
            after = _bytes_sent(self._sockets)
            found = {number for number in after if after[number] - before.get(number, 0) in wanted}
        return {number: self._sockets[number] for number in found}


def _bytes_sent(sockets: Mapping[int, socket.socket]) -> dict[int, int]:
    """Return how many bytes each has sent so far; sockets that do not report it are left out."""
    sent = {number: sent_so_far(each) for number, each in sockets.items()}
    return {number: progress.sent for number, progress in sent.items() if progress is not None}


# --- Unread answers ---------------------------------------------------------------------------------------------------
# Closes connections of clients that do not read their answers, which would otherwise stay in memory indefinitely.
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
