"""Bring log tables of an earlier version into today's shape."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.core.management.base import CommandError, CommandParser
from psycopg import errors

from logsources.databases import owner_connection
from logsources.management.commands.load_logs import find_source
from logsources.management.own_command import OwnCommand
from logsources.models import LogSource
from logsources.table_upgrades import UpgradeRefused, upgrade_steps, upgrade_table


class Command(OwnCommand):
    help = (
        "Bring log tables of an earlier version into today's shape: loads fill the column project in every source, "
        "it is never NULL, and the key is (id, project, timestamp). Run it once every process runs the new version; "
        "loads and queries go on before and meanwhile. You can interrupt it and run it again."
    )
    examples = (
        "python manage.py upgrade_log_tables --dry-run",
        "python manage.py upgrade_log_tables edge_logs",
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "sources", nargs="*", default=[], metavar="SOURCE", help="only these log sources (default: all)"
        )
        parser.add_argument("--dry-run", action="store_true", help="show what would be done, and do nothing")

    def handle(self, *args: Any, sources: list[str], dry_run: bool = False, **options: Any) -> None:
        names = [find_source(name).name for name in sources] or list(LogSource.objects.values_list("name", flat=True))
        steps = 0
        for name in names:
            with _explained_errors(name), owner_connection() as conn:
                steps += self._show(conn, name) if dry_run else upgrade_table(conn, name, report=self._report)
        if not steps:
            self.stdout.write("Nothing to do.")
        elif dry_run:
            self.stdout.write("Nothing was changed.")

    def _show(self, conn: psycopg.Connection[Any], name: str) -> int:
        steps = upgrade_steps(conn, name)
        for step in steps:
            self.stdout.write(f"would do: {step.summary}")
        return len(steps)

    def _report(self, summary: str, seconds: float) -> None:
        self.stdout.write(f"{summary} ({seconds:.1f} s)")


@contextmanager
def _explained_errors(name: str) -> Iterator[None]:
    try:
        yield
    except UpgradeRefused as error:
        raise CommandError(str(error)) from error
    except errors.LockNotAvailable as error:
        raise CommandError(f"{name} is busy with loads or queries. What is done stays done; run it again.") from error
    except errors.DependentObjectsStillExist as error:
        raise CommandError(
            f"Something groups rows by the old key of {name}: {error.diag.message_detail} "
            "Group by the columns that it selects."
        ) from error
    except psycopg.Error as error:
        raise CommandError(
            f"The log database refused to change {name}: {error.diag.message_primary or error}"
        ) from error
