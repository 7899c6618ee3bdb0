"""The call that a thread answers, and whether anybody still wants its result.

A wait that has lasted for a moment asks `end_if_unwanted` again and again, so a short call pays nothing. A call ends
early if its client has left, or if the owner of its access token has cancelled it, unless others wait for the result
that it computes. Cancelling reaches every process through Redis:

    lqe:calls:<prefix of the access token>:<request id>   the long calls with this request id, a set
    lqe:call-end:<call>                                   exists once the call was cancelled

A process asks for all its long calls at once, in the threads that wait anyway.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from time import monotonic
from types import TracebackType
from typing import Any, Final

from config.exchanges import PROTOCOL, Exchange
from endpoints.cache.connection import CacheUnavailable, ask_for, ask_for_all
from endpoints.cache.keys import PREFIX
from endpoints.errors import CallCancelled, ClientLeft

LOOK_SECONDS: Final = 0.2  # between two looks of a wait
ASK_SECONDS: Final = 0.2  # between two questions of a process to Redis
LISTED_SECONDS: Final = 900  # longer than any statement: only a process that died leaves a call listed
WISH_SECONDS: Final = 60


class RunningCall:
    """A call with an access token, from its arguments to its answer, in one thread; a context manager.

    `caller` is the prefix of its access token, `environ` that of WSGI (PEP 3333), with the request's id: without one
    the call cannot be cancelled, and without the web server's protocol its client cannot leave. `others_wait` is set
    while it computes a result that others may wait for too.
    """

    __slots__ = ("_protocol", "_token", "caller", "id", "is_cancelled", "others_wait", "request_id")

    def __init__(self, caller: str, environ: Mapping[str, Any]) -> None:
        self.request_id: str = environ.get("HTTP_X_REQUEST_ID", "")  # as the service has settled it
        self.caller = caller
        self.id = ""  # once it is listed
        self.is_cancelled = False
        self.others_wait: Callable[[], bool] | None = None
        self._protocol = environ.get(PROTOCOL)

    def __enter__(self) -> RunningCall:
        self._token: Token[RunningCall | None] = CURRENT_CALL.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        CURRENT_CALL.reset(self._token)
        if self.id:
            _long_calls.remove(self)

    def end_if_client_left(self) -> None:
        """Raise ClientLeft if the client has left and nobody else waits for the result."""
        if self._has_lost_its_client() and not self._is_shared():
            raise ClientLeft

    def end_if_unwanted(self) -> None:
        """Raise ClientLeft or CallCancelled if nobody wants the result any more; from now on it can be cancelled."""
        if self.request_id and not self.is_cancelled:
            _long_calls.look(self)
        if (self.is_cancelled or self._has_lost_its_client()) and not self._is_shared():
            raise CallCancelled if self.is_cancelled else ClientLeft

    def _has_lost_its_client(self) -> bool:
        return self._protocol is not None and Exchange(self._protocol).is_abandoned()

    def _is_shared(self) -> bool:
        return self.others_wait is not None and self.others_wait()


# The call of this thread, None for work that nobody can leave: warming, the operator's commands.
CURRENT_CALL: Final[ContextVar[RunningCall | None]] = ContextVar("running_call", default=None)


def end_if_unwanted() -> None:
    """Raise CallEnded if this thread answers a call whose result nobody wants any more."""
    call = CURRENT_CALL.get()
    if call is not None:
        call.end_if_unwanted()


def cancel_calls(request_id: str, *, caller: str) -> bool:
    """Cancel the long calls with this request id and access token; return whether there is one.

    They end within half a second, in any process. Raises CacheUnavailable.
    """
    ids = [member.decode() for member in ask_for("SMEMBERS", _listing(caller, request_id))]
    if ids:
        ask_for_all([["SET", _wish(each), 1, "EX", WISH_SECONDS] for each in ids])
    return bool(ids)


class _LongCalls:
    """The calls of this process that have been waiting for a moment."""

    def __init__(self) -> None:
        self._calls: dict[str, RunningCall] = {}
        self._asking = threading.Lock()
        self._asked_at = float("-inf")

    def look(self, call: RunningCall) -> None:
        """List the call, and note which of the listed ones were cancelled. Without Redis none can be."""
        try:
            if not call.id:
                self._add(call)
            if monotonic() - self._asked_at >= ASK_SECONDS and self._asking.acquire(blocking=False):
                try:
                    self._ask()
                finally:
                    self._asked_at = monotonic()
                    self._asking.release()
        except CacheUnavailable:
            return

    def remove(self, call: RunningCall) -> None:
        """Make the call one that cannot be cancelled; never raises."""
        self._calls.pop(call.id, None)
        try:
            ask_for("SREM", _listing(call.caller, call.request_id), call.id)
        except CacheUnavailable:
            return  # it expires

    def _add(self, call: RunningCall) -> None:
        new_id = secrets.token_hex(16)
        name = _listing(call.caller, call.request_id)
        ask_for_all([["SADD", name, new_id], ["EXPIRE", name, LISTED_SECONDS]])
        call.id = new_id
        self._calls[new_id] = call

    def _ask(self) -> None:
        calls = list(self._calls.values())
        for call, wish in zip(calls, ask_for("MGET", *[_wish(call.id) for call in calls]), strict=True):
            if wish is not None:
                call.is_cancelled = True


def _listing(caller: str, request_id: str) -> str:
    return f"{PREFIX}:calls:{caller}:{request_id}"


def _wish(call_id: str) -> str:
    return f"{PREFIX}:call-end:{call_id}"


_long_calls = _LongCalls()


def _forget_calls() -> None:
    """A forked child has none of its parent's threads and calls."""
    _long_calls.__init__()  # type: ignore[misc]  # the one that others have


os.register_at_fork(after_in_child=_forget_calls)
