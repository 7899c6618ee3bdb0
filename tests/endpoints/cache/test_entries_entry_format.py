from __future__ import annotations

import json
import random
import re
import zlib

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endpoints.cache import entries
from endpoints.cache.entries import (
    UnreadableEntry,
    decode_entry,
    encode_entry,
    entity_tag,
    expand_body,
)
from endpoints.results.outcomes import Outcome, ResultFormat

FLOATS = st.floats(min_value=0, max_value=1e6)
MEGABYTE = 1 << 20
REPETITIVE = b'{"id":"0b1d","event_message":"GET | 200","metadata":[{"status":200}]},' * 75_000


def outcome(body: bytes) -> Outcome:
    return Outcome(
        body=body,
        format=ResultFormat.NDJSON,
        row_count=2,
        truncated=False,
        database_seconds=0.25,
        encoding_seconds=0.125,
    )


def encode(body: bytes) -> bytes:
    return encode_entry(outcome(body), etag=entity_tag(body), created_at=1_700_000_000.5, lifetime_ms=4_500_000)


@settings(max_examples=200, deadline=None)
@given(
    st.builds(
        Outcome,
        body=st.binary(max_size=3000) | st.binary(min_size=1, max_size=40).map(lambda part: part * 2000),
        format=st.sampled_from(ResultFormat),
        row_count=st.integers(min_value=0, max_value=1_000_000),
        truncated=st.booleans(),
        database_seconds=FLOATS,
        encoding_seconds=FLOATS,
        notes=st.lists(st.text(max_size=20), max_size=3).map(tuple),
        next_page=st.sampled_from(["", "rT4x"]),
    )
)
def test_result_comes_back_whole(stored: Outcome) -> None:
    header, body = decode_entry(encode_entry(stored, etag=entity_tag(stored.body), created_at=1.5, lifetime_ms=7))
    assert expand_body(header, body) == stored.body
    assert (header.created_at, header.lifetime_ms, header.etag) == (1.5, 7, entity_tag(stored.body))
    assert (header.format, header.row_count, header.truncated) == (stored.format, stored.row_count, stored.truncated)
    assert (header.database_seconds, header.encoding_seconds) == (stored.database_seconds, stored.encoding_seconds)
    assert header.body_bytes == len(stored.body)
    assert (header.notes, header.next_page) == (stored.notes, stored.next_page)


def test_an_entry_of_an_earlier_version_has_no_notes() -> None:
    value = encode(b"one row")
    magic, header_length, body_length, _ = entries._PREFIX.unpack_from(value)
    start = entries._PREFIX.size
    header = json.dumps(json.loads(value[start : start + header_length])[:-1]).encode()
    body = value[start + header_length :]
    checksum = zlib.crc32(body, zlib.crc32(header))
    earlier = entries._PREFIX.pack(magic, len(header), body_length, checksum) + header + body
    assert decode_entry(earlier)[0].notes == ()


@pytest.mark.parametrize(
    ("body", "compressed"),
    [
        (b"", False),
        (b"\0", False),
        (REPETITIVE[:16_383], False),  # a hit is cheaper raw
        (REPETITIVE[:16_384], True),
        (REPETITIVE, True),
        (random.Random(1).randbytes(5 * MEGABYTE), False),
        (REPETITIVE[:16_384] + random.Random(2).randbytes(MEGABYTE), False),  # only the beginning gives way
    ],
    ids=["empty", "one byte", "small", "threshold", "5 MB", "5 MB of noise", "noise after a beginning"],
)
def test_body_is_compressed_where_that_pays(body: bytes, compressed: bool) -> None:
    value = encode(body)
    header, stored = decode_entry(value)
    assert header.compressed is compressed
    assert len(value) < len(body) * (0.75 if compressed else 1) + 1024  # of header
    assert expand_body(header, stored) == body


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([b"", b"one row", REPETITIVE[:20_000]]), st.data())
def test_refuses_a_value_with_any_byte_changed(body: bytes, data: st.DataObject) -> None:
    value = bytearray(encode(body))
    position = data.draw(st.integers(min_value=0, max_value=len(value) - 1))
    value[position] ^= data.draw(st.integers(min_value=1, max_value=255))
    with pytest.raises(UnreadableEntry):
        decode_entry(bytes(value))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_refuses_a_value_cut_anywhere_or_with_more_behind(data: st.DataObject) -> None:
    value = encode(b"one row and another")
    cut = data.draw(st.integers(min_value=0, max_value=len(value) - 1))
    for damaged in (value[:cut], value + value[: cut + 1]):
        with pytest.raises(UnreadableEntry):
            decode_entry(damaged)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=100))
def test_refuses_what_is_no_entry(value: bytes) -> None:
    with pytest.raises(UnreadableEntry):
        decode_entry(value)


@pytest.mark.parametrize(
    "header",
    [b"", b"[]", b"{}", b"[1]", b"null", orjson.dumps([1.5, 7, "etag", "image/png", 1, False, 0.5, 0.5, 3, False])],
)
def test_refuses_a_header_of_another_release(header: bytes) -> None:
    prefix = entries._PREFIX.pack(b"LQE1", len(header), 0, zlib.crc32(header))
    with pytest.raises(UnreadableEntry):
        decode_entry(prefix + header)


def test_entity_tag_tells_bodies_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    tags = {body: entity_tag(body) for body in (b"", b"a", b"b", b"a" * 100_000, b"a" * 99_999 + b"b")}
    assert len(set(tags.values())) == len(tags)
    assert all(re.fullmatch(r'"[0-9a-f]{32}"', tag) for tag in tags.values())
    assert tags[b"a"] == entity_tag(b"a")
    monkeypatch.setattr("django.conf.settings.SECRET_KEY", "another installation's")
    assert tags[b"a"] != entity_tag(b"a")
