"""Requests of the web server and their answers, which any thread may give, at once or later.

granian calls the application in one of its threads and takes the answer from any: so a call that waits for rows, or
whose rows are more than fit into memory, gives its thread back and is answered by another one.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from granian.server import mp

from config.connections import HANG_UP, hang_up

Headers = Sequence[tuple[str, str]]
Application = Callable[[dict[str, Any], Callable[..., None]], Iterable[bytes]]
Runner = Callable[[Any, dict[str, Any]], None]

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

    def __init__(self, protocol: Any, port: int = 0) -> None:
        self._protocol = protocol
        self.port = port  # at which it came in

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
        environ = {**_ENVIRON, **scope}
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
