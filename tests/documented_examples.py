"""The commands that the README and the docs show, as a reader pastes them into one shell a page."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import dedent
from typing import Final

from tests.files import PROJECT

# Where every page's reader comes from: what it pastes there, the other pages use.
FIRST: Final = "docs/README.md"
# These change the endpoints that ship, and revoke every access token that was never used.
LAST: Final = ("docs/existing-clients.md", "docs/access-tokens.md")
# What no reader of a demo can paste: page, beginning, why.
LEFT_OUT: Final = (
    (r"README\.md", r"make |\.ci/run", "starts the demo, which runs already, or the tests"),
    (r"docs/development\.md", r"", "starts the demo, which runs already, or the tests"),
    (r"docs/production\.md", r"", "is followed on a machine by tests/faults/test_production.py"),
    (
        r"docs/(scaling|sandbox)\.md",
        r"(?!\$? ?curl|python manage\.py check)",
        "names servers of one's own, or a cluster",
    ),
    (r"docs/clients\.md", r"openapi-python-client|npx", "runs a generator: tests/clients runs it"),
    (r"docs/mcp\.md", r"claude ", "needs Claude Code"),
    (r"docs/tracing\.md", r"ENDPOINTS_SPANS=", "needs a collector of spans"),
    (r"docs/calling\.md", r"duckdb ", "needs DuckDB"),
    (r"docs/calling\.md", r".* &$|.*/api/calls/", "cancels a call that would have to be slow"),
    (r"docs/access-tokens\.md", r"curl .*api_key=", "needs ENDPOINTS_API_KEY_IN_ADDRESS"),
)
_PROGRAM: Final = "|".join((
    "curl", "python", "cat", "echo", "printf", "make", "claude", "npx", "openapi-python-client", "duckdb", "export",
    "sed", "docker", "psql", r"\.venv/bin/python", r"\.ci/run",
))  # fmt: skip
_COMMAND: Final = re.compile(rf"(?:\w+=\S* )*(?:\w+=\S*$|\w+=[\"$]|(?:{_PROGRAM})(?= |$))")


@dataclass(frozen=True, slots=True)
class Example:
    """A command of a page, and what the page says that it prints."""

    page: str
    line: int
    command: str
    printed: str = ""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def left_out(self) -> str:
        """Return why it is not run, "" if it is."""
        fitting = (
            why
            for page, beginning, why in LEFT_OUT
            if re.fullmatch(page, self.page) and re.match(beginning, self.command)
        )
        return next(fitting, "")


def pages() -> list[str]:
    """Return the pages that show commands, in the order in which they are followed."""
    names = sorted(str(path.relative_to(PROJECT)) for path in (PROJECT / "docs").glob("*.md"))
    names = [*dict.fromkeys(name for name in [FIRST, "README.md", *names] if name not in LAST), *LAST]
    return [name for name in names if examples(name)]


def examples(page: str) -> list[Example]:
    return [each for first, block in _blocks(page) for each in _commands(page, first, block)]


def _blocks(page: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each indented block that follows a blank line, and the number of its first line."""
    lines = (PROJECT / page).read_text(encoding="utf-8").splitlines()
    block: list[str] = []
    for number, line in enumerate([*lines, "end"], 1):
        if re.match(r" {4}", line) and (block or not lines[number - 2].strip()):
            block.append(line)
        elif block and not line.strip() and re.match(r" {4}", (lines[number:] or [""])[0]):
            block.append("")
        elif block:
            yield number - len(block), dedent("\n".join(block)).splitlines()
            block = []


def _commands(page: str, first: int, block: list[str]) -> Iterator[Example]:
    """Yield the commands after `$ ` with what they print, or the whole block if it begins with a program."""
    if not any(line.startswith("$ ") for line in block):
        if _COMMAND.match(block[0]):
            yield Example(page, first, "\n".join(block))
        return
    number = 0
    while number < len(block):
        start, line = number, block[number]
        number += 1
        if not line.startswith("$ "):
            continue
        command = line.removeprefix("$ ")
        while number < len(block) and (command.endswith("\\") or _is_unfinished(command)):
            command += f"\n{block[number]}"
            number += 1
        printed = []
        while number < len(block) and not block[number].startswith("$ "):
            printed.append(block[number])
            number += 1
        yield Example(page, first + start, command, "\n".join(printed).strip())


def _is_unfinished(command: str) -> bool:
    """Tell whether a shell would ask for another line."""
    ended = subprocess.run(["bash", "-n"], input=f"{command}\n", capture_output=True, text=True, check=False)
    return "unexpected E" in ended.stderr or "delimited by end-of-file" in ended.stderr or command.endswith("|")
