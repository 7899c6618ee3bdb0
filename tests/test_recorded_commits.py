"""Recorded answers change in commits of their own: which mixes are found, and what is said without a history."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests import recorded_commits
from tests.recorded_commits import RULE, main, mixed_commits

ANSWERS = "tests/cases/recorded/answers.jsonl"


@pytest.fixture(autouse=True)
def own_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Git as it is installed: without anybody's settings, and with no repository above the test's folder."""
    for variable in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(variable, "/dev/null")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    for variable in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):  # of a hook that runs the tests
        monkeypatch.delenv(variable, raising=False)
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "A")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "a@example.org")


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", folder, *arguments], check=True, capture_output=True)


def commit(folder: Path, subject: str, *paths: str) -> None:
    """Commit a new line in each of the files."""
    for path in paths:
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text((file.read_text() if file.exists() else "") + f"{subject}\n")
    git(folder, "add", "--all")
    git(folder, "commit", "--message", subject)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository whose second commit adds the rule; its first one breaks it, which it may."""
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "--initial-branch=main")
    commit(folder, "begun", "endpoints/errors.py", ANSWERS)
    commit(folder, "rule", RULE, "Makefile")
    return folder


@pytest.mark.parametrize(
    "paths",
    [
        (ANSWERS, "endpoints/errors.py"),
        (ANSWERS, "endpoints/new.py"),
        ("tests/cases/recorded_answers.jsonl", "config/settings.py"),
        ("tests/cases/recorded/naïve.txt", "tests/test_docs.py", "logsources/rows.py", "docs/lql.md"),
        (ANSWERS, "endpoints/static/page.js"),
        (ANSWERS, "googlesql/lexer.py"),
    ],
    ids=" ".join,
)
def test_finds_recordings_and_code_in_one_commit(project: Path, paths: tuple[str, ...]) -> None:
    commit(project, "allowed", ANSWERS)
    commit(project, "mixed", *paths)
    commit(project, "after", "README.md")
    (found,) = mixed_commits(project)
    assert found.partition(" ")[2] == "mixed"


@pytest.mark.parametrize(
    "paths",
    [
        (ANSWERS,),
        (ANSWERS, "tests/recorded/test_answers.py", "docs/development.md", "CHANGELOG.md", "Makefile"),
        ("endpoints/errors.py", "tests/cases/attacks.jsonl", "tests/recorded/test_answers.py"),
        ("docs/config/", ANSWERS),
    ],
    ids=" ".join,
)
def test_allows_each_alone(project: Path, paths: tuple[str, ...]) -> None:
    commit(project, "alone", *(path + "page.md" if path.endswith("/") else path for path in paths))
    assert list(mixed_commits(project)) == []


def test_finds_a_mix_that_moves_or_removes_recordings(project: Path) -> None:
    for subject, change in {"moved": ("mv", ANSWERS, "tests/cases/moved.jsonl"), "removed": ("rm", ANSWERS)}.items():
        git(project, "checkout", "--quiet", "-B", subject, "main")
        git(project, *change)
        commit(project, subject, "endpoints/errors.py")
        assert [found.partition(" ")[2] for found in mixed_commits(project)] == [subject]


def test_a_merge_of_both_is_no_mix_but_what_it_merges_is(project: Path) -> None:
    git(project, "checkout", "--quiet", "-b", "side")
    commit(project, "recordings first", ANSWERS)
    commit(project, "then code", "endpoints/errors.py")
    git(project, "checkout", "--quiet", "main")
    commit(project, "meanwhile", "README.md")
    git(project, "merge", "--no-ff", "side")
    assert list(mixed_commits(project)) == []
    git(project, "checkout", "--quiet", "side")
    commit(project, "mixed", ANSWERS, "endpoints/errors.py")
    git(project, "checkout", "--quiet", "main")
    git(project, "merge", "--no-ff", "side")
    assert [found.partition(" ")[2] for found in mixed_commits(project)] == ["mixed"]


def test_says_which_and_fails(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (main(project), capsys.readouterr().out) == (0, "")
    for subject in ("one", "another"):
        commit(project, subject, ANSWERS, "endpoints/errors.py")
    assert main(project) == 1
    said, *titles = capsys.readouterr().out.splitlines()
    assert said.startswith("These commits change recorded answers")
    assert [title.split()[1] for title in titles] == ["another", "one"]


@pytest.mark.parametrize(("depth", "found"), [(1, []), (2, ["mixed"]), (3, ["mixed"]), (9, ["mixed"])])
def test_a_clone_is_read_as_far_as_it_goes(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], depth: int, found: list[str]
) -> None:
    commit(project, "fine", "endpoints/errors.py")
    commit(project, "mixed", ANSWERS, "endpoints/errors.py")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--depth", str(depth), f"file://{project}", str(clone))
    assert [each.partition(" ")[2] for each in mixed_commits(clone)] == found
    assert main(clone) == (1 if found else 0)
    assert ("This clone is shallow" in capsys.readouterr().out) == (depth < 4)


def test_says_what_it_could_not_check(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "archive"
    archive.mkdir()
    inside = project / "vendor"
    inside.mkdir()
    without_rule = tmp_path / "older"
    without_rule.mkdir()
    git(without_rule, "init")
    commit(without_rule, "begun", "README.md")
    for folder, why in {
        archive: "git finds no history here: fatal: not a git repository",
        inside: "these files have no history of their own",
        without_rule: f"no commit has added {RULE} yet",
    }.items():
        assert main(folder) == 0
        assert capsys.readouterr().out.startswith(f"Not checked whether recorded answers change alone: {why}")
    monkeypatch.setenv("PATH", str(archive))
    assert main(project) == 0
    assert "git is not installed here" in capsys.readouterr().out


def test_this_repository_keeps_the_rule() -> None:
    assert main(recorded_commits.PROJECT) == 0
