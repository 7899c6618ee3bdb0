"""Differential fuzzing, short: `python -m tests.fuzz.sandbox` is the long form. Then: the oracle sees what it should.

One rule of the checker at a time is switched off, and the same run has to find queries that PostgreSQL's parser reads
as something no sandbox query may have.
"""

from __future__ import annotations

from itertools import islice
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endpoints.sql import sandbox
from endpoints.sql.sandbox import calls, expressions, from_items, names, special_forms
from endpoints.sql.sandbox.reader import Reader
from endpoints.sql.sandbox.scopes import Source
from endpoints.sql.sandbox.selects import query
from tests.fuzz import sandbox as fuzzing
from tests.fuzz.generator import QueryGenerator
from tests.fuzz.mutations import GRAFTS
from tests.fuzz.oracle import complaints


def test_accepts_nothing_that_postgresql_reads_otherwise():
    tally = fuzzing.run(queries=5_000, seed=20_250_601)
    assert tally.complaints == []
    assert tally.accepted > 500, "the generator writes too little that passes"
    assert tally.unparsable < tally.accepted / 20


WORDS = st.one_of(
    st.sampled_from(
        ["select", "from", "edge_logs", "where", "(", ")", ",", "*", "e", ".", "id", "as", "union", "with", "1"]
    ),
    st.sampled_from(GRAFTS),
    st.text(alphabet="'\"\\$-/*@;()U&Ee\n x1", max_size=6),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(WORDS, max_size=20), st.sampled_from(["", " "]))
def test_answers_any_words_and_accepts_nothing_wrong(words, joint):
    tally = fuzzing.Tally()
    fuzzing.examine("select " + joint.join(words), tally)
    assert tally.complaints == []


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60))
def test_answers_any_text(text):
    tally = fuzzing.Tally()
    fuzzing.examine(text, tally)
    fuzzing.examine(f"select {text} from edge_logs", tally)
    assert tally.complaints == []


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="'\\\"$-/*UE&e \n;(),x", max_size=30))
def test_keeps_a_literal_one_literal(text):
    literal = "'" + text.replace("'", "''") + "'"
    checked = fuzzing.accepted(f"select {literal} as x from edge_logs")
    assert checked is not None
    assert complaints(checked.sql, {"edge_logs"}) == []
    assert checked.sql.startswith(("SELECT '", "SELECT E'"))


def allow_any_relation(reader):
    return reader.values[reader.index], Source(frozenset())


def allow_any_function(reader):
    return reader.values[reader.index]


def allow_any_type(reader):
    return reader.symbol


def allow_attribute_of_expression(reader):
    reader.take(".")
    return reader.label() if reader.symbol != "*" else reader.take("*")


RULES_OFF = {
    "relations": (from_items, "resolve_relation", allow_any_relation, "relation auth_user"),
    "functions": (calls, "require_allowed_function", allow_any_function, "function pg_catalog.pg_sleep"),
    "types": (names, "require_allowed_type", allow_any_type, "type regclass"),
    "attributes": (expressions, "_star_of_expression", allow_attribute_of_expression, "attribute of an expression"),
}


@pytest.mark.parametrize(("module", "rule", "replacement", "found"), RULES_OFF.values(), ids=RULES_OFF.keys())
def test_notices_a_rule_that_is_switched_off(monkeypatch, module, rule, replacement, found):
    monkeypatch.setattr(module, rule, replacement)
    tally = fuzzing.Tally()
    for text in islice(fuzzing.random_texts(seed=7), 4_000):
        fuzzing.examine(text, tally)
        if any(found in complaint for complaint in tally.complaints):
            return
    pytest.fail(f"nothing says {found}")


@pytest.mark.parametrize(
    ("table", "word", "reading", "sql", "found"),
    [
        (special_forms._WORD_FORMS, "current_user", Reader.take_symbol, "select current_user", "SVFOP_CURRENT_USER"),
        (expressions._INFIX, "collate", ("collate", Reader.identifier), 'select 1 collate "C"', "node CollateClause"),
    ],
)  # fmt: skip
def test_notices_a_word_too_many(monkeypatch, table, word, reading, sql, found):
    monkeypatch.setitem(table, word, reading)
    assert found in complaints(fuzzing.accepted(sql).sql, fuzzing.TABLE_NAMES)


def test_notices_a_second_statement(monkeypatch):
    monkeypatch.setattr(sandbox, "statement", lambda reader: reader.read(query, ";", query))
    checked = fuzzing.accepted("select 1; select 2")
    assert complaints(checked.sql, fuzzing.TABLE_NAMES) == ["2 statements"]


def test_notices_an_operator_too_many(monkeypatch):
    monkeypatch.setattr(expressions, "OPERATORS", expressions.OPERATORS | {"=#"})
    checked = fuzzing.accepted("select 1 =# 2")
    assert complaints(checked.sql, fuzzing.TABLE_NAMES) == ["operator =#"]


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("select 1 for update", "lockingClause"),
        ("select 1 into t", "intoClause"),
        ("values (1)", "valuesLists"),
        ("delete from edge_logs", "a DeleteStmt"),
        ("with recursive a as (select 1) select 1 from a", "WITH RECURSIVE"),
        ("with a as (delete from edge_logs returning 1) select 1 from a", "node DeleteStmt"),
        ("select 1 from a, (with a as (select 1) select 1 from a) b", "relation a"),
        ("select 1 from only edge_logs", "ONLY"),
        ("select 1 from public.edge_logs", "relation of schema public"),
        ("select count(*)", "function count"),
        ("select 1 from edge_logs tablesample system (1)", "node RangeTableSample"),
        ("select a.b.c", "column with two dots"),
        ("select 1 from rows from (pg_catalog.now(), pg_catalog.now()) x", "ROWS FROM"),
        ("select 1 order by 1 using <", "ORDER BY USING"),
        ("select 1 operator(pg_catalog.+) 2", "operator pg_catalog.+"),
        ("select xmlelement(name a)", "node XmlExpr"),
    ],
)
def test_oracle_sees(sql, found):
    assert found in complaints(sql, {"edge_logs"})


def test_generator_writes_the_same_for_the_same_seed():
    assert QueryGenerator(Random(1)).query_text() == QueryGenerator(Random(1)).query_text()
