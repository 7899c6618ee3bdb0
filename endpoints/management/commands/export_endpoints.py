"""Write every endpoint into a folder, one readable file each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from endpoints.defining.transfers import export_endpoints
from endpoints.management.failures import one_line_failures
from logsources.management.own_command import OwnCommand, file_failure


class Command(OwnCommand):
    help = (
        "Write every endpoint into a folder as NAME.sql: a comment with its settings and parameters, then its SQL. "
        "Other files in the folder stay."
    )
    examples = ("python manage.py export_endpoints stored-queries",)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", type=Path, metavar="DIR", help="created if it is missing")

    def handle(self, *args: Any, folder: Path, **options: Any) -> None:
        try:
            with one_line_failures():
                written = export_endpoints(folder)
        except OSError as error:
            raise CommandError(file_failure(error)) from error
        for path in written:
            self.stdout.write(str(path))
