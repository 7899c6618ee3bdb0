"""docs/clients.md shows lines of the programs that the tests of generated clients check and run."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.files import PROJECT

PAGE: Final = (PROJECT / "docs" / "clients.md").read_text(encoding="utf-8")
PROGRAMS: Final = PROJECT / "tests" / "clients" / "programs"


@pytest.mark.parametrize(("heading", "program"), [("Python", "every_endpoint.py"), ("TypeScript", "every_endpoint.ts")])
def test_shows_lines_of_the_program(heading: str, program: str) -> None:
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    shown = [line.strip() for line in re.findall(r"^ {4}(?!\$)(.+)$", section, re.MULTILINE)]
    there = {line.strip() for line in (PROGRAMS / program).read_text(encoding="utf-8").splitlines()}
    assert len(shown) > 5
    assert [line for line in shown if line not in there] == []
