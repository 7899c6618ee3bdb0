"""Listens to the announcements of loads (logsources.announcing): one connection of this process to the primary.

LISTEN needs a session of its own on the primary: standbys refuse it, and a pooler that lends a session for each
transaction loses it. So the connection is the owner's, as those of loading are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic, sleep
from typing import Any, Final

import structlog
from psycopg import Connection, sql

from config.deadlines import answer_within
from endpoints.results.positions import read_position
from logsources.announcing import CHANNEL, read_announcement
from logsources.databases import owner_connection
from logsources.topology import read_topology

SIGN_OF_LIFE_SECONDS: Final = 5.0  # between two questions whether the silent server is still there
LOOK_SECONDS: Final = 0.5  # between two looks whether to stop
ANSWER_SECONDS: Final = 2.0
RECONNECT_SECONDS: Final = 0.5

logger = structlog.get_logger(__name__)


class Listener:
    """Tells `heard` of each load, with the log source and a position of the log that contains its rows.

    It connects again whenever the connection is lost. Once it listens, it calls `connected` with a position that
    contains every row of before: loads may have been missed until then. Both are called in the listener's own thread
    and must return at once.
    """

    def __init__(self, heard: Callable[[str, int], None], connected: Callable[[int], None]) -> None:
        self._heard = heard
        self._connected = connected
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._listen_for_ever, name="listener", daemon=True)

    def start(self) -> None:
        """Start listening. Raises RuntimeError if no thread is available."""
        self._thread.start()

    def stop(self) -> None:
        """Stop listening and close the connection, within LOOK_SECONDS."""
        self._ended.set()
        self._thread.join()

    def _listen_for_ever(self) -> None:
        while not self._ended.is_set():
            try:
                with owner_connection() as conn:
                    with answer_within(ANSWER_SECONDS):
                        conn.execute(sql.SQL("LISTEN {}").format(sql.Identifier(CHANNEL)))
                        ((position,),) = conn.execute(read_topology(conn).position).fetchall()
                    self._connected(read_position(position))
                    while not self._ended.is_set():
                        self._listen(conn)
            except Exception as error:  # noqa: BLE001  # of any kind: without this thread nothing is heard any more
                logger.warning("listening_interrupted", reason=type(error).__name__)
                sleep(RECONNECT_SECONDS)

    def _listen(self, conn: Connection[Any]) -> None:
        """Listen for a while, then make sure that the server is still there: a host that is gone closes nothing."""
        until = monotonic() + SIGN_OF_LIFE_SECONDS
        while monotonic() < until and not self._ended.is_set():
            for notify in conn.notifies(timeout=LOOK_SECONDS):
                self._tell(notify.payload)
        with answer_within(ANSWER_SECONDS):
            conn.execute("SELECT 1")

    def _tell(self, payload: str) -> None:
        announcement = read_announcement(payload)
        if announcement is None:
            return
        try:
            position = read_position(announcement.position)
        except ValueError:
            return  # anybody with a login to this database may send a NOTIFY
        self._heard(announcement.source, position)
