"""Harden the log database, or undo it; needs a superuser of PostgreSQL once."""

from __future__ import annotations

from typing import Any

import psycopg
from django.core.management.base import CommandError, CommandParser
from django.db import connections

from logsources.databases import LOGS_ALIAS
from logsources.hardening import (
    HardeningError,
    LogRoles,
    harden,
    plan_hardening,
    plan_undo,
    undo_hardening,
)
from logsources.management.own_command import OwnCommand
from logsources.management.superuser import find_superuser_url, log_roles


class Command(OwnCommand):
    help = (
        "Remove PUBLIC's rights on the catalogs and functions of the log database, and give the readers only what "
        "sandbox queries and stored queries need. Run it after `migrate --database logs`, the first one and those of "
        "upgrades, and after a major upgrade of PostgreSQL or a new extension; run it with --undo before pg_upgrade. "
        "It needs a superuser, and knows the embedded server's. manage.py check_sandbox then shows which guarantees "
        "hold."
    )
    examples = (
        "python manage.py harden_logs --dry-run",
        "LOGS_SUPERUSER_URL=postgresql://postgres:…@db/logs python manage.py harden_logs",
        "python manage.py harden_logs --undo",
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--superuser-url",
            metavar="URL",
            help="a superuser of the log database's server; default: LOGS_SUPERUSER_URL, else the embedded server's",
        )
        parser.add_argument("--undo", action="store_true", help="give PUBLIC back the rights that hardening took")
        parser.add_argument("--dry-run", action="store_true", help="show what would be done, and do nothing")

    def handle(
        self, *args: Any, superuser_url: str | None = None, undo: bool = False, dry_run: bool = False, **options: Any
    ) -> None:
        database = str(connections[LOGS_ALIAS].settings_dict["NAME"])
        roles = log_roles()
        try:
            with psycopg.connect(find_superuser_url(superuser_url), dbname=database, autocommit=True) as connection:
                if dry_run:
                    self._tell(connection, roles, undo=undo)
                elif undo:
                    self._finish(undo_hardening(connection, roles, report=self._report), "The hardening is undone.")
                else:
                    steps = harden(connection, roles, report=self._report)
                    self._finish(steps, f"The log database {database} is hardened.")
        except (HardeningError, psycopg.Error) as error:
            raise CommandError(" ".join(str(error).split())) from error

    def _tell(self, connection: psycopg.Connection[Any], roles: LogRoles, *, undo: bool) -> None:
        steps = plan_undo(connection, roles) if undo else plan_hardening(connection, roles)
        for step in steps:
            self.stdout.write(f"would do: {step.summary}")
        self._finish(len(steps), "Nothing was changed.")

    def _report(self, summary: str, seconds: float) -> None:
        self.stdout.write(f"{summary} ({seconds:.1f} s)")

    def _finish(self, steps: int, sentence: str) -> None:
        self.stdout.write(sentence if steps else "Nothing to do.")
