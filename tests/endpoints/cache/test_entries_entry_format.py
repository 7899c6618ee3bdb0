from __future__ import annotations

import contextlib
import random
import re
from dataclasses import replace

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
)
from endpoints.results.compression import COMPRESS_FROM_BYTES, zstd_frame
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
    stored = replace(outcome(body), zstd=zstd_frame(body))
    return encode_entry(stored, etag=entity_tag(body), lifetime_ms=4_500_000)


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
        at_own_limit=st.booleans(),
    )
)
def test_result_comes_back_whole(stored: Outcome) -> None:
    stored = replace(stored, zstd=zstd_frame(stored.body))
    etag = entity_tag(stored.body)
    assert decode_entry(encode_entry(stored, etag=etag, lifetime_ms=7)) == (stored, etag, 7)


@pytest.mark.parametrize(
    ("body", "compressed"),
    [
        (b"", False),
        (b"\0", False),
        (REPETITIVE[: COMPRESS_FROM_BYTES - 1], False),
        (REPETITIVE[:COMPRESS_FROM_BYTES], True),
        (REPETITIVE, True),
        (random.Random(1).randbytes(5 * MEGABYTE), False),
        (REPETITIVE[:16_384] + random.Random(2).randbytes(MEGABYTE), True),
    ],
    ids=["empty", "one byte", "small", "threshold", "5 MB", "5 MB of noise", "noise after a beginning"],
)
def test_a_large_body_is_compressed_where_it_becomes_smaller(body: bytes, compressed: bool) -> None:
    value = encode(body)
    found = decode_entry(value)[0]
    assert found.body == body
    assert bool(found.zstd) is compressed
    assert len(value) < len(found.zstd or body) + 1024  # of header


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([b"", b"one row", REPETITIVE[:20_000]]), st.data())
def test_a_value_with_any_byte_changed_breaks_nothing(body: bytes, data: st.DataObject) -> None:
    """Redis and TCP deliver whole values, so nothing sums them up; whatever else comes is refused or has its length."""
    value = bytearray(encode(body))
    position = data.draw(st.integers(min_value=0, max_value=len(value) - 1))
    value[position] ^= data.draw(st.integers(min_value=1, max_value=255))
    with contextlib.suppress(UnreadableEntry):
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
    [b"", b"[]", b"{}", b"[1]", b"null", b"[7]" * 3, orjson.dumps([7, "etag", 0, "image/png", *[0] * 8])],
)
def test_refuses_a_header_of_another_release(header: bytes) -> None:
    whole = encode(b"")
    magic, header_length, _ = entries._PREFIX.unpack_from(whole)
    for prefix in (magic, b"LQE2"):
        with pytest.raises(UnreadableEntry):
            decode_entry(entries._PREFIX.pack(prefix, len(header), 0) + header)
    with pytest.raises(UnreadableEntry):
        decode_entry(entries._PREFIX.pack(b"LQE2", header_length, 0) + whole[entries._PREFIX.size :])


def test_entity_tag_tells_bodies_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    tags = {body: entity_tag(body) for body in (b"", b"a", b"b", b"a" * 100_000, b"a" * 99_999 + b"b")}
    assert len(set(tags.values())) == len(tags)
    assert all(re.fullmatch(r'"[0-9a-f]{32}"', tag) for tag in tags.values())
    assert tags[b"a"] == entity_tag(b"a")
    monkeypatch.setattr("django.conf.settings.SECRET_KEY", "another installation's")
    assert tags[b"a"] != entity_tag(b"a")
