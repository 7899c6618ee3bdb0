"""Texts in BigQuery's dialect, and the rows that PostgreSQL gives for them: at least one of every construct."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests import files

pytestmark = pytest.mark.sql


def cases(name: str) -> list[Any]:
    loaded = files.cases(f"bigquery/{name}.jsonl")
    return [pytest.param(case, id=f"{number}-{case['construct']}") for number, case in enumerate(loaded, 1)]


def given(sql: str, rows: list[dict[str, Any]]) -> list[Any]:
    """Return rows as they can be compared: in their order where the text asks for one."""
    return rows if "order by" in sql.lower() else sorted(json.dumps(row, sort_keys=True) for row in rows)


@pytest.mark.parametrize("case", cases("constructs"))
def test_gives_the_rows_that_bigquery_would(bigquery: Any, case: dict[str, Any]) -> None:
    assert given(case["sql"], bigquery.rows(case["sql"])) == given(case["sql"], case["rows"])


@pytest.mark.parametrize("case", cases("clients"))
def test_gives_the_rows_of_texts_as_clients_send_them(bigquery: Any, case: dict[str, Any]) -> None:
    assert given(case["sql"], bigquery.rows(case["sql"])) == given(case["sql"], case["rows"])
