"""Loading as a service: who may, where to, and what becomes of what PostgreSQL says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from endpoints.access.secrets import Caller
from endpoints.calling.loading import Load, LoadedRows, LoadTarget, check_load, load_sent_rows
from endpoints.errors import (
    DatabaseUnavailable,
    EndpointError,
    InternalError,
    InvalidRequest,
    LoadNotAllowed,
    LogSourceNotFound,
    Overloaded,
    RequestTooLarge,
)
from endpoints.log_database.load_pool import LoadPool, close_load_pool, load_pool
from logsources.models import LogSource

pytestmark = pytest.mark.django_db
TARGET = LoadTarget(source="rest_logs")
ROWS = [{"id": str(number), "project": "acme", "event_message": f"message {number}"} for number in range(3)]
BODY = json.dumps(ROWS).encode()

Fails = Callable[[str, int], None]


def caller(**rights: Any) -> Caller:
    return Caller(name="shipper", prefix="0" * 12, **rights)


def load_of(body: bytes) -> Load:
    return Load(TARGET, lambda: lambda: body)


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


def test_a_limited_caller_loads_into_its_sources_and_learns_nothing_of_others(db: None) -> None:
    limited = caller(may_load=True, load_sources=frozenset({"auth_logs", "rest_logs"}))
    assert check_load(LoadTarget(producer_name="gotrue.logs.prod"), caller=limited) == LoadTarget("auth_logs")
    reference = str(LogSource.objects.get(name="rest_logs").uuid)
    assert check_load(LoadTarget(source=reference), caller=limited) == LoadTarget("rest_logs")
    for target in (
        LoadTarget(source="edge_logs"),
        LoadTarget(source="unknown_logs"),
        LoadTarget(producer_name="cloudflare.logs.prod"),
    ):
        with pytest.raises(LoadNotAllowed, match="into this log source"):
            check_load(target, caller=limited)


def test_a_load_without_a_source_goes_to_the_only_one_of_the_caller(db: None) -> None:
    only = caller(may_load=True, load_sources=frozenset({"auth_logs"}))
    assert check_load(LoadTarget(), caller=only) == LoadTarget(source="auth_logs")
    for several in (frozenset[str](), frozenset({"auth_logs", "rest_logs"})):
        with pytest.raises(InvalidRequest, match="Name the log source"):
            check_load(LoadTarget(), caller=caller(may_load=True, load_sources=several))
    with pytest.raises(InvalidRequest, match="not both"):
        check_load(LoadTarget("auth_logs", "gotrue.logs.prod"), caller=only)


def test_tells_what_became_of_the_rows(log_database: psycopg.Connection[Any]) -> None:
    first, second = (load_sent_rows(load_of(BODY)) for _ in range(2))
    assert first == LoadedRows("rest_logs", loaded=3, already_there=0, without_timestamp=3)
    assert second == LoadedRows("rest_logs", loaded=0, already_there=3)


def test_a_body_that_is_no_rows_is_told_in_words(log_database: psycopg.Connection[Any]) -> None:
    with pytest.raises(InvalidRequest, match=r"The rows cannot be read: the body is empty\."):
        load_sent_rows(load_of(b""))


@pytest.mark.parametrize("sqlstate", ["40P01", "40001", "57P01", "08006"])
def test_a_lost_race_or_connection_costs_one_more_attempt(
    log_database: psycopg.Connection[Any], fails: Fails, sqlstate: str
) -> None:
    fails(sqlstate, 1)
    assert load_sent_rows(load_of(BODY)).loaded == 3
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
        load_sent_rows(load_of(BODY))
    assert "message 0" not in json.dumps(failure.value.body("id"))
    assert log_database.execute("SELECT count(*) FROM logs.rest_logs").fetchone() == (0,)


# --- Its turn ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def one_at_a_time(settings: Any, log_database: psycopg.Connection[Any]) -> Iterator[LoadPool]:
    close_load_pool()
    settings.ENDPOINTS_LOAD_CONCURRENCY = 1
    yield load_pool()
    close_load_pool()


def test_a_body_is_not_received_where_there_is_no_place(one_at_a_time: LoadPool) -> None:
    def receive() -> Callable[[], bytes]:
        raise AssertionError

    with one_at_a_time.place(), one_at_a_time.place(), pytest.raises(Overloaded):
        load_sent_rows(Load(TARGET, receive))


def test_a_body_that_waits_is_as_it_was_sent(one_at_a_time: LoadPool) -> None:
    happened: list[str] = []

    def receive() -> Callable[[], bytes]:
        happened.append("received")
        return expand

    def expand() -> bytes:
        happened.append("expanded")
        return BODY

    with one_at_a_time.place(), one_at_a_time.turn(), pytest.raises(Overloaded):
        load_sent_rows(Load(TARGET, receive))
    assert happened == ["received"]
    assert load_sent_rows(Load(TARGET, receive)).loaded == 3
    assert happened == ["received", "received", "expanded"]


def test_more_rows_than_a_load_has_are_refused(settings: Any, log_database: psycopg.Connection[Any]) -> None:
    settings.ENDPOINTS_MAX_LOAD_ROWS = 3
    assert load_sent_rows(load_of(BODY)).loaded == 3
    with pytest.raises(RequestTooLarge, match="at most 3 rows"):
        load_sent_rows(load_of(json.dumps([*ROWS, {}]).encode()))
    with pytest.raises(RequestTooLarge, match="at most 3 lines"):
        load_sent_rows(load_of(b"{}\n\n\n{}"))
    with pytest.raises(RequestTooLarge, match="at most 30 values"):
        load_sent_rows(load_of(b"[" + b"{}," * 30 + b"{}]"))
