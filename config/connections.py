"""The connections of this process as the kernel sees them: granian, which accepted them, does not show them.

Linux reports the progress of each (tcp(7), TCP_INFO); on other systems none are found.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

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
