"""Each module's rewrites as pairs of texts, so that a change of what runs is seen; `test_cases` has the rows."""

from __future__ import annotations

import json

import pytest

from googlesql import Column, translate
from logsources.allowed_functions import ALLOWED_FUNCTIONS
from tests.files import CASES, PROJECT

PAIRS = CASES / "bigquery" / "rewrites.jsonl"
COLUMNS = (
    Column("timestamp", "timestamp with time zone", nullable=False),
    Column("id", "uuid", nullable=False),
    Column("event_message", "text"),
    Column("metadata", "jsonb"),
)
TABLES = {"edge_logs": COLUMNS, "auth_logs": COLUMNS}
ALL = [json.loads(line) for line in PAIRS.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(
    "pair", [pytest.param(pair, id=f"{number}-{pair['module']}") for number, pair in enumerate(ALL)]
)
def test_writes(pair):
    translation = translate(pair["bigquery"], TABLES, {}, moments="iso", functions=ALLOWED_FUNCTIONS)
    assert " ".join(piece for piece, _ in translation.pieces) == pair["postgresql"]


def test_has_a_pair_for_every_module_that_rewrites():
    folder = PROJECT / "googlesql" / "rules"
    rules = {f"rules/{path.stem}" for path in folder.glob("*.py") if path.stem != "__init__"}
    assert rules | {"passes", "from_clause", "scopes", "queries", "results"} == {pair["module"] for pair in ALL}
