"""Metadata in stored form: objects in arrays, names with dots as objects, and nothing lost."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logsources import stored_form
from logsources.rows import BadRow, read_row
from logsources.stored_form import MAX_DOTTED_NAMES, stored

NOW = datetime(2025, 6, 2, 12, tzinfo=UTC)


def metadata_of(**fields: object) -> Any:
    row = read_row({"event_message": "m", "project": "acme", **fields}, project_path=None, now=NOW)
    return orjson.loads(row.metadata_json)


CASES = [
    ({"log.level": "error"}, {"log": [{"level": "error"}]}),
    ({"a.b": 1, "a.c": 2, "d": 3}, {"a": [{"b": 1, "c": 2}], "d": 3}),
    # It joins an object that is there, whatever comes first.
    ({"log.level": "error", "log": {"logger": "app"}}, {"log": [{"logger": "app", "level": "error"}]}),
    ({"log": {"logger": "app"}, "log.level": "error"}, {"log": [{"logger": "app", "level": "error"}]}),
    ({"a": [{"x": 1}], "a.b": 2}, {"a": [{"x": 1, "b": 2}]}),
    ({"a": {"b": {"c": 1}}, "a.b.d": 2}, {"a": [{"b": [{"c": 1, "d": 2}]}]}),
    ({"a": {}, "a.b": 1}, {"a": [{"b": 1}]}),
    # Its place, or that of its object, is taken.
    ({"log": "x", "log.level": "y"}, {"log": "x", "log.level": "y"}),
    ({"a.b": 1, "a": {"b": 2}}, {"a": [{"b": 2}], "a.b": 1}),
    ({"a.b": 1, "a": None}, {"a": None, "a.b": 1}),
    ({"a": [{"x": 1}, {"x": 2}], "a.b": 2}, {"a": [{"x": 1}, {"x": 2}], "a.b": 2}),
    ({"a": [], "a.b": 2}, {"a": [], "a.b": 2}),
    ({"a": [1], "a.b": 2}, {"a": [1], "a.b": 2}),
    ({"a.b.c": 1, "a.b": 2}, {"a": [{"b": [{"c": 1}]}], "a.b": 2}),
    ({"a.b": 2, "a.b.c": 1}, {"a": [{"b": 2}], "a.b.c": 1}),
    # Names that are no path.
    ({"a..b": 1, ".c": 2, "d.": 3, ".": 4}, {"a..b": 1, ".c": 2, "d.": 3, ".": 4}),
    ({"a.b.c.d.e.f.g.h": 1}, {"a": [{"b": [{"c": [{"d": [{"e": [{"f": [{"g": [{"h": 1}]}]}]}]}]}]}]}),
    ({"a.b.c.d.e.f.g.h.i": 1}, {"a.b.c.d.e.f.g.h.i": 1}),
    ({"a." + "b" * 198: 1}, {"a": [{"b" * 198: 1}]}),
    ({"a." + "b" * 199: 1}, {"a." + "b" * 199: 1}),
    # At every level, also in arrays; the inner ones come first.
    ({"a": {"b.c": 1}}, {"a": [{"b": [{"c": 1}]}]}),
    ({"a": [{"b.c": 1}, [{"d.e": 2}], "f.g"]}, {"a": [{"b": [{"c": 1}]}, [{"d": [{"e": 2}]}], "f.g"]}),
    ({"a.b": {"c.d": 1}}, {"a": [{"b": [{"c": [{"d": 1}]}]}]}),
    ({"a": {"b.c": 1}, "a.b": 2}, {"a": [{"b": [{"c": 1}]}], "a.b": 2}),
]


@pytest.mark.parametrize(("sent", "expected"), CASES)
@pytest.mark.parametrize("way", ["metadata", "array", "fields", "value"])
def test_names_with_dots_become_objects_and_lose_nothing(
    sent: dict[str, Any], expected: dict[str, Any], way: str
) -> None:
    for _ in range(2):  # the second time with names that are known
        if way == "fields":
            assert metadata_of(**sent) == [expected]
        elif way == "value":
            assert stored(sent) == [expected]
        else:
            assert metadata_of(metadata=sent if way == "metadata" else [sent]) == [expected]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"log.level": "error", "metadata": {"log": {"logger": "app"}}},
            {"log": [{"logger": "app", "level": "error"}]},
        ),
        ({"log": {"logger": "app"}, "metadata": {"log.level": "e"}}, {"log": [{"logger": "app", "level": "e"}]}),
        ({"log": {"a.b": 1}, "log.c": 2, "metadata": {"log.d": 3}}, {"log": [{"a": [{"b": 1}], "c": 2, "d": 3}]}),
        ({"log.level": "error", "metadata": {"log.level": "error"}}, {"log": [{"level": "error"}]}),
        ({"log.level": "error", "metadata": {"log": {"level": "x"}}}, {"log": [{"level": "x"}], "log.level": "error"}),
        ({"a": {"b": 1}, "metadata": {"a.b": 2}}, {"a": [{"b": 1}], "a.b": 2}),
    ],
)
def test_fields_outside_and_inside_metadata_are_placed_together(
    fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert metadata_of(**fields) == [expected]


def test_refuses_two_values_under_one_name_with_dots() -> None:
    with pytest.raises(BadRow, match=r"the field 'a\.b' differs from the field with the same name in metadata"):
        metadata_of(**{"a.b": 1, "metadata": {"a.b": 2}})


def test_the_project_may_be_under_a_name_with_dots() -> None:
    raw = {"event_message": "m", "metadata": {"tenant.ref": "acme"}}
    row = read_row(raw, project_path="tenant.ref", now=NOW)
    assert (row.project, orjson.loads(row.metadata_json)) == ("acme", [{"tenant": [{"ref": "acme"}]}])


def test_more_names_than_are_remembered_are_placed_too() -> None:
    for number in range(2 * stored_form._MOST_NAMES):
        assert stored({f"a.n{number}": 1, f"m{number}": 2}) == [{"a": [{f"n{number}": 1}], f"m{number}": 2}]
    stored({f"n{number}": 1 for number in range(2 * stored_form._MOST_NAMES)})
    assert max(len(stored_form._places), len(stored_form._undotted)) <= stored_form._MOST_NAMES


def test_a_row_with_very_many_names_with_dots_does_not_grow_without_bounds() -> None:
    many = {f"{number}.b.c.d.e.f.g.h": 1 for number in range(MAX_DOTTED_NAMES + 5)}
    ((found),) = metadata_of(metadata={"inner": many, "x.y": 1})
    assert found["x.y"] == 1
    assert sum("." in name for name in found["inner"][0]) == 5


NAMES = st.lists(st.sampled_from(["a", "b", "c", "log", "x-real-ip", "a b", ""]), min_size=1, max_size=4).map(".".join)
VALUES = st.recursive(
    st.integers(0, 9) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


def leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Yield each value with its names joined by dots, as a query looks for it."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, f"{path}.{name}")
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item, path)
    else:
        yield path, value


@given(metadata=st.dictionaries(NAMES, VALUES, max_size=4))
def test_every_value_keeps_its_path_and_a_row_in_stored_form_does_not_change(metadata: dict[str, Any]) -> None:
    found = metadata_of(metadata=metadata)
    assert sorted(leaves(found), key=repr) == sorted(leaves(metadata), key=repr)
    assert metadata_of(metadata=found) == found
