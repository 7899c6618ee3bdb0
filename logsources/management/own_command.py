"""The commands of this project: help that keeps its examples' lines, and failures in one line of words."""

from __future__ import annotations

import shutil
import textwrap
from argparse import SUPPRESS, ArgumentTypeError, RawDescriptionHelpFormatter
from typing import Any, ClassVar, Final

import psycopg
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, OperationalError

_UNDEFINED_TABLE: Final = "42P01"  # PostgreSQL, appendix A
# A right, role, schema or function that is not there: migrations make them, and a restore may lose them.
_LOST: Final = ("42501", "42704", "3F000", "42883")
_AFTER_A_RESTORE: Final = "If the log database was restored from a dump, run `manage.py repair_logs`."
_NARROWEST, _WIDEST = 60, 120
# Options that Django gives to every command; they work, but would bury a command's own.
_OF_DJANGO: Final = {
    "--version", "--verbosity", "--settings", "--pythonpath", "--traceback", "--no-color", "--force-color",
    "--skip-checks",
}  # fmt: skip


class OwnCommand(BaseCommand):
    """A command with `help`, one paragraph or more, and `examples`, a line each.

    A database that cannot be used, or that has no tables yet, ends it with one line of words.
    """

    examples: ClassVar[tuple[str, ...]] = ()
    suppressed_base_arguments = _OF_DJANGO

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        width = max(_NARROWEST, min(shutil.get_terminal_size().columns, _WIDEST)) - 2
        paragraphs = [textwrap.fill(each, width) for each in self.help.split("\n\n")]
        told = {"description": "\n\n".join(paragraphs), "formatter_class": RawDescriptionHelpFormatter}
        if self.examples:
            title = "example" if len(self.examples) == 1 else "examples"
            told["epilog"] = "\n".join((f"{title}:", *(f"  {line}" for line in self.examples)))
        parser = super().create_parser(prog_name, subcommand, **kwargs)
        for action in parser._actions:  # Django adds --skip-checks past its own list of what is not shown
            if _OF_DJANGO.intersection(action.option_strings):
                action.help = SUPPRESS
        for name, value in told.items():
            setattr(parser, name, value)
        return parser

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except (DatabaseError, psycopg.Error) as error:
            raise _in_words(error) from error


def whole_number(text: str) -> int:
    """Return the value of an option that counts something. Raises ArgumentTypeError, which argparse shows."""
    if not (text.isascii() and text.isdecimal()):
        raise ArgumentTypeError(f"{text!r} is not a whole number from 0")
    return int(text)


def file_failure(error: OSError) -> str:
    """Return what the system says about a file, without its number: No such file or directory: rows.ndjson."""
    what = error.strerror or str(error)
    return f"{what}: {error.filename}" if error.filename is not None else what


def _in_words(error: DatabaseError | psycopg.Error) -> CommandError:
    cause = error if isinstance(error, psycopg.Error) else error.__cause__
    if isinstance(cause, psycopg.Error) and cause.sqlstate == _UNDEFINED_TABLE:
        return CommandError(
            "The databases have no tables yet: run `manage.py migrate` and `manage.py migrate --database logs`, then"
            f" `manage.py load_fixtures`. {_AFTER_A_RESTORE}"
        )
    what = "cannot be used" if isinstance(error, OperationalError | psycopg.OperationalError) else "refused"
    told = f"A database {what}: {' '.join(str(error).split())}"
    is_lost = isinstance(cause, psycopg.Error) and cause.sqlstate in _LOST
    return CommandError(f"{told}. {_AFTER_A_RESTORE}" if is_lost else told)
