"""The dialect beside GoogleSQL's own engine over the same rows: what both answer is the same."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests import files
from tests.endpoints.dialects.bigquery.conftest import BothEngines
from tests.fuzz.bigquery_queries import Queries

SEED = 20_251_123
# Texts over the rows of the cases, with the reason why their answers differ.
DIFFERENCES = {case["sql"]: case["reason"] for case in files.cases("bigquery/differences.jsonl")}


def test_random_texts_have_the_same_answer(both_engines: BothEngines, pytestconfig: pytest.Config) -> None:
    texts = pytestconfig.getoption("--oracle-texts")
    queries = Queries(Random(SEED + texts))
    for number in range(texts):
        if number % 10:
            both_engines.ask(queries.query())
        else:
            both_engines.ask(queries.ordered(), in_order=True)
    found = both_engines.comparison
    assert found.different + found.failed == [], found.summary()
    assert found.same > 0.8 * texts, found.summary()


@pytest.mark.parametrize("case", files.cases("bigquery/structs.jsonl"), ids=lambda case: case["sql"][:60])
def test_moments_are_written_alike_whatever_wraps_them(both_engines: BothEngines, case: Any) -> None:
    assert both_engines.same(case["sql"])


def test_cases_have_the_same_answer_unless_a_difference_is_known(cases_in_both_engines: BothEngines) -> None:
    texts = [case["sql"] for name in ("constructs", "clients") for case in files.cases(f"bigquery/{name}.jsonl")]
    for text in texts:
        if text not in DIFFERENCES:
            cases_in_both_engines.ask(text)
    found = cases_in_both_engines.comparison
    assert found.different + found.failed == [], found.summary()
    assert found.refused.total() == 0, found.summary()


@pytest.mark.parametrize("text", DIFFERENCES, ids=lambda text: text[:60])
def test_a_known_difference_is_still_one(cases_in_both_engines: BothEngines, text: str) -> None:
    alone = cases_in_both_engines.alone()
    alone.ask(text)
    assert len(alone.comparison.different) == 1, DIFFERENCES[text]
