"""Loads are announced after their commit, together if there are many, and again if it failed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.test import Client
from psycopg import sql

from endpoints.access.access_tokens import issue_access_token
from endpoints.results.positions import read_position
from logsources import announcing
from logsources.announcing import ANNOUNCER, CHANNEL, Announcement, Announcer, announce, read_announcement
from logsources.databases import owner_connection
from logsources.loading import OnBadLine, load_rows
from logsources.models import LogSource
from tests.endpoints.api.loads import row, send

pytestmark = [pytest.mark.django_db, pytest.mark.sql]
PATIENCE_SECONDS = 20.0


@pytest.fixture
def listening(log_database: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
    ANNOUNCER.close()  # what the test before has loaded is announced before this one listens
    log_database.execute(sql.SQL("LISTEN {}").format(sql.Identifier(CHANNEL)))
    return log_database


@pytest.fixture
def announcer() -> Iterator[Announcer]:
    announcer = Announcer()
    yield announcer
    announcer.close()


@pytest.fixture
def shipper(log_database: psycopg.Connection[Any]) -> Client:
    return Client(headers={"X-API-KEY": issue_access_token(name="shipper", may_load=True).secret})


def heard(connection: psycopg.Connection[Any], number: int) -> list[Announcement]:
    """Return so many announcements; fewer if they do not come."""
    notifies = connection.notifies(timeout=PATIENCE_SECONDS, stop_after=number)
    found = [read_announcement(notify.payload) for notify in notifies]
    assert None not in found
    return [each for each in found if each is not None]


def test_a_load_of_a_file_is_announced_with_a_position_of_the_log(
    listening: psycopg.Connection[Any],
) -> None:
    before = position(listening)
    line = b'{"id": "1", "project": "acme", "event_message": "one"}'
    load_rows(LogSource.objects.get(name="edge_logs"), [line], on_bad_line=OnBadLine.ABORT)
    (found,) = heard(listening, 1)
    assert found.source == "edge_logs"
    assert before <= read_position(found.position) <= position(listening)


def position(connection: psycopg.Connection[Any]) -> int:
    ((text,),) = connection.execute("SELECT pg_current_wal_lsn()::text").fetchall()
    return read_position(text)


def test_a_load_over_http_is_announced(listening: psycopg.Connection[Any], shipper: Client) -> None:
    assert send(shipper, row(1)).status_code == 200
    assert [each.source for each in heard(listening, 1)] == ["edge_logs"]


def test_rows_that_are_there_already_are_no_news(shipper: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[str] = []
    monkeypatch.setattr(ANNOUNCER, "note", noted.append)
    for number in (1, 1, 2):
        send(shipper, row(number))
    assert noted == ["edge_logs", "edge_logs"]


def test_loads_of_one_moment_are_announced_together(
    listening: psycopg.Connection[Any], announcer: Announcer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[list[str]] = []

    def noted(connection: Any, sources: list[str]) -> None:
        made.append(sources)
        announce(connection, sources)

    monkeypatch.setattr(announcing, "announce", noted)
    with announcer._changed:  # nothing is announced until all have been noted
        for source in ("edge_logs", "auth_logs") * 50:
            announcer.note(source)
    assert {each.source for each in heard(listening, 2)} == {"edge_logs", "auth_logs"}
    assert made == [["auth_logs", "edge_logs"]]


def test_an_announcement_that_fails_is_made_again(
    listening: psycopg.Connection[Any], announcer: Announcer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(announcing, "RETRY_SECONDS", 0.01)
    failures = ["first", "second"]

    def sometimes(connection: Any, sources: list[str]) -> None:
        if failures:
            failures.pop()
            raise psycopg.OperationalError("the server is gone")
        announce(connection, sources)

    monkeypatch.setattr(announcing, "announce", sometimes)
    announcer.note("edge_logs")
    assert [each.source for each in heard(listening, 1)] == ["edge_logs"]


def test_what_was_noted_is_announced_before_the_end(listening: psycopg.Connection[Any], announcer: Announcer) -> None:
    announcer.note("edge_logs")
    announcer.close()
    assert [each.source for each in heard(listening, 1)] == ["edge_logs"]
    announcer.note("auth_logs")
    assert [each.source for each in heard(listening, 1)] == ["auth_logs"]


@pytest.mark.parametrize("payload", ["", "edge_logs", " 0/1"])
def test_other_payloads_are_no_announcements(payload: str) -> None:
    assert read_announcement(payload) is None


def test_a_name_is_announced_as_it_is(log_database: psycopg.Connection[Any]) -> None:
    with owner_connection() as connection:
        log_database.execute(sql.SQL("LISTEN {}").format(sql.Identifier(CHANNEL)))
        announce(connection, ["it's_a_name"])
    assert [each.source for each in heard(log_database, 1)] == ["it's_a_name"]
