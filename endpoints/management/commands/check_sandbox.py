"""Print the guarantees of the log database about sandbox queries, and what an attacker gets if one fails."""

from __future__ import annotations

from typing import Any

import psycopg
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError

from endpoints.guarantees import SandboxLevel, Verdict, accepted_level, verify_guarantees
from endpoints.management.failures import one_line_failures
from logsources.management.own_command import OwnCommand

_MARKS = {SandboxLevel.ROW_SECURITY: "row_security", SandboxLevel.FULL: "full", SandboxLevel.ADVICE: "advice"}


class Command(OwnCommand):
    help = (
        "Ask the log database what the readers can do there. Print each guarantee with pass or FAIL and, if it "
        "fails, what an attacker who got past the checker would get. If the accepted level needs a guarantee that "
        "fails, the command exits with 1, and the service refuses sandbox queries. ENDPOINTS_SANDBOX_LEVEL is that "
        "level: full, or row_security if there is no superuser."
    )
    examples = ("python manage.py check_sandbox",)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            level = accepted_level()
            with one_line_failures():
                verdicts = verify_guarantees(costly=True)
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from error
        except psycopg.Error as error:
            raise CommandError(f"The log database cannot be asked: {' '.join(str(error).split())}") from error
        for verdict in verdicts:
            self._print(verdict)
        connections = 2 * settings.ENDPOINTS_POOL_SIZE
        self.stdout.write(
            f"Two web processes with full pools use {connections} server processes of the log database. Together they"
            f" may take {connections} times the memory limit of one: {connections} GiB if it is 1 GiB."
        )
        failed = [verdict for verdict in verdicts if not verdict.holds and verdict.is_needed]
        passed = sum(verdict.holds for verdict in verdicts)
        self.stdout.write(f"{passed} of {len(verdicts)} guarantees hold; level {_MARKS[level]} is accepted.")
        if failed:
            raise CommandError(
                f"Sandbox queries are refused: {len(failed)} required guarantees fail. "
                "manage.py repair_logs sets up most of them, and hardens the log database if it knows a superuser."
            )

    def _print(self, verdict: Verdict) -> None:
        guarantee = verdict.guarantee
        mark = "pass" if verdict.holds else "FAIL"
        self.stdout.write(f"{mark}  {_MARKS[guarantee.level]:<12}  {guarantee.name}: {guarantee.promise}")
        for finding in verdict.findings:
            self.stdout.write(f"      found: {finding}")
        if not verdict.holds:
            self.stdout.write(f"      else an attacker: {guarantee.consequence}")
