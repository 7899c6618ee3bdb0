"""The stored queries that the README and the docs show, as a reader would paste them."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent
from typing import Final

from tests.files import PROJECT

_OF_CONSUMERS: Final = frozenset({"grafana.md"})  # shows the SQL that a consumer sends, in BigQuery's dialect
PAGES: Final = tuple(
    page for page in (PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))) if page.name not in _OF_CONSUMERS
)
# Lines indented by four or more blanks, blank lines among them.
_BLOCK: Final = re.compile(r"(?:^ {4,}\S.*\n|^\n(?= {4,}\S))+", re.MULTILINE)
_FILE_HEADER: Final = re.compile(r".*?^\*/\s*", re.DOTALL | re.MULTILINE)  # of an endpoint's file
_TERMINAL: Final = re.compile(r"\n\s*\$ .*", re.DOTALL)
_QUERY: Final = re.compile(r"(?:select|with)\s", re.IGNORECASE)
_LOG_TABLE: Final = re.compile(r"\bfrom\s+(?:logs\.)?\w+_logs\b", re.IGNORECASE)


def documented_queries() -> list[tuple[str, str]]:
    """Return the page and the SQL of every block that is a query of log tables and nothing else."""
    found = [(page.name, query) for page in PAGES for query in _queries(page)]
    if not found:
        raise AssertionError("no page shows a stored query")
    return found


def _queries(page: Path) -> list[str]:
    blocks = [dedent(block[0]).strip() for block in _BLOCK.finditer(page.read_text(encoding="utf-8"))]
    blocks = [_TERMINAL.sub("", _FILE_HEADER.sub("", block, count=1)).strip() for block in blocks]
    return [block for block in blocks if _QUERY.match(block) and _LOG_TABLE.search(block)]
