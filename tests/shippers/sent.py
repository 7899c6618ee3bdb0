"""What the programs of `programs/` send."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

PROGRAMS: Final = Path(__file__).parent / "programs"
# Equal lines are lines of their own.
LINES: Final = [*(f"line {number}" for number in range(25)), "the same", "the same", "the same", 'a "quoted" Ümlaut']
EXPECTED: Final = Counter(["order placed", *LINES])
