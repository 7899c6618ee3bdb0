"""Cancel the run of a draft from any process: a note in Redis, acted on by the process that runs it.

    lqe:draft-run:<run id>       exists during the run
    lqe:draft-cancel:<run id>    exists once somebody wants to cancel it

The running process asks for the second name several times a second and then sends PostgreSQL a cancel request for its
own connection (PostgreSQL manual, "Canceling Requests in Progress"). That needs no right in the log database: the gate
may call set_config() and nothing else, and its backends cannot be signalled by another role. No other statement can be
hit: requests are sent only while the draft's statement has the connection, which is closed afterwards.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import psycopg

from endpoints.cache import CacheUnavailable
from endpoints.cache.connection import ask_for
from endpoints.cache.keys import PREFIX
from endpoints.errors import Overloaded
from endpoints.log_database.gate import GateConnection

RUN_ID: Final = re.compile(r"[A-Za-z0-9-]{8,100}")
POLL_SECONDS: Final = 0.1
# A request that met the server between two statements has no effect, so it is sent again until the statement is over.
REQUEST_SECONDS: Final = 2.0
KEPT_BEYOND_TIMEOUT_SECONDS: Final = 60  # publishing the sandbox and waiting for a connection come before the statement
WISH_SECONDS: Final = 600


class DraftCancelled(Exception):
    """Somebody cancelled the run of the draft, and PostgreSQL has stopped it."""

    def __init__(self) -> None:
        super().__init__("The run was cancelled.")


def cancel_draft_run(run_id: str) -> bool:
    """Cancel the run, in any process; return whether there was one. Raises CacheUnavailable."""
    if not RUN_ID.fullmatch(run_id) or not ask_for("EXISTS", _name("run", run_id)):
        return False
    ask_for("SET", _name("cancel", run_id), "1", "EX", WISH_SECONDS)
    return True


@contextmanager
def cancellable_run(run_id: str, *, timeout_seconds: float) -> Iterator[RunAttendance]:
    """Make a run known to `cancel_draft_run`; without Redis it still runs, to its timeout.

    Raises DraftCancelled instead of what the cancelled statement raised.
    """
    if not RUN_ID.fullmatch(run_id):
        raise ValueError("a run id must have 8 to 100 letters, digits and dashes")
    attendance = RunAttendance(run_id)
    with suppress(CacheUnavailable):
        ask_for("SET", _name("run", run_id), "1", "EX", round(timeout_seconds) + KEPT_BEYOND_TIMEOUT_SECONDS)
    try:
        yield attendance
    except Exception as error:
        if attendance.cancelled:
            raise DraftCancelled from error
        raise
    finally:
        with suppress(CacheUnavailable):
            ask_for("DEL", _name("run", run_id), _name("cancel", run_id))


class RunAttendance:
    """Watches for a request to cancel one run, while its statement runs."""

    def __init__(self, run_id: str) -> None:
        self._wish = _name("cancel", run_id)
        self.cancelled = False

    @contextmanager
    def attend(self, connection: GateConnection) -> Iterator[None]:
        """Cancel the statement that runs on the connection inside the block, as soon as somebody requests it.

        Raises Overloaded if no thread is available to watch for it.
        """
        over = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(connection, over), name="draft-cancel", daemon=True)
        try:
            watcher.start()
        except RuntimeError as error:
            raise Overloaded from error
        try:
            yield
        finally:
            over.set()
            # Bounded by Redis's and PostgreSQL's own time limits. No other caller may get the connection before.
            watcher.join()
            if self.cancelled:
                connection.close()

    def _watch(self, connection: GateConnection, over: threading.Event) -> None:
        while not over.wait(POLL_SECONDS):
            if not self.cancelled and not self._is_wished():
                continue
            self.cancelled = True
            with suppress(psycopg.Error):
                connection.cancel_safe(timeout=REQUEST_SECONDS)

    def _is_wished(self) -> bool:
        try:
            return bool(ask_for("EXISTS", self._wish))
        except CacheUnavailable:
            return False


def _name(kind: str, run_id: str) -> str:
    return f"{PREFIX}:draft-{kind}:{run_id}"
