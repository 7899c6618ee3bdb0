"""The cases of the dialect beside GoogleSQL's own engine, and the differences between both that are known."""

from __future__ import annotations

import pytest

from tests import files
from tests.googlesql.conftest import BothEngines

pytestmark = pytest.mark.sql

# Texts over the rows of the cases, with the reason why their answers differ.
DIFFERENCES = {case["sql"]: case["reason"] for case in files.cases("bigquery/differences.jsonl")}


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
