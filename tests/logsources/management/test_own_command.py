"""What every command of the project has: help that can be read, and failures in words."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command, get_commands, load_command_class
from django.db import ProgrammingError

from logsources.management import own_command
from logsources.management.own_command import OwnCommand
from tests.files import PROJECT


def own_commands() -> Iterator[str]:
    yield from sorted(name for name, app in get_commands().items() if app in ("endpoints", "logsources"))


@pytest.mark.parametrize("name", list(own_commands()))
def test_help_shows_examples_on_lines_of_their_own(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    command = load_command_class(get_commands()[name], name)
    assert isinstance(command, OwnCommand)
    told = command.create_parser("manage.py", name).format_help()
    assert command.examples
    for example in command.examples:
        assert f"\n  {example}\n" in told
        assert f"manage.py {name}" in example
    assert "--pythonpath" not in told
    assert "--skip-checks" not in told
    assert importlib.import_module(f"{get_commands()[name]}.management.commands.{name}").__doc__


class Failing(OwnCommand):
    """Raises what it is given."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def handle(self, *args: object, **options: object) -> None:
        raise self.error


def test_a_refusal_of_a_database_is_one_line() -> None:
    with pytest.raises(CommandError, match="^A database refused: relation\nof".replace("\n", " ")):
        call_command(Failing(ProgrammingError("relation\n of")))


def test_databases_without_tables_are_told_how_to_be_made() -> None:
    error = ProgrammingError("relation does not exist")
    error.__cause__ = own_command.psycopg.errors.UndefinedTable("relation does not exist")
    with pytest.raises(CommandError, match=r"run `manage\.py migrate`"):
        call_command(Failing(error))


def test_a_missing_file_is_told_without_numbers_of_the_system() -> None:
    with pytest.raises(FileNotFoundError) as missing:
        Path("/nowhere/rows.ndjson").read_text(encoding="utf-8")
    assert own_command.file_failure(missing.value) == "No such file or directory: /nowhere/rows.ndjson"
    assert own_command.file_failure(OSError("damaged")) == "damaged"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["roll_partitions", "--days-ahead", "x"], "'x' is not a number of days from 0"),
        (["generate_logs", "--rows", "many"], "'many' is not a whole number from 0"),
        (["generate_logs", "--days", "few"], "'few' is not a number of days"),
        (["revoke_access_token"], "the following arguments are required: NAME-OR-ID\n"),
        (["demo", "--rows", "-3"], "'-3' is not a whole number from 0"),
        (["demo", "--rows-per-second", "many"], "'many' is not a whole number from 0"),
        (["run_query"], "the following arguments are required: endpoint\n"),
    ],
)
def test_a_wrong_option_is_told_in_words(arguments: list[str], message: str) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments], cwd=PROJECT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 2
    assert message in done.stderr
