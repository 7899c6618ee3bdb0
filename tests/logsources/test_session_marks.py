"""A mark is there for as long as the session is the connection's own, and a session that two take turns in is found."""

from __future__ import annotations

import psycopg
import pytest

from logsources.databases import owner_connection
from logsources.session_marks import (
    SHOW_MARK,
    SharedSession,
    ask_for_mark,
    mark_session,
    refuse_shared_sessions,
    shown_mark,
)

pytestmark = [pytest.mark.django_db(databases=["default", "logs"]), pytest.mark.sql]


def test_a_session_keeps_its_mark_through_transactions() -> None:
    with owner_connection() as connection:
        mark = mark_session(connection, {})
        with connection.transaction(force_rollback=True):
            connection.execute("SELECT set_config('logs.session', 'another', false)")
        assert shown_mark(ask_for_mark(connection)) == mark


def test_marks_differ() -> None:
    with owner_connection() as connection:
        assert mark_session(connection, {}) != mark_session(connection, {})


def test_a_session_without_a_mark_has_none() -> None:
    with owner_connection() as connection:
        assert shown_mark(ask_for_mark(connection)) is None


def test_other_failures_are_no_missing_mark() -> None:
    with owner_connection() as connection, connection.transaction(force_rollback=True):
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("SELECT 1 / 0")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            shown_mark(ask_for_mark(connection))


def test_settings_come_into_force_with_the_mark() -> None:
    with owner_connection() as connection:
        mark_session(connection, {"work_mem": "5MB", "DateStyle": "SQL, DMY"})
        assert connection.execute("SHOW work_mem").fetchone() == ("5MB",)
        assert connection.execute("SHOW DateStyle").fetchone() == ("SQL, DMY",)


def test_two_connections_with_sessions_of_their_own_pass() -> None:
    with owner_connection() as one, owner_connection() as other:
        refuse_shared_sessions(one, other)


def test_two_connections_in_one_session_are_found() -> None:
    with owner_connection() as one, pytest.raises(SharedSession, match="pooler that shares sessions"):
        refuse_shared_sessions(one, one)


def test_the_gate_may_ask_for_its_mark() -> None:
    assert SHOW_MARK.startswith(b"SHOW "), "the hardened gate may call set_config() alone"
