"""The dialect beside GoogleSQL's own engine over the same rows: what both answer is the same."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests import files
from tests.fuzz.bigquery_queries import Queries
from tests.googlesql.conftest import BothEngines

pytestmark = pytest.mark.sql

SEED = 20_251_123


@pytest.mark.timeout(1700)  # twenty thousand texts take ten minutes
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
