"""What the OpenAPI document says of calls of every endpoint: the formats of rows, streams, cancelling."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from endpoints.access.access_tokens import issue_access_token
from endpoints.api import openapi_calls
from endpoints.api.middleware import REQUEST_ID
from endpoints.cache.running_calls import RunningCall
from endpoints.calling import calls
from endpoints.defining.saving import save_endpoint
from endpoints.models import Endpoint
from endpoints.results.encoding import BINARY_FORMATS, STREAMED_FORMATS, offered_formats
from endpoints.results.outcomes import ResultFormat
from tests.conftest import ApiClient
from tests.endpoints.api.documents import (
    contents_of,
    document,
    operation_of,
    operations_of,
    parameters_of,
    validate,
    validator,
)

pytestmark = pytest.mark.django_db
CALLS = ("endpoints", "sandbox")
CANCEL = "/api/calls/{request_id}"


def calls_of(described: dict[str, Any]) -> list[dict[str, Any]]:
    return [operation for operation in operations_of(described) if operation["tags"][0] in CALLS]


# --- Formats ----------------------------------------------------------------------------------------------------------
def test_every_offered_format_is_a_content_of_every_call(api: ApiClient) -> None:
    for operation in calls_of(document(api)):
        contents = contents_of(operation)
        assert list(contents) == [each.value for each in offered_formats()]
        for each in BINARY_FORMATS:
            assert (contents[each]["type"], contents[each]["format"]) == ("string", "binary")
            assert contents[each]["description"]


def test_what_the_installation_cannot_write_is_no_content(api: ApiClient, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = tuple(each for each in ResultFormat if each not in BINARY_FORMATS)
    monkeypatch.setattr(openapi_calls, "offered_formats", lambda: texts)
    described = document(api)
    validate(described)
    for operation in calls_of(described):
        assert list(contents_of(operation)) == ["application/json", "text/csv", "application/x-ndjson"]


def test_each_content_is_what_accept_brings(api: ApiClient) -> None:
    save_endpoint(Endpoint(name="one", sql="SELECT 1 AS n"), ())
    for media_type in contents_of(operation_of(document(api), "get_one")):
        answer = api.query("one", Accept=media_type)
        assert (answer.status_code, answer["Content-Type"].partition(";")[0]) == (200, media_type)


# --- Streams ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("stream_rows", "streams"), [(5_000_000, True), (0, False)])
def test_lines_say_that_they_stream_and_how_they_end(api: ApiClient, stream_rows: int, streams: bool) -> None:
    sql = "WITH numbers AS (SELECT n FROM generate_series(1, 3) AS n) SELECT n FROM numbers"
    save_endpoint(Endpoint(name="long", sql=sql, sandboxing=True, stream_rows=stream_rows), ())
    described = document(api)
    validate(described)
    for name in ("get_long", "post_long", "sandbox_get_long", "sandbox_post_long"):
        contents = contents_of(operation_of(described, name))
        for each in ResultFormat:
            told = contents[each].get("description", "")
            assert ("5000000 rows" in told) == (streams and each in STREAMED_FORMATS)
            assert ('{"end": {' in told) == (streams and each in STREAMED_FORMATS)
        if streams:
            assert '`# {"end": {' in contents[ResultFormat.CSV]["description"]
    assert "`too_many_streams`" in described["components"]["responses"]["Failure429"]["description"]


# --- Cancelling -------------------------------------------------------------------------------------------------------
def test_a_call_may_have_an_id_and_be_cancelled_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "CALL_FOUND_SECONDS", 0.0)
    issued = issue_access_token(name="own")
    described = document(ApiClient(issued.secret))
    assert operation_of(described, "cancel_call") is described["paths"][CANCEL]["delete"]
    for operation in calls_of(described):
        assert parameters_of(operation)["X-Request-ID"]["in"] == "header"
        assert "409" in operation["responses"]
    assert "`cancelled`" in described["components"]["responses"]["Failure409"]["description"]
    with RunningCall(issued.access_token.prefix, {"HTTP_X_REQUEST_ID": "mine"}) as call:
        call.end_if_unwanted()
        answer = ApiClient(issued.secret).delete(CANCEL.format(request_id="mine"))
    validator(described, "CancelledResult").validate(answer.json())
    missing = ApiClient(issued.secret).delete(CANCEL.format(request_id="another"))
    assert str(missing.status_code) in described["paths"][CANCEL]["delete"]["responses"]


@pytest.mark.parametrize("request_id", ["a", "a/b:c", "mine+1=@", "a" * 128, "", "a" * 129, "a b", "é", "a\n"])
def test_a_request_id_fits_if_the_service_takes_it(api: ApiClient, request_id: str) -> None:
    described = document(api)
    for name, parameter in (("cancel_call", "request_id"), ("get_logs_all", "X-Request-ID")):
        schema = parameters_of(operation_of(described, name))[parameter]["schema"]
        # Python's $ also matches before a line break at the end, ECMA-262's does not.
        fits = Draft202012Validator(schema).is_valid(request_id) and not request_id.endswith("\n")
        assert fits == bool(REQUEST_ID.fullmatch(request_id))


@pytest.mark.parametrize("may_issue", [False, True])
def test_who_may_call_nothing_has_nothing_to_cancel_and_no_tools(may_issue: bool) -> None:
    issued = issue_access_token(name="one", may_load=True, may_issue=may_issue, no_endpoints=True)
    described = document(ApiClient(issued.secret))
    validate(described)
    assert CANCEL not in described["paths"]
    assert "/api/tokens" not in described["paths"]
    assert "/mcp" not in described["info"]["description"]


def test_a_browser_token_cancels_nothing_and_has_its_calls_alone() -> None:
    secret = issue_access_token(name="backend", may_issue=True, may_purge=True, may_load=True).secret
    wanted = {"endpoints": ["logs.all"], "arguments": {"project": "acme"}}
    issued = ApiClient(secret).post("/api/tokens", wanted, content_type="application/json").json()
    described = document(ApiClient(issued["result"][0]["token"]))
    validate(described)
    assert set(described["paths"]) == {"/api/endpoints/query/logs.all", "/api/endpoints/query/name/logs.all"}
    assert "acme" not in str(described)


def test_the_description_leads_to_the_tools_of_agents(api: ApiClient) -> None:
    assert "[/mcp](/mcp)" in document(api)["info"]["description"]
