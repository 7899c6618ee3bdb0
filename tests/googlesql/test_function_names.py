"""The functions that a refusal suggests are BigQuery's."""

from __future__ import annotations

from sqlglot.parsers.bigquery import BigQueryParser

from googlesql.function_names import FUNCTION_NAMES


def test_suggested_functions_exist() -> None:
    known = {*BigQueryParser.FUNCTIONS, *BigQueryParser.FUNCTION_PARSERS, *BigQueryParser.NO_PAREN_FUNCTION_PARSERS}
    special = {"cast", "if", "left", "right"}  # words of their own
    assert {name for name in FUNCTION_NAMES - special if name.upper() not in known} == set()
