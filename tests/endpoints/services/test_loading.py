"""Loading as a service: who may, where to, and what becomes of what PostgreSQL says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from endpoints.access_tokens import Caller
from endpoints.errors import (
    DatabaseUnavailable,
    EndpointError,
    InternalError,
    InvalidRequest,
    LoadNotAllowed,
    LogSourceNotFound,
    Overloaded,
)
from endpoints.services import Load, LoadedRows, LoadTarget, check_load, load_sent_rows

pytestmark = pytest.mark.django_db
TARGET = LoadTarget(source="rest_logs")
ROWS = [{"id": str(number), "project": "acme", "event_message": f"message {number}"} for number in range(3)]
BODY = json.dumps(ROWS).encode()

Fails = Callable[[str, int], None]


def caller(**rights: Any) -> Caller:
    return Caller(name="shipper", prefix="0" * 12, **rights)


@pytest.fixture
def fails(log_database: psycopg.Connection[Any]) -> Iterator[Fails]:
    """Let inserts into rest_logs fail with this SQLSTATE so many times."""

    def fail(sqlstate: str, times: int) -> None:
        log_database.execute(
            f"CREATE SEQUENCE logs.tries; CREATE FUNCTION logs.fail() RETURNS trigger LANGUAGE plpgsql AS $$"
            f" BEGIN IF nextval('logs.tries') <= {times} THEN"
            f" RAISE EXCEPTION 'it holds %', NEW.event_message USING ERRCODE = '{sqlstate}'; END IF; RETURN NEW; END$$;"
            f" CREATE TRIGGER fail BEFORE INSERT ON logs.rest_logs FOR EACH ROW EXECUTE FUNCTION logs.fail()"
        )

    yield fail
    log_database.execute("DROP FUNCTION IF EXISTS logs.fail CASCADE; DROP SEQUENCE IF EXISTS logs.tries")


def test_the_right_and_the_source_are_looked_at_before_the_body() -> None:
    check_load(TARGET, caller=caller(may_load=True))
    with pytest.raises(LoadNotAllowed):
        check_load(LoadTarget(source="unknown_logs"), caller=caller(may_purge=True))
    with pytest.raises(LogSourceNotFound):
        check_load(LoadTarget(producer_name="unknown"), caller=caller(may_load=True))


def test_tells_what_became_of_the_rows(log_database: psycopg.Connection[Any]) -> None:
    assert load_sent_rows(Load(TARGET, BODY)) == LoadedRows("rest_logs", loaded=3, already_there=0)
    assert load_sent_rows(Load(TARGET, BODY)) == LoadedRows("rest_logs", loaded=0, already_there=3)


def test_a_body_that_is_no_rows_is_told_in_words(log_database: psycopg.Connection[Any]) -> None:
    with pytest.raises(InvalidRequest, match=r"The rows cannot be read: the body is empty\."):
        load_sent_rows(Load(TARGET, b""))


@pytest.mark.parametrize("sqlstate", ["40P01", "40001", "57P01", "08006"])
def test_a_lost_race_or_connection_costs_one_more_attempt(
    log_database: psycopg.Connection[Any], fails: Fails, sqlstate: str
) -> None:
    fails(sqlstate, 1)
    assert load_sent_rows(Load(TARGET, BODY)).loaded == 3
    assert log_database.execute("SELECT count(*) FROM logs.rest_logs").fetchone() == (3,)


@pytest.mark.parametrize(
    ("sqlstate", "error"),
    [
        ("40P01", Overloaded),
        ("57014", Overloaded),
        ("55P03", Overloaded),
        ("57P01", DatabaseUnavailable),
        ("53100", DatabaseUnavailable),
        ("25006", DatabaseUnavailable),
        ("XX000", InternalError),
        ("42501", InternalError),
    ],
)
def test_failures_of_the_server_are_told_apart(
    log_database: psycopg.Connection[Any], fails: Fails, sqlstate: str, error: type[EndpointError]
) -> None:
    fails(sqlstate, 100)
    with pytest.raises(error) as failure:
        load_sent_rows(Load(TARGET, BODY))
    assert "message 0" not in json.dumps(failure.value.body("id"))
    assert log_database.execute("SELECT count(*) FROM logs.rest_logs").fetchone() == (0,)
