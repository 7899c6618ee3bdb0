"""Addresses go, everything else stays, and no text takes more than linear time."""

from __future__ import annotations

import ipaddress
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endpoints.results.redaction import REDACTED, redact_json, redact_text
from tests.files import cases
from tests.linear import outgrows_its_input

CASES = cases("redaction.jsonl")

# Tokens as other readers of a log would cut them.
TOKENISATIONS = (
    re.compile(r"(?<![0-9A-Za-z_])[0-9A-Fa-f:.]+(?![0-9A-Za-z_])"),
    re.compile(r"(?<![0-9.])[0-9.]+(?![0-9.])"),
    re.compile(r"[^\s,;=|<>()\[\]{}\"'/@&?#%\\]+"),
    re.compile(r"[^\s,;=|<>()\[\]{}\"'@&?#\\]+"),
    re.compile(r"\[([^\]]+)\]"),
)
DELIMITERS = [
    *" \t\n,;=|<>()[]{}\"'/@&?#!*~+$^`é，→",
    *(": ", "ip=", "ip: ", "client:", "\\n", "\\u0022", "%20", "%3D", "app/app_rw@", "host,", "x[", "(no "),
]


def survivors(text: str) -> list[str]:
    """Return the tokens of the text that are addresses, alone or without port, prefix length and zone."""
    found = []
    for tokenisation in TOKENISATIONS:
        for token in tokenisation.findall(text):
            bare = token.strip("[]").rstrip(".")
            for reading in {bare, bare.partition("/")[0], bare.partition("%")[0], bare.rpartition(":")[0]} - {"::"}:
                try:
                    ipaddress.ip_address(reading)
                except ValueError:
                    continue
                found.append(reading)
    return found


def ipv6_spellings(number: int) -> st.SearchStrategy[str]:
    address = ipaddress.IPv6Address(number)
    plain = [address.compressed, address.exploded, address.compressed.upper()]
    tail = ipaddress.IPv4Address(number & 0xFFFFFFFF)
    spellings = [
        *plain,
        *(f"{spelling}%eth0" for spelling in plain),
        *(f"[{spelling}]:443" for spelling in plain),
        f"{address.compressed}/64",
        f"::ffff:{tail}",
        f"[::FFFF:{tail}]:80",
        f"64:ff9b::{tail}",
    ]
    return st.sampled_from(spellings)


IPV6_NUMBERS = st.one_of(
    st.integers(min_value=1, max_value=2**128 - 1),
    st.builds(lambda high, low: (high << 112) | low, st.integers(0, 0xFFFF), st.integers(1, 0xFFFF)),
).filter(lambda number: number != 0xDEC)  # ::dec is a cast
ADDRESSES = st.one_of(
    IPV6_NUMBERS.flatmap(ipv6_spellings),
    st.builds(
        lambda address, suffix: f"{address}{suffix}", st.ip_addresses(v=4), st.sampled_from(["", ":80", "/24", "."])
    ),
)
FRAGMENTS = st.sampled_from(
    [
        *("1", "1.2.3.4", "::", "::1", ":", "a", "fe80::1", "2001:db8::1", "@", "x@b.example", "%40", "%3A", "%20"),
        *("%eth0", "\\n", "\\u0022", "std", "255", REDACTED, *".\"'[]/=,_é\\() "),
    ]
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["text"][:40] or "empty")
def test_redacts_addresses_and_nothing_else(case):
    assert redact_text(case["text"]) == case["expect"], case["why"]


def test_covers_a_hundred_cases():
    assert len({case["text"] for case in CASES}) == len(CASES) >= 100


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["text"][:40] or "empty")
def test_redacts_inside_json_as_in_text(case):
    for ensure_ascii in (True, False):
        document = json.dumps({"outer": [{"inner": case["text"]}]}, ensure_ascii=ensure_ascii)
        assert json.loads(redact_json(document)) == {"outer": [{"inner": case["expect"]}]}


@given(before=st.sampled_from(DELIMITERS), addresses=st.lists(ADDRESSES, min_size=1, max_size=4), gaps=st.data())
@settings(max_examples=300, deadline=None)
def test_lets_no_parseable_address_survive(before, addresses, gaps):
    text = before
    for address in addresses:
        text += address + gaps.draw(st.sampled_from([*" \t\n,;=|<>)]}\"'&?#!*~+$^`é，→", "\\n", "\\u0022", " of "]))
    redacted = redact_text(text)
    assert survivors(redacted) == []
    assert redacted.count(REDACTED) == len(addresses)


def test_survivor_search_finds_addresses():
    assert survivors("a=192.0.2.1:80, [2001:db8::1%eth0]:443") != []


@given(st.lists(FRAGMENTS, max_size=12).map("".join))
@settings(max_examples=500, deadline=None)
def test_redacting_twice_changes_nothing_more(text):
    once = redact_text(text)
    assert redact_text(once) == once


@given(st.lists(FRAGMENTS, max_size=12).map("".join))
@settings(max_examples=500, deadline=None)
def test_a_text_is_redacted_alike_alone_and_before_an_address(text):
    # Alone it may be left unread, for what it lacks.
    assert redact_text(f"{text} 192.0.2.1") == f"{redact_text(text)} {REDACTED}"


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | ADDRESSES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text() | ADDRESSES, inner, max_size=4),
    max_leaves=12,
)


def redact_value(value):
    """Do to a decoded value what redact_json does to its text."""
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, list):
        return [redact_value(item) for item in value]
    if isinstance(value, dict):
        return {key: redact_value(item) for key, item in value.items()}
    return value


@given(JSON_VALUES, st.sampled_from([None, 2]), st.booleans())
@settings(max_examples=200, deadline=None)
def test_redacts_every_value_at_any_depth(value, indent, ensure_ascii):
    document = json.dumps(value, indent=indent, ensure_ascii=ensure_ascii)
    assert json.loads(redact_json(document)) == redact_value(value)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ('{"192.0.2.1" : "192.0.2.1"}', '{"192.0.2.1" : "REDACTED"}'),
        ('{"robin@example.org"\n:\t1.10}', '{"robin@example.org"\n:\t1.10}'),
        ("[1.10, 12345678901234567890123, 1E+2, -0.0]", "[1.10, 12345678901234567890123, 1E+2, -0.0]"),
        ('[ 1.0 ,"::1",  true ]', '[ 1.0 ,"REDACTED",  true ]'),
        ('"192.0.2.1"', '"REDACTED"'),
        (r'["\u0031.2.3.4", "robin\u0040example.org", "\u003a:1"]', '["REDACTED", "REDACTED", "REDACTED"]'),
        (r'["caf\u00e9 \/ x"]', r'["caf\u00e9 \/ x"]'),
        (r'["caf\u00e9 ::1 \n \" 😀"]', r'["café REDACTED \n \" 😀"]'),
        (r'{"m": "{\"ip\":\"192.0.2.55\",\"n\":1.10}"}', r'{"m": "{\"ip\":\"REDACTED\",\"n\":1.10}"}'),
        (r'{"a\"b": "a\\", "c": "192.0.2.1"}', r'{"a\"b": "a\\", "c": "REDACTED"}'),
        ('[{"a":[{"b":[{"c":"fe80::1%eth0"}]}]}]', '[{"a":[{"b":[{"c":"REDACTED"}]}]}]'),
        ("null", "null"),
        ("", ""),
    ],
)
def test_copies_everything_outside_string_values(document, expected):
    assert redact_json(document) == expected


def test_keeps_half_a_surrogate_pair_escaped():
    redacted = redact_json(r'["\ud800 192.0.2.1 é"]')
    assert json.loads(redacted) == ["\ud800 REDACTED é"]
    assert redacted.encode()


@pytest.mark.parametrize("document", ['["192.0.2.1', '["a\\', '["\\"192.0.2.1', r'["\q 192.0.2.1"]', r'["\u00"]'])
def test_refuses_malformed_strings(document):
    with pytest.raises(ValueError, match=r"inside a string|Invalid"):
        redact_json(document)


@pytest.mark.parametrize(
    "unit",
    [
        *("a", "1", "1.", "1.2.3.4.", ":", "1:", "a:a:", "1:1:1 ", "@", "a@", "a@a.", "@a.", "é", "%", "%3A", "1%3A"),
        *("a%40", '"', '"@', "\\", "\\n", "fe80::1%a.", "::1%", "a@[1", "'", "a'a", "::1.2.3.", "00.", "a@%d9%84."),
        *("a@xn--", "_:", "::1 ", "x::y ", "192.0.2.1 ", "robin@example.org "),
    ],
)
def test_hostile_text_takes_linear_time(unit):
    def redact(length):
        text = (unit * length)[:length] + "@b.example"
        return redact_text(text), redact_json(json.dumps([text]))

    assert not outgrows_its_input(redact, size=10_000)


def test_quadratic_time_would_be_seen():
    every_start_to_the_end = re.compile("a+b")
    assert outgrows_its_input(lambda length: every_start_to_the_end.sub("", "a" * length), size=1_000)
