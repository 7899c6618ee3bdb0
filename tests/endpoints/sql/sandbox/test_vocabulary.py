"""The words against PostgreSQL's own lists."""

from __future__ import annotations

from pglast import keywords

from endpoints.sql.sandbox.vocabulary import KEYWORD_TYPES, OPERATORS, PINNED_TYPES, RESERVED, TYPES_WITH_MODIFIERS
from tests.fuzz import oracle


def test_reserves_every_word_that_postgresql_reserves():
    assert keywords.RESERVED_KEYWORDS | keywords.TYPE_FUNC_NAME_KEYWORDS <= RESERVED


def test_pins_types_that_the_oracle_allows():
    assert {name.split('"')[1] for name in PINNED_TYPES.values()} <= oracle.TYPES
    assert KEYWORD_TYPES | PINNED_TYPES.keys() >= TYPES_WITH_MODIFIERS


def test_allows_no_type_whose_input_reads_catalogs():
    assert not [word for word in PINNED_TYPES if word.startswith(("reg", "oid", "name", "xml", "pg_", "aclitem"))]


def test_allows_only_operators_that_the_oracle_allows():
    assert OPERATORS <= oracle.OPERATORS
