"""The allowlist itself: well-formed groups, nothing dangerous by name, near names."""

from __future__ import annotations

from itertools import combinations

import pytest

from logsources.allowed_functions import (
    ALLOWED_FUNCTIONS,
    FUNCTION_GROUPS,
    RECORD_RETURNING,
    SET_RETURNING,
    SYNTAX_FUNCTIONS,
    similar_functions,
)


def test_lists_every_function_in_one_group():
    for first, second in combinations(FUNCTION_GROUPS, 2):
        assert first.names.isdisjoint(second.names), (first.title, second.title)
    assert frozenset().union(*(group.names for group in FUNCTION_GROUPS)) == ALLOWED_FUNCTIONS


def test_describes_every_group_in_a_sentence():
    for group in FUNCTION_GROUPS:
        assert group.title[0].isupper()
        assert group.purpose.endswith(".")
        assert group.names


def test_lists_set_returning_functions_among_the_allowed():
    assert SET_RETURNING.keys() <= ALLOWED_FUNCTIONS
    assert SET_RETURNING.keys() >= RECORD_RETURNING


@pytest.mark.parametrize(
    "prefix",
    ["pg_", "lo_", "has_", "to_reg", "query_to", "table_to", "cursor_to", "schema_to", "database_to", "xml", "dblink",
     "ts_", "txid_", "inet_server", "inet_client", "current_", "set_c", "setv", "sets", "nextval", "col_desc",
     "obj_desc", "binary_upgrade", "brin_", "gin_", "json_populate", "jsonb_populate", "unicode", "icu_"],
)  # fmt: skip
def test_lists_nothing_that_reads_the_server(prefix):
    names = ALLOWED_FUNCTIONS.union(*SYNTAX_FUNCTIONS.values())
    assert [name for name in names if name.startswith(prefix)] == []


@pytest.mark.parametrize("name", ["repeat", "lpad", "rpad", "version", "setseed", "nextval", "lastval", "system_user"])
def test_leaves_out(name):
    assert name not in ALLOWED_FUNCTIONS


def test_suggests_the_nearest_name_first():
    assert similar_functions("jsonb_array_element")[0] == "jsonb_array_elements"
    assert similar_functions("qqqqqq") == []
