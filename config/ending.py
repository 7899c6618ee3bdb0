"""Tells a web process that it is about to end, so that nobody who waits in it for long makes it late.

granian's processes wait for the answers that are on their way, and are killed after `STOP_SECONDS`.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable
from typing import Final

_SIGNALS: Final = frozenset((signal.SIGTERM, signal.SIGINT))

_lock = threading.Lock()
_to_call: list[Callable[[], None]] = []
_is_ending = False


def at_end(callback: Callable[[], None]) -> None:
    """Have this called once the process is told to end, at once if it was told before; in a thread of its own.

    Only in a process that `watch_for_end` was called in.
    """
    with _lock:
        if not _is_ending:
            _to_call.append(callback)
            return
    callback()


def watch_for_end() -> None:
    """Start watching for the signals that end this process; only in its main thread.

    granian sets handlers of its own later. Python tells every signal to this descriptor before any handler runs.
    """
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(reader, writer), name="ending", daemon=True).start()


def _watch(reader: socket.socket, writer: socket.socket) -> None:
    """Wait for a signal and call everybody; `writer` is held open meanwhile."""
    global _is_ending
    while _SIGNALS.isdisjoint(reader.recv(1)):
        pass
    with _lock:
        _is_ending = True
        to_call = list(_to_call)
    for callback in to_call:
        callback()


def _forget() -> None:
    """A forked child has its own end."""
    global _lock, _is_ending
    _lock, _is_ending = threading.Lock(), False
    _to_call.clear()


os.register_at_fork(after_in_child=_forget)
