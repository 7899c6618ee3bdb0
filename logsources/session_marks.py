"""Marks by which a connection to the log database knows its session again.

A pooler may share sessions: in some modes of PgBouncer, each transaction of a connection runs in any that is free. What
the connection has set or prepared is then missing, or another one's. So it leaves a random mark in its session, and no
answer counts without it. Callers' statements cannot leave a mark: their transactions are rolled back. The mark alone
decides: poolers hide the ids of sessions, and some rename prepared statements.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, Final

import psycopg
from psycopg import Connection, RawCursor, generators
from psycopg.pq import ExecStatus, abc

SHOW_MARK: Final = b"SHOW logs.session"  # the gate may not call current_setting()
SHARED_SESSIONS: Final = (
    "The log database is reached through a pooler that shares sessions between connections, such as PgBouncer in"
    " transaction or statement mode; give LOGS_GATE_URL and LOGS_DATABASE_URL its session mode, or no pooler"
)


class SharedSession(psycopg.OperationalError):
    """A session is not the connection's own: nobody may get what it answers."""


def mark_session(connection: Connection[Any], settings: Mapping[str, str]) -> bytes:
    """Set these settings and a new mark for the session of a connection in autocommit; return the mark."""
    mark = secrets.token_hex(16)
    texts = [text for setting in {**settings, "logs.session": mark}.items() for text in setting]
    calls = (f"set_config(${first}, ${first + 1}, false)" for first in range(1, len(texts), 2))
    RawCursor(connection).execute(f"SELECT {', '.join(calls)}".encode(), texts)
    return mark.encode()


def ask_for_mark(connection: Connection[Any]) -> abc.PGresult:
    """Return the result of SHOW_MARK in the session in which the connection is now."""
    connection.pgconn.send_query_params(SHOW_MARK, None)
    result: abc.PGresult = connection.wait(generators.execute(connection.pgconn))[0]
    return result


def shown_mark(result: abc.PGresult) -> bytes | None:
    """Return the mark in the result of SHOW_MARK, None if there is none. Raises psycopg.Error."""
    if result.status == ExecStatus.TUPLES_OK:
        return result.get_value(0, 0)
    error = psycopg.errors.error_from_result(result)
    if isinstance(error, psycopg.errors.UndefinedObject):
        return None
    raise error


def refuse_shared_sessions(connection: Connection[Any], other: Connection[Any]) -> None:
    """Raise SharedSession if a connection in autocommit loses its session to another one to the same server."""
    mark = mark_session(connection, {})
    mark_session(other, {})
    # A pooler lends the session that was used last, or each in turn: then the first or the second answer is another's.
    if any(shown_mark(ask_for_mark(connection)) != mark for _ in range(2)):
        raise SharedSession(SHARED_SESSIONS)
