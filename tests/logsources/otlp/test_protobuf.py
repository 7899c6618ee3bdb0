"""Log records from protobuf: the levels above them, whatever the bytes are."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from logsources.json_batches import TooManyRows
from logsources.otlp import protobuf
from logsources.otlp.protobuf import MAX_MESSAGE_BYTES, read_rows
from logsources.otlp.records import BadOTLP
from tests.logsources.otlp.requests import as_protobuf, record, request

BODY = as_protobuf(request(record("one"), record("two"), scope={"name": "s"}))


def messages(body: bytes, *, max_rows: int = 1000) -> list[Any]:
    return [
        row.reason if isinstance(row, BadOTLP) else row["event_message"] for row in read_rows(body, max_rows=max_rows)
    ]


def message(number: int, content: bytes) -> bytes:
    """Return a field with a message of less than 128 bytes."""
    return bytes([number << 3 | 2, len(content)]) + content


def test_reads_several_resources_and_scopes_in_any_order() -> None:
    assert messages(BODY + BODY) == ["one", "two"] * 2
    text = message(5, message(1, b"text"))
    resource = message(1, message(1, b"\x0a\x07project" + message(2, message(1, b"acme"))))
    scope_logs = message(2, message(2, text))
    for body in (resource + scope_logs, scope_logs + resource):
        (row,) = read_rows(message(1, body), max_rows=1)
        assert row["project"] == "acme"


def test_merges_what_is_there_twice() -> None:
    """As every reader of protobuf does with the parts of one message."""
    names = [message(1, b"\x0a\x01" + name + message(2, message(1, b"x"))) for name in (b"a", b"b")]
    body = b"".join(message(1, name) for name in names) + message(2, message(2, b""))
    (row,) = read_rows(message(1, body), max_rows=10)
    assert row["metadata"][0]["resource"] == [{"a": "x", "b": "x"}]


def test_skips_unknown_fields_of_every_type() -> None:
    unknown = b"\x98\x06\x01" + b"\x99\x06" + b"\0" * 8 + b"\x9a\x06\x03abc" + b"\x9d\x06" + b"\0" * 4
    assert messages(unknown + BODY + unknown) == ["one", "two"]


@pytest.mark.parametrize("end", range(1, len(BODY)))
def test_a_body_that_is_cut_short_is_refused(end: int) -> None:
    with pytest.raises(BadOTLP):
        messages(BODY[:end])


@pytest.mark.parametrize(
    "body", [b"\x0b", b"\x0c", b"\x0f\x01", b"\xff" * 20, b"\x09abc", b"\x0a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"]
)
def test_what_is_not_protobuf_is_refused(body: bytes) -> None:
    with pytest.raises(BadOTLP):
        messages(body)


def test_a_damaged_record_is_left_out() -> None:
    damaged = BODY.replace(b"one", b"\xff\xff\xff")
    assert messages(damaged) == ["the record is not protobuf, not UTF-8, or nested too deeply", "two"]


@pytest.mark.parametrize(("levels", "classes"), [(20, [dict, dict]), (60, [BadOTLP, dict])])
def test_a_record_that_is_nested_too_deeply_is_left_out(levels: int, classes: list[type]) -> None:
    records = framed(2, 5, *[5, 1] * levels, content=b"") + framed(2, content=b"")
    rows = read_rows(framed(1, 2, content=records), max_rows=100)
    assert [row.__class__ for row in rows] == classes


@given(st.binary(max_size=60) | st.binary(max_size=20).map(lambda tail: BODY[:-10] + tail))
def test_reads_what_protobuf_reads_or_refuses_it(body: bytes) -> None:
    try:
        rows = list(read_rows(body, max_rows=1000))
    except BadOTLP:
        return
    try:
        sent = ExportLogsServiceRequest.FromString(body)
    except DecodeError:
        return  # the fault is inside of one record, resource or scope, or in a field that nothing is read from
    assert len(rows) == sum(len(scope.log_records) for logs in sent.resource_logs for scope in logs.scope_logs)


# --- Bombs ------------------------------------------------------------------------------------------------------------


def framed(*numbers: int, content: bytes) -> bytes:
    for number in reversed(numbers):
        size = len(content)
        length = bytearray()
        while size > 0x7F:
            length.append(size & 0x7F | 0x80)
            size >>= 7
        content = bytes([number << 3 | 2, *length, size]) + content
    return content


@pytest.mark.parametrize(
    "body",
    [
        b"\x0a\x00" * 100_000,  # resources
        framed(1, content=b"\x12\x00" * 100_000),  # scopes
        framed(1, 2, content=b"\x12\x00" * 100_000),  # records
        framed(1, 2, 2, content=b"\x32\x00" * 100_000),  # attributes of a record
        framed(1, 2, 2, 5, 5, content=b"\x0a\x00" * 100_000),  # items of a body
        framed(1, content=framed(1, content=b"\x0a\x00" * 100_000) + framed(2, 2, content=b"")),  # of a resource
        b"\x98\x06\x01" * 100_000,  # unknown fields
    ],
)
def test_many_small_messages_are_counted_before_they_are_built(body: bytes) -> None:
    with pytest.raises(TooManyRows):
        messages(body)


@pytest.mark.parametrize("number", [1, 2])
def test_a_message_that_is_too_large_is_left_out_unread(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protobuf, "MAX_MESSAGE_BYTES", 40)
    large = framed(2, content=framed(2, content=framed(3, content=b"x" * 40)))
    (reason,) = messages(framed(1, content=large))
    assert reason.startswith("the record is larger than")
    assert MAX_MESSAGE_BYTES == 2 * 1024 * 1024
