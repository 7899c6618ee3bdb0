"""X-Log-Position: a load is answered with it, and a call that sends it back gets no older rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.test import Client

from endpoints.cache import connection
from endpoints.defining.saving import save_endpoint
from endpoints.models import Endpoint
from endpoints.results.positions import read_position, write_position
from tests.conftest import ApiClient
from tests.endpoints.api.loads import row, send

pytestmark = pytest.mark.django_db
NOBODY_YET = write_position((1 << 64) - 1)


@pytest.fixture(params=[0, 600], ids=["uncached", "cached"])
def counting(request: pytest.FixtureRequest) -> Endpoint:
    """An endpoint that counts the rows of a log table."""
    return save_endpoint(
        Endpoint(name="counting", sql="SELECT count(*) AS rows FROM edge_logs", cache_seconds=request.param), []
    )


@pytest.fixture
def kept(db: None) -> Endpoint:
    """The same, with results that stay in the cache."""
    return save_endpoint(Endpoint(name="kept", sql="SELECT count(*) AS rows FROM edge_logs", cache_seconds=600), [])


def counted(response: Any) -> int:
    assert response.status_code == 200, response.content
    (row,) = response.json()["result"]
    return int(row["rows"])


def test_a_load_is_answered_with_a_position_that_grows(shipper: Client) -> None:
    positions = [read_position(send(shipper, row(number))["X-Log-Position"]) for number in range(3)]
    assert positions == sorted(positions)
    assert len(set(positions)) == 3


def test_rows_that_are_already_there_are_answered_with_a_position_too(shipper: Client) -> None:
    first = send(shipper, row(1))["X-Log-Position"]
    assert read_position(send(shipper, row(1))["X-Log-Position"]) >= read_position(first)


def test_a_call_with_the_position_of_a_load_sees_its_rows(shipper: Client, api: ApiClient, counting: Endpoint) -> None:
    for number in range(1, 6):
        position = send(shipper, row(number))["X-Log-Position"]
        assert counted(api.query("counting", X_Log_Position=position)) == number


@pytest.mark.usefixtures("kept")
def test_a_cached_result_is_not_served_to_a_caller_who_awaits_a_later_position(shipper: Client, api: ApiClient) -> None:
    def call(**headers: str) -> tuple[int, str]:
        response = api.query("kept", **headers)
        return counted(response), response["X-Cache"]

    assert call() == (0, "miss")
    position = send(shipper, row(1))["X-Log-Position"]
    assert call() == (0, "hit")
    assert call(X_Log_Position=position) == (1, "miss")
    assert call(X_Log_Position=position) == (1, "hit")
    assert call() == (1, "hit")


@pytest.mark.usefixtures("kept", "trusting")
def test_a_result_that_this_process_has_just_served_is_not_served_either(shipper: Client, api: ApiClient) -> None:
    assert [counted(api.query("kept")) for _ in range(3)] == [0, 0, 0]
    position = send(shipper, row(1))["X-Log-Position"]
    assert counted(api.query("kept", X_Log_Position=position)) == 1


@pytest.fixture
def trusting(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that does not ask Redis again for a result that it has just fetched, however slow the test is."""
    monkeypatch.setattr(connection, "TRUSTED_SECONDS", 60.0)
    return


@pytest.mark.usefixtures("kept")
def test_a_position_that_nobody_has_seen_does_not_make_a_result_pass_for_newer_than_it_is(
    shipper: Client, api: ApiClient
) -> None:
    assert counted(api.query("kept", X_Log_Position=NOBODY_YET)) == 0
    position = send(shipper, row(1))["X-Log-Position"]
    assert counted(api.query("kept", X_Log_Position=position)) == 1


@pytest.mark.parametrize("sent", ["0", "0/", "x/1", "0/1 ", "-", "0/1, 0/2"])
def test_400_for_any_other_text(api: ApiClient, counting: Endpoint, sent: str) -> None:
    response = api.get("/api/endpoints/query/counting", HTTP_X_LOG_POSITION=sent)
    assert response.status_code == 400
    error = response.json()["error"]
    assert (error["code"], error["message"]) == (
        "invalid_request",
        "X-Log-Position must be a position as a load answers it, such as 0/3A2B1C8.",
    )


def test_caches_on_the_way_keep_answers_to_different_positions_apart(api: ApiClient, counting: Endpoint) -> None:
    assert "X-Log-Position" in api.query("counting")["Vary"]


@pytest.mark.one_server("a load on a cluster makes a position of its own")
def test_the_position_is_that_of_the_server(shipper: Client, log_database: psycopg.Connection[Any]) -> None:
    def current() -> int:
        return read_position(log_database.execute("SELECT pg_current_wal_lsn()::text").fetchall()[0][0])

    earliest = current()
    position = read_position(send(shipper, row(1))["X-Log-Position"])
    assert earliest < position <= current()
