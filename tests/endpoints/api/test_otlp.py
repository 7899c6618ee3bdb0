"""POST /v1/logs: what exporters of OpenTelemetry send, what is stored, and the answers of OTLP/HTTP."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.test import Client
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse

from endpoints.access.access_tokens import issue_access_token
from endpoints.calling import loading
from endpoints.errors import DatabaseUnavailable, EndpointError, Overloaded, RateLimited
from tests.endpoints.api.loads import in_chunks
from tests.logsources.otlp.requests import NANOSECONDS, as_json, as_protobuf, record, request

pytestmark = pytest.mark.django_db
URL = "/v1/logs?source=edge_logs"
JSON, PROTOBUF = "application/json", "application/x-protobuf"
ENCODERS = {JSON: as_json, PROTOBUF: as_protobuf}
BOTH = pytest.mark.parametrize("content_type", ENCODERS)
SENT = request(record("one"), record("two", attributes=[{"key": "http.method", "value": {"stringValue": "GET"}}]))


def send(client: Client, document: Any, content_type: str, url: str = URL, **options: Any) -> Any:
    body = document if isinstance(document, bytes) else ENCODERS[content_type](document)
    if options.pop("packed", False):
        body = gzip.compress(body)
        options["headers"] = {"Content-Encoding": "gzip"}
    return client.post(url, body, content_type=content_type, **options)


def assert_success(response: Any, content_type: str, *, rejected: int = 0, message: str = "") -> None:
    assert (response.status_code, response["Content-Type"]) == (200, content_type), response.content
    if content_type == JSON:
        partial = {"partialSuccess": {"rejectedLogRecords": str(rejected), "errorMessage": message}}
        assert response.json() == (partial if message else {})
        return
    answer = ExportLogsServiceResponse.FromString(response.content)
    assert answer.HasField("partial_success") is bool(message)
    partial_success = answer.partial_success
    assert (partial_success.rejected_log_records, partial_success.error_message) == (rejected, message)


def assert_status(response: Any, content_type: str, *, status: int, code: int, words: str) -> None:
    """Check for a google.rpc.Status, whose field 1 is the code and 2 the message."""
    assert (response.status_code, response["Content-Type"]) == (status, content_type)
    assert response["Cache-Control"] == "no-store"
    if content_type == JSON:
        assert response.json()["code"] == code
        assert words in response.json()["message"]
        return
    assert response.content[:3] == bytes([0x08, code, 0x12])
    length, text = response.content[3], response.content[4:]
    if length & 0x80:
        length, text = (length & 0x7F) | text[0] << 7, text[1:]
    assert len(text) == length
    assert words in text.decode()


def stored(log_database: psycopg.Connection[Any]) -> list[tuple[Any, ...]]:
    return log_database.execute(
        "SELECT project, event_message, metadata FROM logs.edge_logs ORDER BY event_message"
    ).fetchall()


@BOTH
@pytest.mark.parametrize("packed", [False, True])
def test_records_become_rows(
    shipper: Client, log_database: psycopg.Connection[Any], content_type: str, packed: bool
) -> None:
    response = send(shipper, SENT, content_type, packed=packed)
    assert_success(response, content_type)
    resource = [{"project": "acme", "service": [{"name": "shop"}]}]
    assert stored(log_database) == [
        ("acme", "one", [{"resource": resource}]),
        ("acme", "two", [{"resource": resource, "attributes": [{"http": [{"method": "GET"}]}]}]),
    ]


@BOTH
def test_a_body_that_is_sent_again_doubles_nothing(
    shipper: Client, log_database: psycopg.Connection[Any], content_type: str
) -> None:
    for packed in (False, True, False):
        assert_success(send(shipper, SENT, content_type, packed=packed), content_type)
    assert len(stored(log_database)) == 2


@BOTH
def test_records_without_a_time_are_known_again_too(
    shipper: Client, log_database: psycopg.Connection[Any], content_type: str
) -> None:
    document = request({"body": {"stringValue": "now"}}, {"body": {"stringValue": "now"}}, record("timed"))
    message = "records without a time, stored with that of their arrival: 2"
    assert_success(send(shipper, document, content_type), content_type, message=message)
    assert_success(send(shipper, document, content_type), content_type)
    assert len(stored(log_database)) == 3


@BOTH
def test_a_record_is_timed_by_when_it_was_observed(
    shipper: Client, log_database: psycopg.Connection[Any], content_type: str
) -> None:
    observed = {"timeUnixNano": "0", "observedTimeUnixNano": str(NANOSECONDS)}
    assert_success(send(shipper, request(record("m", **observed)), content_type), content_type)
    ((timestamp,),) = log_database.execute("SELECT timestamp FROM logs.edge_logs").fetchall()
    assert timestamp == datetime.fromtimestamp(NANOSECONDS // 10**9, UTC) + timedelta(microseconds=123_456)


@BOTH
@pytest.mark.parametrize("document", [{"resourceLogs": []}, request()])
def test_an_empty_request_is_a_success(
    shipper: Client, log_database: psycopg.Connection[Any], content_type: str, document: dict[str, Any]
) -> None:
    body = ENCODERS[content_type](document)
    # Django's test client sends no content type with an empty body, and exporters do.
    assert_success(shipper.generic("POST", URL, body, CONTENT_TYPE=content_type), content_type)


@BOTH
def test_bad_records_are_left_out_and_counted(
    shipper: Client, log_database: psycopg.Connection[Any], content_type: str
) -> None:
    good, bad = (
        request(record("good", timeUnixNano="0")),
        request(*[record(f"bad {number}") for number in range(5)], resource=None),
    )
    document = {"resourceLogs": bad["resourceLogs"] + good["resourceLogs"]}
    message = "; ".join([*(f"record {number}: project is missing" for number in range(3)), "and 2 more"])
    message += "; records without a time, stored with that of their arrival: 1"
    assert_success(send(shipper, document, content_type), content_type, rejected=5, message=message)
    assert [row[1] for row in stored(log_database)] == ["good"]


@BOTH
def test_exporters_that_name_neither_source_nor_project_load_with_those_of_their_access_token(
    log_database: psycopg.Connection[Any], content_type: str
) -> None:
    secret = issue_access_token(
        name="exporter", may_load=True, load_sources=["edge_logs"], default_project="shop", no_endpoints=True
    ).secret
    client = Client(headers={"Authorization": f"Bearer {secret}"})
    assert_success(send(client, request(record("m"), resource=None), content_type, "/v1/logs"), content_type)
    assert [row[0] for row in stored(log_database)] == ["shop"]


def test_the_project_of_the_resource_goes_where_the_source_has_it(
    shipper: Client, log_database: psycopg.Connection[Any]
) -> None:
    assert_success(send(shipper, SENT, JSON, "/v1/logs?source=function_logs"), JSON)
    found = log_database.execute("SELECT DISTINCT project, metadata -> 0 -> 'project_ref' FROM logs.function_logs")
    assert found.fetchall() == [("acme", "acme")]


def test_reads_a_body_in_chunks(shipper: Client, log_database: psycopg.Connection[Any]) -> None:
    body = as_protobuf(SENT)
    assert_success(send(shipper, body, PROTOBUF, **in_chunks(body)), PROTOBUF)
    assert len(stored(log_database)) == 2


def test_a_body_without_a_content_type_is_json(shipper: Client, log_database: psycopg.Connection[Any]) -> None:
    response = shipper.generic("POST", URL, as_json(SENT), content_type="")
    assert_success(response, JSON)


# --- Refusals ---------------------------------------------------------------------------------------------------------


@BOTH
def test_a_body_that_is_no_request_is_a_400(shipper: Client, content_type: str) -> None:
    response = send(shipper, b"\x0a\xff", content_type)
    assert_status(response, content_type, status=400, code=3, words="The rows cannot be read: the body is")


@BOTH
def test_a_stranger_is_a_401_whatever_it_sends(content_type: str) -> None:
    response = send(Client(), SENT, content_type)
    assert_status(response, content_type, status=401, code=16, words="access token")
    assert "Bearer" in response["WWW-Authenticate"]
    assert Client().post(URL, b"x", content_type="text/plain").status_code == 401


@BOTH
def test_a_right_or_a_source_that_is_missing_is_told(shipper: Client, content_type: str) -> None:
    client = Client(headers={"X-API-KEY": issue_access_token(name="reader").secret})
    assert_status(send(client, SENT, content_type), content_type, status=403, code=7, words="may not load rows")
    unknown = send(shipper, SENT, content_type, "/v1/logs?source=unknown_logs")
    assert_status(unknown, content_type, status=404, code=5, words="no log source")
    unnamed = send(shipper, SENT, content_type, "/v1/logs")
    assert_status(unnamed, content_type, status=400, code=3, words="Name the log source")


@BOTH
def test_a_body_over_the_limit_is_a_413(shipper: Client, settings: Any, content_type: str) -> None:
    settings.ENDPOINTS_MAX_LOAD_BYTES = 100
    for packed in (False, True):
        large = request(record("x" * 1000))
        response = send(shipper, large, content_type, packed=packed)
        assert_status(response, content_type, status=413, code=8, words="at most 100 bytes")


@BOTH
def test_more_records_than_a_load_has_are_a_413(shipper: Client, settings: Any, content_type: str) -> None:
    settings.ENDPOINTS_MAX_LOAD_ROWS = 10
    response = send(shipper, request(*[{}] * 11), content_type)
    assert_status(response, content_type, status=413, code=8, words="at most 10 rows")


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-ndjson", "application/grpc"])
def test_another_content_type_is_a_415(shipper: Client, content_type: str) -> None:
    response = shipper.post(URL, b"{}", content_type=content_type)
    assert_status(response, JSON, status=415, code=3, words="send application/x-protobuf or application/json")


@BOTH
def test_another_encoding_is_a_415(shipper: Client, content_type: str) -> None:
    response = send(shipper, SENT, content_type, headers={"Content-Encoding": "br"})
    assert_status(response, content_type, status=415, code=3, words="send gzip")


@pytest.mark.parametrize("method", ["get", "put", "delete"])
def test_another_method_is_a_405(shipper: Client, method: str) -> None:
    response = getattr(shipper, method)(URL)
    assert_status(response, JSON, status=405, code=12, words="use POST")
    assert response["Allow"] == "POST, OPTIONS"
    assert shipper.options(URL).status_code == 204


@BOTH
@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (Overloaded(retry_after_seconds=7), 503, 14),
        (DatabaseUnavailable(retry_after_seconds=7), 503, 14),
        (RateLimited(calls=1, window_seconds=60, retry_after_seconds=7), 429, 8),
    ],
)
def test_what_passes_says_when_to_send_it_again(
    shipper: Client,
    monkeypatch: pytest.MonkeyPatch,
    content_type: str,
    error: EndpointError,
    status: int,
    code: int,
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(loading, "_store_body", fail)
    response = send(shipper, SENT, content_type)
    assert_status(response, content_type, status=status, code=code, words=error.message[:20])
    assert response["Retry-After"] == "7"


@BOTH
def test_a_fault_of_our_own_is_a_500(shipper: Client, monkeypatch: pytest.MonkeyPatch, content_type: str) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(loading, "_store_body", fail)
    response = send(shipper, SENT, content_type)
    assert_status(response, content_type, status=500, code=13, words="failed to answer")
    assert b"secret" not in response.content


def test_reasons_tell_no_values(shipper: Client, log_database: psycopg.Connection[Any]) -> None:
    response = send(shipper, request(record("hush\0"), record({"intValue": "hush"})), JSON)
    told = json.loads(response.content)["partialSuccess"]
    assert told["rejectedLogRecords"] == "1"
    assert told["errorMessage"] == (
        "record 1: a whole number is expected; records with U+FFFD in place of what text cannot hold: 1"
    )


@BOTH
def test_a_nul_costs_no_record(shipper: Client, log_database: psycopg.Connection[Any], content_type: str) -> None:
    text = {"stringValue": "b\0"}
    structure = {"kvlistValue": {"values": [{"key": "c\0", "value": text}]}}
    sent = request(
        record("a\0", attributes=[{"key": "k\0", "value": text}]),
        record(structure),
        record(),
    )
    response = send(shipper, sent, content_type)
    assert response.status_code == 200
    assert b"what text cannot hold: 2" in response.content
    found = log_database.execute("SELECT event_message, metadata FROM logs.edge_logs").fetchall()
    assert len(found) == 3
    by_message = dict(found)
    assert by_message["a\ufffd"][0]["attributes"] == [{"k\ufffd": "b\ufffd"}]
    assert [{"c\ufffd": "b\ufffd"}] in [metadata[0].get("body") for metadata in by_message.values()]


def test_half_of_a_surrogate_pair_costs_no_record(shipper: Client, log_database: psycopg.Connection[Any]) -> None:
    text = {"stringValue": "b\ud800"}
    attributes = [{"key": "project", "value": {"stringValue": "acme"}}, {"key": "r", "value": text}]
    records = [record("a\ud800"), record({"arrayValue": {"values": [text]}})]
    sent = request(*records, resource={"attributes": attributes})
    response = send(shipper, sent, JSON)
    assert json.loads(response.content)["partialSuccess"]["rejectedLogRecords"] == "0"
    found = log_database.execute("SELECT event_message, metadata FROM logs.edge_logs").fetchall()
    assert sorted(message for message, _ in found) == ['["b\ufffd"]', "a\ufffd"]
    assert all(metadata[0]["resource"][0]["r"] == "b\ufffd" for _, metadata in found)


@BOTH
@pytest.mark.parametrize(
    ("large", "size"),
    [
        (record("x" * 1000), 1063),
        (record("m", attributes=[{"key": "a", "value": {"stringValue": "x" * 1000}}]), 1088),
        # Twice: as the message and in metadata.
        (record({"kvlistValue": {"values": [{"key": "a", "value": {"stringValue": "x" * 500}}]}}), 1089),
    ],
)
def test_a_record_over_the_limit_of_a_row_is_left_out(
    shipper: Client,
    settings: Any,
    log_database: psycopg.Connection[Any],
    content_type: str,
    large: dict[str, Any],
    size: int,
) -> None:
    settings.ENDPOINTS_MAX_ROW_BYTES = 1000
    message = f"record 1: message and metadata have {size} bytes as they are stored, more than 1000"
    response = send(shipper, request(record("one"), large, record("two")), content_type)
    assert_success(response, content_type, rejected=1, message=message)
    assert [each[1] for each in stored(log_database)] == ["one", "two"]


@BOTH
def test_what_records_share_counts_in_each_of_them(shipper: Client, settings: Any, content_type: str) -> None:
    settings.ENDPOINTS_MAX_ROW_BYTES = 1000
    project = {"key": "project", "value": {"stringValue": "acme"}}
    resource = {"attributes": [project, {"key": "a", "value": {"stringValue": "x" * 950}}]}
    response = send(shipper, request(record("m"), record("m" * 40), resource=resource), content_type)
    message = "record 1: message and metadata have 1032 bytes as they are stored, more than 1000"
    assert_success(response, content_type, rejected=1, message=message)
