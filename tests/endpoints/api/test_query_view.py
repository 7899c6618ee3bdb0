"""A call that succeeds: where arguments come from, what comes back, in which form and with which headers."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client

from endpoints.access.access_tokens import issue_access_token
from endpoints.defining.saving import save_endpoint
from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter, ParameterType
from tests.conftest import ApiClient

pytestmark = pytest.mark.django_db
ECHO = "/api/endpoints/query/echo"
MADE_ID = re.compile(r"[0-9a-f]{32}")


@pytest.fixture
def echo(db: None) -> Endpoint:
    """An endpoint that answers with its arguments."""
    return save_endpoint(
        Endpoint(name="echo", sql="SELECT @text AS text, @number AS number, @list AS list, @at AS at"),
        [
            DeclaredParameter(name="text"),
            DeclaredParameter(name="number", type=ParameterType.INTEGER),
            DeclaredParameter(name="list", type=ParameterType.TEXT_LIST),
            DeclaredParameter(name="at", type=ParameterType.TIMESTAMP),
        ],
    )


def echoed(response: Any) -> dict[str, Any]:
    """Return the arguments the endpoint saw, without those it did not get."""
    assert response.status_code == 200, response.content
    (row,) = response.json()["result"]
    return {name: value for name, value in row.items() if value is not None}


@pytest.mark.parametrize("address", ["/api/endpoints/query", "/api/endpoints/query/name", "/endpoints/query"])
@pytest.mark.parametrize("suffix", ["", "/"])
@pytest.mark.parametrize("method", ["get", "post"])
@pytest.mark.parametrize("by", ["name", "id"])
def test_answers_by_name_and_uuid_with_and_without_a_slash(
    api: ApiClient, echo: Endpoint, address: str, suffix: str, method: str, by: str
) -> None:
    response = getattr(api, method)(f"{address}/{getattr(echo, by)}{suffix}?text=x")
    assert echoed(response) == {"text": "x"}


def test_answers_by_an_upper_case_uuid(api: ApiClient, echo: Endpoint) -> None:
    assert echoed(api.get(f"/api/endpoints/query/{str(echo.pk).upper()}?text=x")) == {"text": "x"}


JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
SOURCES: list[tuple[str, str, str, str, dict[str, Any]]] = [
    ("GET", "?text=a", "", "", {"text": "a"}),
    ("GET", "?text=a", "", JSON, {"text": "a"}),  # a JSON content type and no body
    ("GET", "", '{"text": "a"}', JSON, {"text": "a"}),
    ("GET", "?text=query", '{"text": "body", "number": 1}', JSON, {"text": "query", "number": 1}),
    ("POST", "?text=query", '{"text": "body", "number": 1}', JSON, {"text": "query", "number": 1}),
    ("POST", "", '{"text": "a"}', "application/json; charset=utf-8", {"text": "a"}),
    ("POST", "", '{"list": ["a", "b"]}', JSON, {"list": ["a", "b"]}),
    ("POST", "", '{"number": 9223372036854775807}', JSON, {"number": 9223372036854775807}),
    ("POST", "", '{"text": null, "number": null}', JSON, {}),
    ("POST", "", "{}", JSON, {}),
    ("POST", "", "", FORM, {}),
    ("POST", "", "text=a+b&number=2", FORM, {"text": "a b", "number": 2}),
    ("POST", "?number=3", "text=%C3%BC&number=2", FORM, {"text": "ü", "number": 3}),
    ("POST", "", "list=a&list=b", FORM, {"list": ["a", "b"]}),
    ("GET", "?list=a&list=b", "", "", {"list": ["a", "b"]}),
    ("GET", "?list=a", "", "", {"list": ["a"]}),
    ("GET", "?list=a&list=b", '{"list": ["c"]}', JSON, {"list": ["a", "b"]}),
    ("GET", "?text=", "", "", {}),
    ("GET", "?text=" + quote("ünï & 'quotes' \"\\ %41 \n\t"), "", "", {"text": "ünï & 'quotes' \"\\ %41 \n\t"}),
    ("GET", "?text=1&other=2&other=3&format=xml&x-api-key=no&limit=1", "", "", {"text": "1"}),
    ("GET", "?at=2025-06-02T10:15:02+02:00", "", "", {"at": "2025-06-02T08:15:02.000000Z"}),
    ("GET", "?at=2025-06-02T10:15:02%2B02:00", "", "", {"at": "2025-06-02T08:15:02.000000Z"}),
]


@pytest.mark.parametrize(("method", "query_string", "body", "content_type", "expected"), SOURCES)
def test_reads_arguments_from_the_query_string_and_the_body(
    api: ApiClient, echo: Endpoint, method: str, query_string: str, body: str, content_type: str, expected: Any
) -> None:
    response = api.generic(method, ECHO + query_string, body, content_type=content_type)
    assert echoed(response) == expected


def test_reads_arguments_from_a_multipart_form(api: ApiClient, echo: Endpoint) -> None:
    response = api.post(f"{ECHO}?number=3", {"text": "ü \ufffd", "number": "2", "list": ["a", "b"]})
    assert echoed(response) == {"text": "ü \ufffd", "number": 3, "list": ["a", "b"]}


def test_reads_raw_utf8_in_the_request_line(api: ApiClient, echo: Endpoint) -> None:
    response = api.generic("GET", ECHO, QUERY_STRING="text=ü".encode().decode("latin-1"))
    assert echoed(response) == {"text": "ü"}


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_accepts_the_access_token_as_bearer(secret: str, echo: Endpoint, scheme: str) -> None:
    response = Client().get(f"{ECHO}?text=a", headers={"Authorization": f"{scheme} {secret}"})
    assert echoed(response) == {"text": "a"}


def test_puts_a_bound_argument_in_where_the_call_names_none(echo: Endpoint) -> None:
    bound = ApiClient(issue_access_token(name="bound", bound_arguments={"text": "acme", "number": "7"}).secret)
    assert echoed(bound.query("echo")) == {"text": "acme", "number": 7}
    assert echoed(bound.query("echo", {"text": "", "number": "07"})) == {"text": "acme", "number": 7}
    for arguments in ({"text": "Acme"}, {"number": "8"}, {"text": " "}, {"text": "acme", "number": "8"}):
        assert bound.query("echo", arguments).status_code == 403
    body = bound.post(ECHO, {"text": "globex"}, content_type="application/json")
    assert body.status_code == 403


def test_carries_the_headers_of_the_contract(api: ApiClient, echo: Endpoint) -> None:
    response = api.query("echo", {"text": "a"})
    assert response["Content-Type"] == "application/json; charset=utf-8"
    assert MADE_ID.fullmatch(response["X-Request-ID"])
    assert response["X-Cache"] in {"hit", "stale", "miss", "bypass"}
    assert response["Cache-Control"].startswith("private")
    assert response["X-Result-Rows"] == "1"
    assert "X-Result-Truncated" not in response
    assert re.fullmatch(r'"[0-9a-f]{32}"', response["ETag"])
    assert re.match(r"db;dur=\d", response["Server-Timing"])
    assert "X-API-KEY" in response["Vary"]


@pytest.mark.parametrize("request_id", ["abc-123", "x" * 128, "trace/1:2=3"])
def test_echoes_a_fit_request_id(api: ApiClient, echo: Endpoint, request_id: str) -> None:
    assert api.query("echo", X_Request_ID=request_id)["X-Request-ID"] == request_id


@pytest.mark.parametrize("request_id", ["", "x" * 129, "a b", 'a"b', "ü", "<script>", "a,b"])
def test_makes_a_request_id_where_the_sent_one_is_unfit(api: ApiClient, echo: Endpoint, request_id: str) -> None:
    assert MADE_ID.fullmatch(api.query("echo", X_Request_ID=request_id)["X-Request-ID"])


def test_says_when_max_rows_cut_the_result(api: ApiClient) -> None:
    save_endpoint(Endpoint(name="cut", sql="SELECT generate_series(1, 5) AS n", max_rows=3), [])
    response = api.query("cut")
    assert response.json() == {"result": [{"n": 1}, {"n": 2}, {"n": 3}]}
    assert (response["X-Result-Rows"], response["X-Result-Truncated"]) == ("3", "true")
    save_endpoint(Endpoint(name="whole", sql="SELECT generate_series(1, 3) AS n", max_rows=3), [])
    assert "X-Result-Truncated" not in api.query("whole")


ACCEPT = [
    (None, "application/json"),
    ("", "application/json"),
    ("*/*", "application/json"),
    ("application/json", "application/json"),
    ("application/*", "application/json"),
    ("text/csv", "text/csv"),
    ("text/*", "text/csv"),
    ("application/x-ndjson", "application/x-ndjson"),
    ("text/html, text/csv;q=0.5, application/json;q=0.1", "text/csv"),
    ("text/csv;q=0.1, application/json", "application/json"),
    ("text/html,application/xhtml+xml,*/*;q=0.8", "application/json"),
]


@pytest.mark.parametrize(("accept", "content_type"), ACCEPT)
def test_chooses_the_format_by_accept(api: ApiClient, echo: Endpoint, accept: str | None, content_type: str) -> None:
    headers = {} if accept is None else {"Accept": accept}
    assert api.query("echo", **headers)["Content-Type"] == f"{content_type}; charset=utf-8"


def test_the_three_formats_hold_the_same_rows(api: ApiClient) -> None:
    save_endpoint(Endpoint(name="three", sql="SELECT n, 'a,\"' || n AS text FROM generate_series(1, 3) AS n"), [])
    rows = [{"n": n, "text": f'a,"{n}'} for n in (1, 2, 3)]
    assert api.query("three").json() == {"result": rows}
    lines = api.query("three", Accept="application/x-ndjson").content.decode().splitlines()
    assert [json.loads(line) for line in lines] == rows
    table = csv.DictReader(io.StringIO(api.query("three", Accept="text/csv").content.decode(), newline=""))
    assert [{"n": int(row["n"]), "text": row["text"]} for row in table] == rows


def test_answers_304_to_a_known_etag(api: ApiClient, echo: Endpoint) -> None:
    etag = api.query("echo", {"text": "a"})["ETag"]
    for known in (etag, f"W/{etag}", f'"x", {etag}', "*"):
        response = api.query("echo", {"text": "a"}, If_None_Match=known)
        assert (response.status_code, response.content, response["ETag"]) == (304, b"", etag)
    assert api.query("echo", {"text": "b"}, If_None_Match=etag).status_code == 200
    post = api.post(ECHO, {"text": "a"}, headers={"If-None-Match": etag})
    assert post.status_code == 200


def personal(api: ApiClient, **headers: str) -> str:
    response = api.query("personal", **headers)
    assert response.status_code == 200
    return response.content.decode()


@pytest.mark.parametrize("value", ["true", "TRUE", "1", "yes", "on", " true "])
def test_redacts_when_the_request_asks(api: ApiClient, value: str) -> None:
    save_endpoint(Endpoint(name="personal", sql="SELECT 'robin@example.org from 192.0.2.7' AS m"), [])
    assert "robin@example.org" in personal(api)
    redacted = personal(api, SVC_ENDPOINT_REDACT_PII=value)
    assert redacted == '{"result":[{"m":"REDACTED from REDACTED"}]}'


@pytest.mark.parametrize("value", [None, "", "false", "FALSE", "0", "no", "off"])
def test_no_header_switches_off_what_the_operator_switched_on(api: ApiClient, value: str | None) -> None:
    save_endpoint(Endpoint(name="personal", sql="SELECT 'robin@example.org' AS m", redact_pii=True), [])
    headers = {} if value is None else {"SVC_ENDPOINT_REDACT_PII": value}
    assert personal(api, **headers) == '{"result":[{"m":"REDACTED"}]}'


def test_the_prefix_of_the_redaction_header_is_a_setting(api: ApiClient, settings: Any) -> None:
    save_endpoint(Endpoint(name="personal", sql="SELECT 'robin@example.org' AS m"), [])
    settings.ENDPOINTS_HEADER_PREFIX = "LF"
    assert "REDACTED" in personal(api, LF_ENDPOINT_REDACT_PII="true")
    assert "REDACTED" not in personal(api, SVC_ENDPOINT_REDACT_PII="true")


def test_head_answers_with_the_headers_of_get(api: ApiClient, echo: Endpoint) -> None:
    response = api.head(f"{ECHO}?text=a")
    assert (response.status_code, response.content, response["X-Result-Rows"]) == (200, b"", "1")


def test_options_tells_the_methods_without_an_access_token(echo: Endpoint) -> None:
    response = Client().options(ECHO)
    assert response.status_code == 204
    assert "POST" in response["Allow"]


def test_cors_is_off_by_default(api: ApiClient, echo: Endpoint) -> None:
    assert "Access-Control-Allow-Origin" not in api.query("echo", Origin="https://app.example.org")


def test_cors_answers_preflights_without_an_access_token_and_marks_errors_too(echo: Endpoint, settings: Any) -> None:
    settings.CORS_ALLOWED_ORIGINS = ["https://app.example.org"]
    preflight = Client().options(
        ECHO,
        headers={
            "Origin": "https://app.example.org",
            "Access-Control-Request-Method": "GET",
            "Access-Control-Request-Headers": "x-api-key",
        },
    )
    assert preflight.status_code == 200
    assert preflight["Access-Control-Allow-Origin"] == "https://app.example.org"
    assert {"x-api-key", "idempotency-key"} <= set(preflight["Access-Control-Allow-Headers"].split(", "))
    refused = Client().get(ECHO, headers={"Origin": "https://app.example.org"})
    assert refused.status_code == 401
    assert refused["Access-Control-Allow-Origin"] == "https://app.example.org"
    elsewhere = Client().get("/endpoints/query/echo", headers={"Origin": "https://app.example.org"})
    assert elsewhere["Access-Control-Allow-Origin"] == "https://app.example.org"
    other = Client().get(ECHO, headers={"Origin": "https://evil.example.org"})
    assert "Access-Control-Allow-Origin" not in other


def test_the_newest_version_answers_right_after_a_save(api: ApiClient, echo: Endpoint) -> None:
    for number in (1, 2, 3):
        echo.sql = f"SELECT {number} AS n"
        save_endpoint(echo, [])
        assert api.query("echo").json() == {"result": [{"n": number}]}


def test_a_stored_row_comes_back_whole(api: ApiClient, insert_rows: Callable[..., None]) -> None:
    metadata = [{"request": [{"path": "/rest/v1", "n": 1.10, "headers": [{"user_agent": 'ü"\\'}]}], "list": ["a"]}]
    timestamp = datetime.now(UTC) - timedelta(minutes=1)
    insert_rows(
        "edge_logs",
        [{"id": "r1", "project": "acme", "timestamp": timestamp, "event_message": "GET\n|", "metadata": metadata}],
    )
    assert api.query("logs.all", {"project": "acme"}).json() == {
        "result": [
            {
                "id": "r1",
                "timestamp": timestamp.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
                "event_message": "GET\n|",
                "metadata": metadata,
            }
        ]
    }
