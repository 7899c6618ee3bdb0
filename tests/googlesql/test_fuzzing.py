"""Fuzzing, short: `python -m tests.fuzz.bigquery` and `tests.fuzz.bigquery_structures` are the long forms."""

from __future__ import annotations

from typing import Any

import pytest

from endpoints.calling.prepared_queries import sandbox_session
from endpoints.log_database.execution import StatementFailed, run_statement
from endpoints.results.outcomes import Statement
from tests.fuzz import bigquery as fuzzing
from tests.fuzz import bigquery_structures as structures

pytestmark = pytest.mark.sql


def test_every_text_ends_in_rows_or_a_refusal(bigquery: Any) -> None:
    session = sandbox_session(bigquery.endpoint, bigquery.schema, {"project": "acme"})

    def run(statement: Statement) -> str:
        try:
            run_statement(statement, session, max_rows=100)
        except StatementFailed as failure:
            return failure.sqlstate
        return ""

    tally = fuzzing.run_texts(600, 20_250_601, run)
    assert tally.complaints == []
    assert tally.states[""] > 20, "the generator writes too little that runs"


def test_broken_structures_end_in_a_translation_or_a_refusal(capfd: Any, caplog: Any) -> None:
    tally = structures.run_structures(2_000, 20_250_602)
    assert tally.complaints == []
    assert tally.accepted > 50, "the generator writes too little that can be read"
    assert (capfd.readouterr().err, caplog.text) == ("", "")
