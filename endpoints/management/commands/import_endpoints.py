"""Import every file of a folder as an endpoint: all of them, or none if one is refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from endpoints.defining.transfers import ImportOutcome, ImportResult, import_endpoints
from endpoints.management.failures import one_line_failures
from logsources.management.own_command import OwnCommand, file_failure


class Command(OwnCommand):
    help = (
        "Import every .sql file of a folder, in the form that export_endpoints writes, as the newest version of the "
        "endpoint it names. All files are checked on the log database first; if one is refused, nothing is imported "
        "and the exit code is 1. Endpoints without a file stay."
    )
    examples = (
        "python manage.py import_endpoints stored-queries --dry-run",
        "python manage.py import_endpoints stored-queries",
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", type=Path, metavar="DIR")
        parser.add_argument("--dry-run", action="store_true", help="check, show what would change, and save nothing")

    def handle(self, *args: Any, folder: Path, dry_run: bool, **options: Any) -> None:
        try:
            with one_line_failures():
                results = import_endpoints(folder, dry_run=dry_run)
        except OSError as error:
            raise CommandError(file_failure(error)) from error
        if not results:
            raise CommandError(f"{folder} contains no .sql file.")
        refused = any(result.outcome is ImportOutcome.REFUSED for result in results)
        for result in results:
            self._tell(result, dry_run=dry_run, kept_out=refused and not dry_run)
        if refused:
            verb = "would be" if dry_run else "was"
            raise CommandError(f"Nothing {verb} imported: a file is refused, and all files are imported or none.")

    def _tell(self, result: ImportResult, *, dry_run: bool, kept_out: bool) -> None:
        what = result.told
        if kept_out and result.outcome in (ImportOutcome.CREATED, ImportOutcome.CHANGED):
            what = "not imported"
        name = f", endpoint {result.name}" if result.name else ""
        self.stdout.write(f"{result.file}{name}: {what}")
        for reason in result.reasons:
            self.stdout.write(f"  {reason}")
        if dry_run:
            self._show(result.difference)

    def _show(self, lines: Sequence[str]) -> None:
        """Write a unified diff; Django's styles add colour only on a terminal, and never with --no-color."""
        styles = {"+": self.style.SUCCESS, "-": self.style.ERROR, "@": self.style.HTTP_INFO}
        for number, line in enumerate(lines):
            style = self.style.MIGRATE_HEADING if number < 2 else styles.get(line[:1], str)
            self.stdout.write(style(line))
