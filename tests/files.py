"""Where the project's files are, for tests at any depth of the tree."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).resolve().parents[1]
CASES: Final = PROJECT / "tests" / "cases"
FIXTURES: Final = PROJECT / "fixtures"
