"""Values are counted outside strings, however the text is cut into steps."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logsources.json_batches import holds_more_than

MARKS = (b",", b"[", b"{")
texts = st.text(st.sampled_from('ab",[{\\\n'), max_size=300)
values = st.recursive(
    st.none() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(texts, inner, max_size=8),
    max_leaves=60,
)


def marks_of(value: Any) -> int:
    """Count what stands outside the strings of a value's JSON: one for each opening, one between two members."""
    if isinstance(value, dict):
        return max(1, len(value)) + sum(map(marks_of, value.values()))
    if isinstance(value, list):
        return max(1, len(value)) + sum(map(marks_of, value))
    return 0


@given(st.lists(values, min_size=1, max_size=6), st.booleans())
def test_what_stands_outside_strings_is_counted_exactly(rows: list[Any], as_lines: bool) -> None:
    text = ("\n".join(map(json.dumps, rows)) if as_lines else json.dumps(rows, indent=1)).encode()
    exact = sum(map(marks_of, rows)) if as_lines else marks_of(rows)
    assert not holds_more_than(exact, MARKS, text)
    if exact:
        assert holds_more_than(exact - 1, MARKS, text)


@pytest.mark.parametrize(
    ("text", "holds_more"),
    [
        (b"{}\n" * 200_000, True),
        (b'{"a":"' + b"," * 200_000 + b'"}', False),
        (b'{"a":"\\"' + b"," * 200_000 + b'"}', False),
        (b" " * 500_000 + b"," * 100_001, True),
        (b'["' + b'","' * 99_999 + b'"]', False),
        (b'["' + b'","' * 100_001 + b'"]', True),
    ],
)
def test_a_long_text_is_counted_over_all_its_steps(text: bytes, holds_more: bool) -> None:
    assert holds_more_than(100_000, MARKS, text) is holds_more
