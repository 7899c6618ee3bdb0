"""The header traceparent, read as W3C Trace Context has it: valid in every detail, or as if nothing had been sent."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config import logs
from config.tracing import HEADER, TraceParent, follow, leave, read_traceparent, trace_id_of_request

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
VALID = [
    f"00-{TRACE}-{SPAN}-01",
    f"00-{TRACE}-{SPAN}-00",
    f"00-{TRACE}-{SPAN}-03",  # level 2: the trace id is random
    f"00-{TRACE}-{SPAN}-fe",  # flags of later levels are not looked at
    f" 00-{TRACE}-{SPAN}-01\t",  # white space around a header's value is none of it
    # Later versions begin in the same way (section 4.3).
    f"01-{TRACE}-{SPAN}-01",
    f"cc-{TRACE}-{SPAN}-01-what-the-future-will-be-like",
    f"fe-{TRACE}-{SPAN}-00-",
]
INVALID = {
    "nothing": "",
    "white space": "  ",
    "the forbidden version": f"ff-{TRACE}-{SPAN}-01",
    "a trace of zeros": f"00-{'0' * 32}-{SPAN}-01",
    "a span of zeros": f"00-{TRACE}-{'0' * 16}-01",
    "more than this version has": f"00-{TRACE}-{SPAN}-01-more",
    "a dash at the end": f"00-{TRACE}-{SPAN}-01-",
    "more without a dash in a later version": f"01-{TRACE}-{SPAN}-01more",
    "upper case": f"00-{TRACE.upper()}-{SPAN}-01",
    "an upper-case version": f"0A-{TRACE}-{SPAN}-01",
    "a short trace": f"00-{TRACE[1:]}-{SPAN}-01",
    "a long trace": f"00-{TRACE}0-{SPAN}-01",
    "a short span": f"00-{TRACE}-{SPAN[1:]}-01",
    "one digit of flags": f"00-{TRACE}-{SPAN}-1",
    "a version of one digit": f"0-{TRACE}-{SPAN}-01",
    "no flags": f"00-{TRACE}-{SPAN}",
    "other separators": f"00_{TRACE}_{SPAN}_01",
    "no hexadecimal digits": f"00-{'g' * 32}-{SPAN}-01",
    "digits of another script": f"00-{'٣' * 32}-{SPAN}-01",
    "white space inside": f"00- {TRACE}-{SPAN}-01",
    "a line break at the end": f"00-{TRACE}-{SPAN}-01\n",
    "a line break in what is to come": f"01-{TRACE}-{SPAN}-01-a\nb",
    "two headers": f"00-{TRACE}-{SPAN}-01,00-{TRACE}-{SPAN}-01",
    "a quotation mark": f"00-{TRACE[:-1]}'-{SPAN}-01",
}


@pytest.mark.parametrize("header", VALID)
def test_reads_what_is_valid(header: str) -> None:
    assert read_traceparent(header) == TraceParent(TRACE, SPAN)


@pytest.mark.parametrize("what", INVALID)
def test_takes_anything_else_for_nothing(what: str) -> None:
    assert read_traceparent(INVALID[what]) is None


@given(st.text())
def test_no_text_breaks_it(text: str) -> None:
    assert read_traceparent(text) is None


@pytest.fixture
def context() -> Any:
    logs.begin()
    yield logs.bound
    logs.begin()


def test_a_request_has_its_ids_until_it_is_left(context: Any) -> None:
    followed = follow({HEADER: f"00-{TRACE}-{SPAN}-01"})
    assert context() == {"trace_id": TRACE, "span_id": SPAN}
    assert trace_id_of_request.get() == TRACE
    leave(followed)
    assert trace_id_of_request.get() == ""


def test_an_invalid_header_leaves_no_trace(context: Any) -> None:
    followed = follow({HEADER: "00-'; drop table logs; --"})
    assert followed is None
    assert (context(), trace_id_of_request.get()) == ({}, "")
    leave(followed)
