"""The list of seeded faults does not rot: each still applies, and its test is still there. `make faults` runs them."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.seeded_faults.__main__ import main
from tests.seeded_faults.listed import PROJECT, Fault, read_faults, selected

FAULTS = read_faults()
PRODUCT = ("config", "endpoints", "googlesql", "logsources")
# Rooms that a person, or another program, can be harmed by; each has at least so many faults.
ROOMS = {
    "access", "api", "cache", "calling", "defining", "dialects", "log_database", "logsources", "lql", "results", "sql",
}  # fmt: skip
LEAST = 4


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.title)
def test_a_fault_applies_and_stays_python(fault: Fault) -> None:
    text = fault.apply((PROJECT / fault.file).read_text(encoding="utf-8"))
    assert fault.file.startswith(PRODUCT)
    assert fault.old != fault.new
    ast.parse(text)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.title)
def test_the_test_of_a_fault_is_there(fault: Fault) -> None:
    tree = ast.parse((PROJECT / fault.test_file).read_text(encoding="utf-8"))
    assert fault.test_function in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_room_has_faults_of_its_own() -> None:
    counts = Counter(fault.room for fault in FAULTS)
    assert counts.keys() == ROOMS
    assert min(counts.values()) >= LEAST


def test_titles_are_unique_and_every_harm_is_a_sentence() -> None:
    assert [title for title, count in Counter(fault.title for fault in FAULTS).items() if count > 1] == []
    assert [fault.title for fault in FAULTS if not (fault.harm[0].isupper() or fault.harm[0] == "`")] == []
    assert [fault.title for fault in FAULTS if not fault.harm.endswith(".")] == []


@pytest.mark.parametrize("text", ["", "limit = 1\nlimit = 1"])
def test_a_text_that_is_not_there_once_is_refused(text: str) -> None:
    fault = Fault("room", "name", "Harm.", "file.py", old="limit = 1", new="limit = 2", test="tests/test_x.py::test_x")
    with pytest.raises(ValueError, match=r"times in file\.py, not once"):
        fault.apply(text)
    assert fault.apply("limit = 1") == "limit = 2"


def test_an_entry_with_another_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sql.toml").write_text('[[fault]]\nname = "x"\nhint = "y"\n')
    with pytest.raises(ValueError, match=r"sql\.toml: x needs file, harm, name, new, old, test"):
        read_faults(tmp_path)


def test_faults_are_chosen_by_room_and_name(capsys: pytest.CaptureFixture[str]) -> None:
    titles = [fault.title for fault in selected(FAULTS, ["cache/", "sql/no-spare"])]
    assert "sql/no-spare-row" in titles
    assert {title.partition("/")[0] for title in titles} == {"cache", "sql"}
    assert main(["-k", "sql/no-spare-row", "--list"]) == 0
    assert capsys.readouterr().out.startswith("sql/no-spare-row: A result that max_rows has cut ")


def test_a_word_that_chooses_nothing_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["-k", "no such fault"])
    assert "no fault has no such fault in its room or name" in capsys.readouterr().err
