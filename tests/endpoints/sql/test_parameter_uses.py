"""Where parameters are used, and what their use says about their type."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endpoints.sql.lexemes import LexicalError
from endpoints.sql.parameter_uses import numbered_uses, parameter_uses, types_of_uses
from endpoints.sql.parameters import ParameterType, find_parameters

GUESSES = [
    ("select @a", None),
    ("select @a::int", ParameterType.INTEGER),
    ("select @a :: BIGINT", ParameterType.INTEGER),
    ("select @a::timestamptz", ParameterType.TIMESTAMP),
    ("select @a::timestamp with time zone", ParameterType.TIMESTAMP),
    ("select @a::date", ParameterType.DATE),
    ("select @a::double precision", ParameterType.NUMBER),
    ("select @a::numeric(4,1)", ParameterType.NUMBER),
    ("select @a::boolean", ParameterType.BOOLEAN),
    ("select @a::uuid", ParameterType.UUID),
    ("select @a::text[]", ParameterType.TEXT_LIST),
    ("select @a::int[]", None),
    ("select @a::jsonb", None),
    ("select 1 where t.timestamp > @a", ParameterType.TIMESTAMP),
    ('select 1 where "timestamp" <= @a', ParameterType.TIMESTAMP),
    ("select 1 where timestamp > coalesce(@a, '-infinity')", ParameterType.TIMESTAMP),
    ("select 1 where @a < t.timestamp", ParameterType.TIMESTAMP),
    ("select 1 where @a >= timestamp", ParameterType.TIMESTAMP),
    ("select 1 where project = @a", None),
    ("select 1 where @a = t.project", None),
    ("select 1 limit @a", ParameterType.INTEGER),
    ("select 1 offset @a", ParameterType.INTEGER),
    ("select 1 where x = any(@a)", ParameterType.TEXT_LIST),
    ("select 1 where x = ANY (@a)", ParameterType.TEXT_LIST),
    ("select @a <", None),
    ("@a", None),
]


@pytest.mark.parametrize(("sql", "guess"), GUESSES)
def test_guesses_the_type_where_the_use_tells_it(sql: str, guess: ParameterType | None) -> None:
    (use,) = parameter_uses(sql)
    assert (use.name, use.guessed_type) == ("a", guess)


def test_lists_every_use_in_order_of_first_use_and_none_in_strings_or_comments() -> None:
    sql = "select @b, '@c', /* @d */ @a::int, @b -- @e"
    first, second = parameter_uses(sql)
    assert (first.name, [sql[offset:][:2] for offset in first.offsets]) == ("b", ["@b", "@b"])
    assert (second.name, second.guessed_type) == ("a", ParameterType.INTEGER)


def test_the_first_use_that_tells_a_type_counts() -> None:
    (use,) = parameter_uses("select @a, @a::int, @a::uuid")
    assert use.guessed_type is ParameterType.INTEGER


PIECES = st.lists(
    st.sampled_from(
        [
            "@a",
            "@b",
            "::",
            "int",
            "[",
            "]",
            "timestamp",
            "t",
            ".",
            "<",
            "=",
            "any",
            "(",
            ")",
            "'@c'",
            "limit",
            "\n",
            "@>",
        ]
    ),
    max_size=12,
)


@settings(max_examples=200, deadline=None)
@given(PIECES)
def test_finds_the_same_parameters_as_binding_does(pieces: list[str]) -> None:
    sql = " ".join(pieces)
    try:
        names = find_parameters(sql)
    except LexicalError:
        with pytest.raises(LexicalError):
            parameter_uses(sql)
        return
    uses = parameter_uses(sql)
    assert tuple(use.name for use in uses) == names
    assert all(sql.startswith(f"@{use.name}", offset) for use in uses for offset in use.offsets)


def test_every_use_gets_a_number_of_its_own() -> None:
    query = numbered_uses(" select '@x' where @a is null or n >= @a and t < @b::date ; ")
    assert query.names == ("a", "a", "b")
    assert query.sql(query.untold) == "select '@x' where ($1::text) is null or n >= ($2) and t < ($3)::date"
    assert (query.untold, query.casts) == ({1}, {3})


TOLD = [
    ("@a", {1: "int4"}, ParameterType.INTEGER),
    ("@a", {1: "jsonb"}, None),
    ("@a", {}, None),
    ("@a, @a", {1: "varchar", 2: "int4"}, ParameterType.TEXT),
    ("@a::int, @a", {1: "int4", 2: "varchar"}, ParameterType.TEXT),
    ("@a::int, @a::uuid", {1: "int4", 2: "uuid"}, ParameterType.INTEGER),
    ("@a::text, @a", {1: "text", 2: "timestamptz"}, ParameterType.TIMESTAMP),
    ("@a, @a", {1: "date", 2: "timestamptz"}, ParameterType.TIMESTAMP),
    ("@a, @a", {1: "numeric", 2: "int8"}, ParameterType.INTEGER),
    ("@a", {1: "text[]"}, ParameterType.TEXT_LIST),
    ("@a::int[]", {1: "int4[]"}, ParameterType.TEXT_LIST),
]


@pytest.mark.parametrize(("uses", "told", "expected"), TOLD)
def test_the_type_of_a_parameter_fits_all_its_uses(
    uses: str, told: dict[int, str], expected: ParameterType | None
) -> None:
    assert types_of_uses(numbered_uses(f"select {uses}"), told).get("a") == expected
