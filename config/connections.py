"""The connections of this process as the kernel sees them: granian, which accepted them, shows none.

Linux tells how far each has come (tcp(7), TCP_INFO); elsewhere there are none to be found.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_OPEN_STATES: Final = (1, 8)  # TCP_ESTABLISHED; TCP_CLOSE_WAIT, whose client sends no more but may read
# struct tcp_info of linux/tcp.h, since 4.19: tcpi_unacked, tcpi_bytes_acked, tcpi_notsent_bytes, tcpi_bytes_sent.
_TCP_INFO: Final = struct.Struct("@24xI92xQ16xI52xQ")


@dataclass(frozen=True, slots=True)
class Progress:
    """How many bytes have been sent, how many of them have arrived, and whether any are still to arrive."""

    sent: int
    arrived: int
    is_unfinished: bool


def inode(connection: socket.socket) -> int:
    """Return what tells a socket from others; its duplicates have the same."""
    return os.fstat(connection.fileno()).st_ino


def sent_so_far(connection: socket.socket) -> Progress | None:
    """Return the progress of a connection, None where the system does not tell."""
    try:
        told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
    except OSError:
        return None
    if len(told) < _TCP_INFO.size:
        return None
    unacknowledged, arrived, not_sent, sent = _TCP_INFO.unpack(told)
    return Progress(sent, arrived, is_unfinished=unacknowledged > 0 or not_sent > 0)


def open_connections(port: int) -> Iterator[socket.socket]:
    """Yield a duplicate of each connection that clients of this port have with this process; the reader closes it.

    A duplicate made meanwhile may be listed too: see `inode`.
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
            continue  # It was closed meanwhile.
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
