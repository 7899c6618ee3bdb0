"""The log: one JSON object a line, everything an operator needs, never a secret, an argument or a row value."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client

from endpoints.defining.saving import save_endpoint
from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter, ParameterType
from tests.conftest import ApiClient

pytestmark = pytest.mark.django_db
ROW_VALUE, ARGUMENT = "value-of-a-row", "value-of-an-argument"


Log = Callable[[], str]


@pytest.fixture
def log(capfd: pytest.CaptureFixture[str]) -> Iterator[Log]:
    """What the service writes to stderr, in its own format: first what goes through `logging`, then the requests."""
    formatter = next(handler.formatter for handler in logging.getLogger().handlers if handler.formatter)
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    logging.getLogger().addHandler(handler)
    written: list[str] = []

    def read() -> str:
        written.append(capfd.readouterr().err)
        return stream.getvalue() + "".join(written)

    yield read
    logging.getLogger().removeHandler(handler)


@pytest.fixture
def endpoint(db: None) -> Endpoint:
    sql = f"SELECT '{ROW_VALUE}' AS a, 1 / (length(@text) - 3) AS n, ('x' || @cast)::int IS NULL AS c"
    return save_endpoint(Endpoint(name="logged", sql=sql), [DeclaredParameter(name="text")])


def entries(log: Log) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log().splitlines()]


def test_one_line_tells_who_called_what_how_long_and_how_it_ended(api: ApiClient, endpoint: Endpoint, log: Log) -> None:
    response = api.query("logged", {"text": ARGUMENT})
    (entry,) = entries(log)
    assert entry["event"] == "request_finished"
    assert entry["code"] == 200
    assert entry["request"] == "GET /api/endpoints/query/logged"
    assert (entry["endpoint"], entry["endpoint_version"]) == ("logged", 1)
    assert entry["access_token"] == "test caller"
    assert entry["request_id"] == response["X-Request-ID"]
    assert entry["duration_ms"] > 0
    assert entry["timestamp"].endswith("Z")


def test_no_line_holds_a_secret_an_argument_or_a_row_value(
    api: ApiClient, secret: str, endpoint: Endpoint, log: Log
) -> None:
    calls: list[tuple[dict[str, str], int]] = [
        ({"text": ARGUMENT}, 200),
        ({"text": "abc"}, 500),
        ({"text": ARGUMENT, "cast": ARGUMENT}, 500),
        ({"text": ARGUMENT, "sql": f"select '{ARGUMENT}'"}, 400),
    ]
    for arguments, status in calls:
        assert api.query("logged", arguments).status_code == status
    assert Client().get("/api/endpoints/query/logged", {"text": ARGUMENT, "x-api-key": secret}).status_code == 401
    assert Client().get("/api/endpoints/query/logged", headers={"X-API-KEY": secret + "x"}).status_code == 401
    written = log()
    assert len(entries(log)) >= 6
    assert {entry.get("error") for entry in entries(log)} >= {"stored_query_failed", "not_authenticated"}
    for hidden in (ROW_VALUE, ARGUMENT, secret):
        assert hidden not in written


def test_a_bug_is_logged_with_its_frames_and_without_their_values(
    api: ApiClient, secret: str, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(reference: str, **kwargs: object) -> None:
        local_value = secret + ARGUMENT
        raise RuntimeError(f"a bug near {len(local_value)}")

    monkeypatch.setattr("endpoints.api.query.run_endpoint", fail)
    assert api.query("logs.all", {"project": ARGUMENT}).status_code == 500
    failure = next(entry for entry in entries(log) if entry["event"] == "internal_error")
    assert failure["exception"][0]["exc_type"] == "RuntimeError"
    assert failure["exception"][0]["frames"]
    assert secret not in log()
    assert ARGUMENT not in log()


def test_a_failing_parameter_type_is_no_server_error(api: ApiClient, log: Log) -> None:
    save_endpoint(
        Endpoint(name="typed", sql="SELECT @n AS n"), [DeclaredParameter(name="n", type=ParameterType.INTEGER)]
    )
    assert api.query("typed", {"n": ARGUMENT}).status_code == 400
    assert ARGUMENT not in log()
