"""No commit changes recorded answers and product code at once: `python -m tests.recorded_commits` fails if one does.

A commit that changes `tests/cases/recorded…` alone, with words that say why, shows what callers get otherwise from now
on; beside code it would look like part of the work. The rule holds for all commits since the one that added this file;
a merge repeats what its commits say and is not looked at.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).resolve().parent.parent
RULE: Final = "tests/recorded_commits.py"
RECORDED: Final = "tests/cases/recorded"  # a folder, or files that begin so
PRODUCT: Final = ("config/", "endpoints/", "logsources/", "googlesql/")
_COMMIT: Final = "commit "  # no path of the repository begins so


class NothingToRead(Exception):
    """There is no history in which the rule could be looked for; the message says why."""


def mixed_commits(project: Path) -> Iterator[str]:
    """Yield hash and subject of each commit that breaks the rule, newest first. Raises NothingToRead."""
    wanted = ("--no-merges", "--no-renames", "--name-only", f"--format={_COMMIT}%h %s", *_since(project))
    for commit in filter(None, _git(project, "log", *wanted).split(f"\n{_COMMIT}")):
        title, *paths = commit.removeprefix(_COMMIT).splitlines()
        if any(path.startswith(RECORDED) for path in paths) and any(path.startswith(PRODUCT) for path in paths):
            yield title


def _since(project: Path) -> tuple[str, ...]:
    """Return which commits the rule holds for, in git's words."""
    try:
        top = Path(_git(project, "rev-parse", "--show-toplevel"))
    except FileNotFoundError as error:
        raise NothingToRead("git is not installed here") from error
    except subprocess.CalledProcessError as error:
        raise NothingToRead(f"git finds no history here: {error.stderr.strip().splitlines()[0]}") from error
    if top != project:
        raise NothingToRead("these files have no history of their own")
    added = _git(project, "log", "--diff-filter=A", "--format=%H", "--", RULE).splitlines()
    if not added:
        raise NothingToRead(f"no commit has added {RULE} yet")
    return ("HEAD", f"^{added[-1]}", *(f"^{commit}" for commit in _cut_off(project)))


def _cut_off(project: Path) -> list[str]:
    """Return the oldest commits of a shallow clone: they look as if they had added every file."""
    file = project / _git(project, "rev-parse", "--git-path", "shallow")
    return file.read_text(encoding="ascii").split() if file.exists() else []


def _git(project: Path, *arguments: str) -> str:
    command = ["git", "-c", "core.quotePath=false", "-C", str(project), *arguments]
    return subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout.strip()


def main(project: Path) -> int:
    """Say which commits break the rule, or what was not checked; return the code that the process ends with."""
    try:
        mixed = list(mixed_commits(project))
        if _cut_off(project):
            _say("This clone is shallow: older commits were not checked for recorded answers beside code.")
    except NothingToRead as reason:
        _say(f"Not checked whether recorded answers change alone: {reason}.")
        return 0
    if not mixed:
        return 0
    _say("These commits change recorded answers (tests/cases/recorded…) and product code; make two of each:")
    _say("\n".join(f"  {title}" for title in mixed))
    return 1


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main(PROJECT))
