"""Requests of the web server and their answers, which any thread may give, at once or later.

granian calls the application in one of its threads and takes the answer from any: so a call that waits for rows, or
whose rows are more than fit into memory, gives its thread back and is answered by another one. Whether a client still
waits for its answer, granian does not say; its memory does.
"""

from __future__ import annotations

import os
import platform
import struct
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from time import monotonic
from typing import Any, ClassVar, Final

import structlog
from granian.server import mp

from config.connections import HANG_UP, hang_up

Headers = Sequence[tuple[str, str]]
Application = Callable[[dict[str, Any], Callable[..., None]], Iterable[bytes]]
Runner = Callable[[Any, dict[str, Any]], None]

# In the environ (WSGI, PEP 3333) of each request: granian's WSGIProtocol, of which `Exchange` can be made.
PROTOCOL: Final = "endpoints.protocol"

logger = structlog.get_logger(__name__)

# PEP 3333. A request must not see the process's own environment, which contains secrets.
_ENVIRON: Final[Mapping[str, Any]] = {
    "GATEWAY_INTERFACE": "CGI/1.1",
    "SCRIPT_NAME": "",
    "SERVER_SOFTWARE": "granian",
    "wsgi.errors": sys.stderr,
    "wsgi.input_terminated": True,  # the server reports the end of a body in chunks
    "wsgi.multiprocess": True,
    "wsgi.multithread": True,
    "wsgi.run_once": False,
    "wsgi.version": (1, 0),
}


class Exchange:
    """A request of granian's that has still to be answered, once, by any thread."""

    __slots__ = ("_protocol", "port")

    # When this process last noticed that a client had left, by the monotonic clock. Others of its clients have often
    # left at the same moment, and their requests are still to come.
    a_client_left_at: ClassVar[float] = float("-inf")

    def __init__(self, protocol: Any, port: int = 0) -> None:
        self._protocol = protocol
        self.port = port  # at which it came in

    def is_abandoned(self) -> bool:
        """Tell whether the client has left without its answer; any thread may ask, and it takes 10 to 30 µs.

        False while that cannot be known, and once the exchange is answered.
        """
        if not _receiver_is_gone(self._protocol):
            return False
        Exchange.a_client_left_at = monotonic()
        return True

    def answer(self, status: int, headers: Headers, body: bytes) -> None:
        """Hand a whole answer over: no thread waits for the client to read it."""
        self._protocol.response_bytes(status, headers, body)

    def stream(self, status: int, headers: Headers, pieces: Iterator[bytes]) -> None:
        """Send one piece after another as the client reads them, in the calling thread; `pieces` is closed at the end.

        It also ends, without having asked for every piece, when the client has left.
        """
        self._protocol.response_iter(status, headers, _Pieces(pieces))


class LaterAnswer(ABC):
    """The body of a WSGI answer that is given later, or piece by piece, by a thread of somebody else.

    Under another web server than this one it is an ordinary body: its iteration waits.
    """

    @abstractmethod
    def deliver(self, exchange: Exchange, status: int, headers: Headers) -> None:
        """See to it that the exchange is answered, and return at once; status and headers are the application's."""

    @abstractmethod
    def __iter__(self) -> Iterator[bytes]:
        """Yield the body, in the calling thread."""


class _Pieces:
    """The iterator that granian asks for one piece after another, and closes."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self.__next__ = pieces.__next__

    def close(self) -> None:
        close = getattr(self._pieces, "close", None)
        if close is not None:
            close()


def use_exchanges() -> None:
    """Make granian's workers that start from now on call the application by `runner`."""
    mp._wsgi_call_wrap = lambda application, *_: runner(application)  # type: ignore[attr-defined]  # private


def runner(application: Application) -> Runner:
    """Return the function that granian calls for each request, in place of granian.wsgi's own.

    HANG_UP is in the environ of a request with a body. The answer must be a list, which is handed over at once, or a
    LaterAnswer.
    """

    def run(protocol: Any, scope: dict[str, Any]) -> None:
        environ = {**_ENVIRON, **scope, PROTOCOL: protocol}
        if "CONTENT_LENGTH" in scope or "HTTP_TRANSFER_ENCODING" in scope:
            environ[HANG_UP] = partial(hang_up, protocol, int(scope["SERVER_PORT"]))
        said: tuple[Any, ...] = ()

        def start_response(*arguments: Any) -> None:
            nonlocal said
            said = arguments

        body = application(environ, start_response)
        if body.__class__ is list:
            protocol.response_bytes(int(said[0][:3]), said[1], body[0] if len(body) == 1 else b"".join(body))
        elif isinstance(body, LaterAnswer):
            body.deliver(Exchange(protocol, int(scope["SERVER_PORT"])), int(said[0][:3]), said[1])
        else:
            raise TypeError("an answer must be a list or a LaterAnswer: anything else could hold the thread")

    return run


# --- Clients that have left -------------------------------------------------------------------------------------------
# The web server drops a connection as soon as its client closes it, and with it the receiver of the channel by which
# the answer would have come (tokio::sync::oneshot). The application holds the sender, in a WSGIProtocol:
#
#     WSGIProtocol:  16 bytes of Python's, lock, 1 if there is a sender, channel
#     channel:       owners (sender and receiver), weak owners, …, at byte 48 the state
#
# In the state, 1 says that the receiver waits and 4 that it has closed the channel. The layout is the compiler's own
# and may differ with every build, so only the one that was tried is read, and every word has to make sense: otherwise
# nobody counts as gone. The kernel copies the words, so a wrong address is an error and not a crash.
_KNOWN_BUILD: Final = ("2.8.7", "cpython", "x86_64", "linux")
_PROTOCOL: Final = struct.Struct("=16x3Q")
_CHANNEL: Final = struct.Struct("=2Q32xQ")
_HAS_SENDER: Final = 1
_CLOSED: Final = 4
_OPEN_STATES: Final = (0, 1)
_CLOSED_STATES: Final = (_CLOSED, _CLOSED | 1)


class _LayoutUnknown(Exception):
    """The memory does not look as it should."""


class _Layout:
    """Whether this process can read granian's memory: not known before the first look, no longer after a failure."""

    is_readable: bool | None = None


def _receiver_is_gone(protocol: Any) -> bool:
    if _Layout.is_readable is False:
        return False
    try:
        if _Layout.is_readable is None:
            _check_build(protocol)
            _Layout.is_readable = True
        memory = os.open("/proc/self/mem", os.O_RDONLY)
        try:
            return _look(memory, id(protocol))
        finally:
            os.close(memory)
    except (OSError, _LayoutUnknown) as error:
        _Layout.is_readable = False
        logger.warning("leaving_clients_unnoticed", reason=f"{type(error).__name__}: {error}")
        return False


def _check_build(protocol: Any) -> None:
    build = (version("granian"), sys.implementation.name, platform.machine(), sys.platform)
    if build != _KNOWN_BUILD:
        raise _LayoutUnknown(f"granian {' '.join(build)} instead of {' '.join(_KNOWN_BUILD)}")
    if type(protocol).__basicsize__ != _PROTOCOL.size:
        raise _LayoutUnknown(f"{type(protocol).__name__} has {type(protocol).__basicsize__} bytes")


def _look(memory: int, address: int) -> bool:
    _, has_sender, channel = _PROTOCOL.unpack(_read(memory, address, _PROTOCOL.size))
    if has_sender != _HAS_SENDER:
        return False
    try:
        owners, weak_owners, state = _CHANNEL.unpack(_read(memory, channel, _CHANNEL.size))
    except OSError as error:
        failure: Exception = error
    else:
        if weak_owners == 1 and owners in (1, 2) and state in (*_OPEN_STATES, *_CLOSED_STATES):
            is_gone = owners == 1 and state in _CLOSED_STATES
            return is_gone and _still_has(memory, address, channel)
        failure = _LayoutUnknown(f"a channel with the words {owners}, {weak_owners}, {state}")
    # Another thread may have answered meanwhile, and the channel be gone.
    if _still_has(memory, address, channel):
        raise failure
    return False


def _still_has(memory: int, address: int, channel: int) -> bool:
    _, has_sender, now = _PROTOCOL.unpack(_read(memory, address, _PROTOCOL.size))
    return bool(has_sender == _HAS_SENDER and now == channel)


def _read(memory: int, address: int, size: int) -> bytes:
    found = os.pread(memory, size, address)
    if len(found) != size:
        raise _LayoutUnknown(f"only {len(found)} of {size} bytes are readable")
    return found
