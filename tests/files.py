"""Where the project's files are, for tests at any depth of the tree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

PROJECT: Final = Path(__file__).resolve().parents[1]
CASES: Final = PROJECT / "tests" / "cases"
FIXTURES: Final = PROJECT / "fixtures"


def cases(name: str) -> list[Any]:
    """Return what the lines of a file of cases hold, such as "lql.jsonl"."""
    return [json.loads(line) for line in (CASES / name).read_text(encoding="utf-8").splitlines()]
