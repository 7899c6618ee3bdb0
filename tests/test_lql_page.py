"""docs/lql.md is true: every example on it runs over the rows it shows and gives what it says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from endpoints.calling.calls import run_endpoint
from endpoints.calling.query_requests import Call
from endpoints.errors import InvalidLQL

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "lql.md").read_text(encoding="utf-8")
ROWS = [json.loads(line) for line in PAGE.partition("```json\n")[2].partition("```")[0].splitlines()]
CELL = re.compile(r"(?<!\\)\|")


class Example(NamedTuple):
    lql: str
    column: str  # the heading of the last column: rows, result, message or meaning
    told: str


def examples() -> Iterator[Example]:
    heading: list[str] = []
    for line in PAGE.splitlines():
        if not line.startswith("|"):
            heading = []
            continue
        cells = [cell.strip() for cell in CELL.split(line)[1:-1]]
        if not heading:
            heading = cells
        elif heading[0] == "example" and not cells[0].startswith("---"):
            yield Example(cells[0].strip("`").replace(r"\|", "|"), heading[-1], cells[-1].replace(r"\|", "|"))


EXAMPLES = list(examples())


def of(column: str) -> pytest.MarkDecorator:
    chosen = [example for example in EXAMPLES if example.column == column]
    return pytest.mark.parametrize("example", chosen, ids=[example.lql for example in chosen])


@pytest.fixture
def logged(insert_rows) -> None:
    insert_rows("edge_logs", [{**row, "metadata": [row["metadata"]], "project": "docs"} for row in ROWS])


def ask(lql: str) -> list[dict[str, object]]:
    answer = run_endpoint("logs.all", call=Call({"project": "docs"}, sandbox_lql=lql))
    rows: list[dict[str, object]] = json.loads(answer.outcome.body)["result"]
    return rows


@of("rows")
def test_returns_the_rows_it_says(logged, example: Example) -> None:
    told = [] if example.told == "none" else example.told.split(", ")
    assert sorted(str(row["id"]) for row in ask(example.lql)) == told


@of("result")
def test_returns_the_result_it_says(logged, example: Example) -> None:
    told = [json.loads(row) for row in re.findall(r"`([^`]+)`", example.told)]
    assert ask(example.lql) == told


@of("meaning")
def test_reads_relative_times(logged, example: Example) -> None:
    # These rows are years old for every relative time but "until now".
    assert len(ask(example.lql)) == (5 if example.lql == "t:<now" else 0)


@of("message")
def test_refuses_with_the_message_it_says(logged, example: Example) -> None:
    with pytest.raises(InvalidLQL) as refusal:
        ask(example.lql)
    assert refusal.value.message == example.told


def test_shows_examples_of_every_kind() -> None:
    assert {example.column for example in EXAMPLES} == {"rows", "result", "meaning", "message"}
    assert len(EXAMPLES) > 70
