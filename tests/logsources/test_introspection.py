"""The paths that sampled metadata has, the commonest first, whatever the samples hold."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logsources.introspection import MAX_DEPTH, MAX_PATHS, MAX_VALUES_PER_ROW, MetadataPath, common_paths


def test_arrays_are_looked_into_and_the_commonest_come_first() -> None:
    samples = [
        [{"request": [{"method": "GET", "size": 1}], "ok": True}],
        {"request": {"method": "PUT"}},
        [{"ok": None}],
    ]
    assert common_paths(samples) == (
        MetadataPath("ok", "boolean", 2, ("0", "ok")),
        MetadataPath("request", "object", 2, ("0", "request", "0")),
        MetadataPath("request.method", "text", 2, ("0", "request", "0", "method")),
        MetadataPath("request.size", "number", 1, ("0", "request", "0", "size")),
    )


@pytest.mark.parametrize("sample", [None, 1, "x", [], {}, [[]], [{"a.b": 1}], [{"": 1}], [{"ä": 1}], [{"a b": 1}]])
def test_what_has_no_dotted_path_gives_none(sample: Any) -> None:
    assert common_paths([sample]) == ()


def test_depth_and_number_are_limited() -> None:
    deep: Any = 1
    for _ in range(MAX_DEPTH + 5):
        deep = {"a": deep}
    assert len(common_paths([deep])) == MAX_DEPTH
    assert len(common_paths([{f"k{n}": n for n in range(MAX_VALUES_PER_ROW + 100)}])) == MAX_PATHS
    assert len(common_paths([{f"k{n}": n} for n in range(MAX_PATHS + 50)])) == MAX_PATHS


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab.-_ ", max_size=3), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(st.lists(JSON, max_size=5))
def test_every_path_is_a_dotted_one_and_no_row_counts_twice(samples: list[Any]) -> None:
    paths = common_paths(samples)
    assert len({path.path for path in paths}) == len(paths)
    assert all(1 <= path.rows <= len(samples) for path in paths)
    assert all(part and " " not in part for path in paths for part in path.path.split("."))
