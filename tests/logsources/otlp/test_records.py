"""What a log record becomes, the same from protobuf and from JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from logsources.json_batches import TooManyRows
from logsources.otlp import json_form, protobuf, records
from logsources.otlp.records import BadOTLP
from logsources.rows import read_row
from tests.logsources.otlp.requests import NANOSECONDS, RESOURCE, as_json, as_protobuf, record, request

FORMS = {"protobuf": (protobuf.read_rows, as_protobuf), "JSON": (json_form.read_rows, as_json)}
MOMENT = datetime(2025, 11, 24, 16, 0, 0, 123456, tzinfo=UTC)
SHARED = {"resource": [{"project": "acme", "service": [{"name": "shop"}]}]}

read_forms = pytest.mark.parametrize("form", FORMS)


def read(form: str, document: dict[str, Any], *, max_rows: int = 1000) -> list[Any]:
    read_rows, encode = FORMS[form]
    return list(read_rows(encode(document), max_rows=max_rows))


@read_forms
def test_a_record_becomes_a_row(form: str) -> None:
    sent = record(
        severityNumber=9,
        severityText="INFO",
        traceId="5B8EFFF798038103D269B633813FC60C",
        spanId="eee19b7ec3c1b174",
        flags=1,
        eventName="order.placed",
        droppedAttributesCount=2,
        attributes=[
            {"key": "http.response.status_code", "value": {"intValue": "201"}},
            {"key": "user", "value": {"kvlistValue": {"values": [{"key": "id", "value": {"stringValue": "u1"}}]}}},
        ],
    )
    scope = {"name": "orders", "version": "1.2", "attributes": [{"key": "a.b", "value": {"boolValue": True}}]}
    assert read(form, request(sent, scope=scope)) == [
        {
            "event_message": "a line",
            "timestamp": MOMENT,
            "project": "acme",
            "metadata": [
                {
                    **SHARED,
                    "scope": [{"name": "orders", "version": "1.2", "attributes": [{"a": [{"b": True}]}]}],
                    "attributes": [{"http": [{"response": [{"status_code": 201}]}], "user": [{"id": "u1"}]}],
                    "severity_number": 9,
                    "severity_text": "INFO",
                    "trace_id": "5b8efff798038103d269b633813fc60c",
                    "span_id": "eee19b7ec3c1b174",
                    "flags": 1,
                    "event_name": "order.placed",
                    "dropped_attributes_count": 2,
                }
            ],
        }
    ]


@read_forms
def test_an_empty_request_has_no_rows(form: str) -> None:
    assert read(form, {"resourceLogs": []}) == []
    assert read(form, request()) == []


@read_forms
def test_an_id_of_zeros_is_none(form: str) -> None:
    (row,) = read(form, request(record(traceId="0" * 32, spanId="0" * 16)))
    assert not {"trace_id", "span_id"} & row["metadata"][0].keys()


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        ("W47/95gDgQPSabYzgT/GDA==", "5b8efff798038103d269b633813fc60c"),
        ("7uGbfsPBsXQ=", "eee19b7ec3c1b174"),
        ("5B8EFFF798038103D269B633813FC60C", "5b8efff798038103d269b633813fc60c"),
        ("Not-Base64-of-24-letters", "not-base64-of-24-letters"),
        ("AAAAAAAAAAAAAAAAAAAAAA==", None),
    ],
)
def test_an_id_in_base64_is_read(sent: str, stored: str | None) -> None:
    (row,) = read("JSON", request(record(traceId=sent)))
    assert row["metadata"][0].get("trace_id") == stored


STRUCTURE = {"kvlistValue": {"values": [{"key": "n", "value": {"arrayValue": {"values": [{"intValue": 1}, {}]}}}]}}
VALUES = {
    "text": ({"stringValue": "é"}, "é", None),
    "empty text": ({"stringValue": ""}, "", None),
    "integer": ({"intValue": "-9223372036854775808"}, "-9223372036854775808", None),
    "zero": ({"intValue": 0}, "0", None),
    "double": ({"doubleValue": 1.5}, "1.5", None),
    "no number": ({"doubleValue": "NaN"}, '"NaN"', None),
    "infinity": ({"doubleValue": "-Infinity"}, '"-Infinity"', None),
    "boolean": ({"boolValue": False}, "false", None),
    "bytes": ({"bytesValue": "AAH/"}, '"AAH/"', None),
    "object": (STRUCTURE, '{"n":[1,null]}', [{"n": [1, None]}]),
    "array": ({"arrayValue": {"values": [{"stringValue": "x"}]}}, '["x"]', ["x"]),
    "empty array": ({"arrayValue": {}}, "[]", []),
}


@read_forms
@pytest.mark.parametrize(("body", "message", "kept"), VALUES.values(), ids=VALUES)
def test_a_body_of_any_type_is_the_message(form: str, body: object, message: str, kept: object) -> None:
    (row,) = read(form, request(record(body)))
    # A text that stands alone has no quotes around it in a message.
    assert row["event_message"] == (message.strip('"') if message.startswith('"') else message)
    assert row["metadata"][0].get("body") == kept


@read_forms
def test_a_record_without_a_body_has_the_name_of_its_event(form: str) -> None:
    named, unnamed = read(form, request({"eventName": "started"}, {}))
    assert (named["event_message"], unnamed["event_message"]) == ("started", "")


@read_forms
@pytest.mark.parametrize(
    ("times", "moment"),
    [
        ({"timeUnixNano": str(NANOSECONDS), "observedTimeUnixNano": "1"}, MOMENT),
        ({"timeUnixNano": "0", "observedTimeUnixNano": NANOSECONDS}, MOMENT),
        ({"observedTimeUnixNano": str(NANOSECONDS)}, MOMENT),
        ({}, None),
    ],
)
def test_the_time_is_that_of_the_event_or_of_its_observation(
    form: str, times: dict[str, Any], moment: datetime | None
) -> None:
    (row,) = read(form, request({"body": {"stringValue": "m"}, **times}))
    assert row["timestamp"] == moment


@read_forms
@pytest.mark.parametrize(
    ("value", "project"),
    [({"stringValue": "shop"}, "shop"), ({"intValue": 7}, "7"), ({"boolValue": True}, True), (None, None)],
)
def test_the_project_is_an_attribute_of_the_resource(form: str, value: object, project: object) -> None:
    resource = {"attributes": [{"key": "project", "value": value}] if value else []}
    (row,) = read(form, request(record(), resource=resource))
    assert row["project"] == project


@read_forms
def test_names_with_dots_become_objects_at_every_level(form: str) -> None:
    inner = {"kvlistValue": {"values": [{"key": "c.d", "value": {"intValue": 1}}]}}
    sent = record(inner, attributes=[{"key": "a.b", "value": inner}, {"key": "a", "value": inner}])
    resource = {"attributes": [*RESOURCE["attributes"], {"key": "project.id", "value": {"stringValue": "p"}}]}
    ((row),) = read(form, request(sent, resource=resource))
    assert row["event_message"] == '{"c.d":1}'
    assert row["project"] == "acme"
    assert row["metadata"] == [
        {
            "resource": [{"project": "acme", "service": [{"name": "shop"}], "project.id": "p"}],
            "attributes": [{"a": [{"b": [{"c": [{"d": 1}]}], "c": [{"d": 1}]}]}],
            "body": [{"c": [{"d": 1}]}],
        }
    ]


def test_what_was_stored_form_before_is_that_of_every_row() -> None:
    """As if the metadata had been sent with objects: `read_row` changes nothing in it."""
    (row,) = read("JSON", request(record(STRUCTURE, attributes=[{"key": "a.b", "value": STRUCTURE}])))
    plain = {**row, "metadata": list(row["metadata"])}
    options: dict[str, Any] = {"project_path": None, "now": MOMENT}
    assert read_row(row, **options, new_id=str) == read_row(plain, **options, new_id=str)


# --- Bounds -----------------------------------------------------------------------------------------------------------


@read_forms
def test_records_are_counted(form: str) -> None:
    assert len(read(form, request(*[{}] * 3), max_rows=3)) == 3
    with pytest.raises(TooManyRows, match="more than 3 rows"):
        read(form, request(*[{}] * 4), max_rows=3)


@read_forms
def test_values_are_counted(form: str) -> None:
    attributes = [{"key": str(number), "value": {"intValue": 1}} for number in range(200)]
    with pytest.raises(TooManyRows, match="more than 100 values"):
        read(form, request(record(attributes=attributes)), max_rows=10)


@read_forms
def test_what_records_share_is_counted_with_each(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MAX_SHARED_BYTES", 1000)
    resource = {"attributes": [{"key": "project", "value": {"stringValue": "x" * 200}}]}
    assert len(read(form, request(*[{}] * 4, resource=resource))) == 4
    with pytest.raises(TooManyRows, match="bytes of resource and scope"):
        read(form, request(*[{}] * 5, resource=resource))


# --- What cannot be read ----------------------------------------------------------------------------------------------


DEEP = {"stringValue": "deep"}
DEEP_JSON = b'{"arrayValue": {"values": [' * 330 + b"{}" + b"]}}" * 330  # orjson reads up to a thousand levels


def read_deep(document: dict[str, Any]) -> list[Any]:
    body = as_json(document).replace(as_json(DEEP), DEEP_JSON)
    return list(json_form.read_rows(body, max_rows=1000))


def test_a_record_that_is_nested_too_deeply_is_left_out() -> None:
    assert [row.__class__ for row in read_deep(request(record(DEEP), record()))] == [BadOTLP, dict]


BAD_RECORDS = {
    "no object": (5, "a log record must be an object"),
    "attributes": (record(attributes={}), "attributes must be an array"),
    "attribute": (record(attributes=[1]), "an attribute must be an object with a key"),
    "key": (record(attributes=[{"value": {}}]), "an attribute must be an object with a key"),
    "value": (record(attributes=[{"key": "a", "value": 1}]), "a value must be an object, such as {stringValue: …}"),
    "text": (record({"stringValue": 1}), "a text value is not text"),
    "boolean": (record({"boolValue": "true"}), "boolValue is not true or false"),
    "double": (record({"doubleValue": "x"}), "doubleValue is not a number"),
    "integer": (record({"intValue": "1.5"}), "a whole number is expected"),
    "long integer": (record({"intValue": "9" * 5000}), "a whole number is expected"),
    "time": (record(timeUnixNano="soon"), "timeUnixNano must be a whole number"),
    "negative time": (record(timeUnixNano=-1), "the time is not a number of nanoseconds"),
    "late time": (record(timeUnixNano="99999999999999999999"), "the time is not a number of nanoseconds"),
    "trace": (record(traceId=1), "traceId must be text"),
    "too large an integer": (record({"intValue": "99999999999999999999"}), "the body cannot be stored: "),
}


@pytest.mark.parametrize(("bad", "reason"), BAD_RECORDS.values(), ids=BAD_RECORDS)
def test_a_bad_record_is_one_fault_in_its_place(bad: object, reason: str) -> None:
    good, fault, another = read("JSON", request(record(), bad, record()))
    assert isinstance(fault, BadOTLP)
    assert fault.reason.startswith(reason)
    assert good == another


@pytest.mark.parametrize("resource", [5, {"attributes": 5}, {"attributes": [{"key": "a", "value": DEEP}]}])
def test_a_bad_resource_is_the_fault_of_its_records(resource: object) -> None:
    document = request(record(), record(), resource=resource)
    document["resourceLogs"] += request(record())["resourceLogs"]
    assert [row.__class__ for row in read_deep(document)] == [BadOTLP, BadOTLP, dict]


def test_half_of_a_surrogate_pair_is_the_fault_of_one_record() -> None:
    body = as_json(request(record("\ud800"), record(attributes=[{"key": "a", "value": {"stringValue": "\ud800"}}])))
    assert [row["project"] for row in json_form.read_rows(body, max_rows=10)] == ["acme", "acme"]


BAD_BODIES = {
    b"": "the body is not JSON",
    b"[]": "the body must be an object",
    b"5": "the body must be an object",
    b'{"hello":"world"}': "the body has no resourceLogs",
    b'{"resource_logs":[]}': "the body has no resourceLogs",
    b'{"resourceSpans":[]}': "the body has no resourceLogs",
    b'{"resourceLogs":{}}': "resourceLogs must be an array",
    b'{"resourceLogs":[1]}': "each item of resourceLogs must be an object",
    b'{"resourceLogs":[{"scopeLogs":[1]}]}': "each item of scopeLogs must be an object",
    b'{"resourceLogs":[{"scopeLogs":[{"logRecords":1}]}]}': "logRecords must be an array",
    b'{"a": NaN}': "it is not JSON: it contains NaN",
    b'"\xff"': "the body is not UTF-8 (byte 2)",
    b"[" * 100_000: "the body is",
}


@pytest.mark.parametrize(("body", "reason"), BAD_BODIES.items(), ids=[str(number) for number in range(len(BAD_BODIES))])
def test_a_body_that_is_no_request_is_told_in_words(body: bytes, reason: str) -> None:
    with pytest.raises(BadOTLP) as refused:
        list(json_form.read_rows(body, max_rows=100_000))
    assert refused.value.reason.startswith(reason)


def test_unknown_names_and_nulls_mean_nothing() -> None:
    document = request({**record(), "severityText": None, "attributes": None, "new": {"a": 1}}, resource=RESOURCE)
    document["new"] = 1
    (row,) = read("JSON", document)
    assert row["metadata"] == [SHARED]
