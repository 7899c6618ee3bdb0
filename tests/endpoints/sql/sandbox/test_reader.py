"""The smallest steps of reading, and a rule that is read alone, without the rest of the grammar."""

from __future__ import annotations

import pytest

from endpoints.errors import SandboxViolation
from endpoints.sql.sandbox import SandboxLimits
from endpoints.sql.sandbox.names import type_name
from endpoints.sql.sandbox.reader import Grammar, Reader
from endpoints.sql.sandbox.tokens import END, TokenReader

LIMITS = SandboxLimits()


def take_number(reader):
    return reader.small_integer()


def reader_of(sql):
    return Reader(
        sql,
        TokenReader(sql, LIMITS, tables=()).read(),
        grammar=Grammar(expression=take_number, simple_expression=take_number, query=take_number),
        tables={},
        parameter_types={},
        limits=LIMITS,
    )


def test_reads_words_signs_and_rules_in_order():
    reader = reader_of("cast (7 As int[])")
    reader.read("cast", "(", Reader.expression, "as", type_name, ")")
    assert reader.pieces == ["CAST", "(", "7", "AS", 'pg_catalog."int4"', "[", "]", ")"]
    assert reader.origins == [0, 5, 6, 8, 11, 14, 15, 16]
    assert reader.symbol == END


def test_refuses_the_first_part_that_is_missing():
    reader = reader_of("cast (7 int)")
    with pytest.raises(SandboxViolation, match="column 9: `int` is not expected here; expected AS"):
        reader.read("cast", "(", Reader.expression, "as", type_name, ")")


def test_returns_what_the_rule_returns_for_each_item():
    assert reader_of("1, 2, 3").list_of(take_number) == [1, 2, 3]
    assert reader_of('(A, "B")').identifiers() == ["a", "B"]


def test_emits_nothing_for_what_is_skipped_and_keeps_the_place_of_what_is_inserted():
    reader = reader_of("a b")
    reader.skip()
    reader.insert("AS")
    reader.identifier()
    assert list(zip(reader.pieces, reader.origins, strict=True)) == [("AS", 2), ('"b"', 2)]


@pytest.mark.parametrize("sql", ["1.5", "1234567890", "-1", "'1'", "a"])
def test_refuses_what_is_no_small_integer(sql):
    with pytest.raises(SandboxViolation, match="expected a whole number"):
        reader_of(sql).small_integer()
