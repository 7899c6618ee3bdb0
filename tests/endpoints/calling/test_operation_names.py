"""Names of operations and schemas, as generators of clients need them; the whole document has tests of its own."""

from __future__ import annotations

from uuid import UUID

import pytest

from endpoints.calling.operation_names import Names, name_endpoints, name_in_schemas
from endpoints.models import Endpoint

ID = UUID("0123abcd-0000-0000-0000-000000000000")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("errors.by-path", Names("errors_by_path", "ErrorsByPath")),
        ("logs", Names("logs", "Logs")),
        ("Sand_box", Names("sand_box_0123abcd", "SandBox0123abcd")),
    ],
)
def test_words_of_the_name_are_joined(name: str, expected: Names) -> None:
    assert name_endpoints([Endpoint(pk=ID, name=name)]) == {name: expected}


def test_names_that_look_the_same_differ_by_their_ids() -> None:
    other = UUID("9876abcd-0000-0000-0000-000000000000")
    named = name_endpoints([Endpoint(pk=ID, name="a.b"), Endpoint(pk=other, name="a_b"), Endpoint(name="c")])
    assert [names.operation for names in named.values()] == ["a_b_0123abcd", "a_b_9876abcd", "c"]


def test_a_part_of_a_schema_s_name_is_made_of_the_words_of_a_name() -> None:
    assert name_in_schemas("min_status") == "MinStatus"
