"""What each command says of itself with --help, a hundred columns wide."""

from __future__ import annotations

from typing import Final

import pytest
from django.core.management import get_commands, load_command_class

from tests.recorded.recordings import assert_recorded

# Of the applications whose commands are ours.
COMMANDS: Final = sorted(
    (name, application) for name, application in get_commands().items() if application in ("endpoints", "logsources")
)


def test_commands_have_the_recorded_help(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    lines = []
    for name, application in COMMANDS:
        told = load_command_class(str(application), name).create_parser("manage.py", name).format_help()
        lines += [f"$ manage.py {name} --help", *told.rstrip().splitlines(), ""]
    assert_recorded("help.txt", lines)
