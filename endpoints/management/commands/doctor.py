"""One page about the whole installation: what works, what does not, and what to do about it."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from time import time
from typing import Any, Final

import django
import psycopg
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import CommandError
from django.db import DatabaseError, connections
from django.db.migrations.executor import MigrationExecutor

from config.deadlines import answer_within
from endpoints.cache import CacheUnavailable
from endpoints.cache.connection import ask_for
from endpoints.calling.installation import State, look_at_installation
from endpoints.guarantees import Verdict, verify_guarantees
from logsources.databases import LOGS_ALIAS, owner_connection
from logsources.introspection import partitions_by_table
from logsources.management.own_command import OwnCommand
from logsources.models import LogSource
from logsources.partitions import DAYS_AHEAD, partition_day, utc_day
from logsources.repairing import lost_rights
from logsources.roles import RoleSetupError
from logsources.schema_numbers import told_of_another_version
from logsources.topology import read_topology

CHECK_SECONDS: Final = 5.0
# Redis and PostgreSQL keep times of their own; tokens, partitions and cached results compare them with this machine's.
CLOCK_SECONDS: Final = 2.0
POSTGRESQL: Final = range(15, 19)  # major versions that are tested


class Mark(StrEnum):
    """How a check ended; the value is the word in front of its line."""

    OK = "ok"
    WARNING = "warn"
    FAILURE = "FAIL"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found, in one sentence, and what to do about it unless all is well."""

    name: str
    mark: Mark
    told: str
    to_do: str = ""


class Command(OwnCommand):
    help = (
        "Look at the whole installation and print what works, what does not and what to do about it: databases, "
        "migrations, roles and rights, Redis, worker, beat, the guarantees of the sandbox with PostgreSQL's memory "
        "limit, partitions of the coming days, clocks and versions, the provider of single sign-on. It changes "
        "nothing. The exit status is 1 if something fails; warnings leave it 0."
    )
    examples = ("python manage.py doctor",)
    requires_system_checks = []  # it must run, and tell, where they fail

    def handle(self, *args: Any, **options: Any) -> None:
        findings = list(_tables())
        for finding in findings:
            self._print(finding)
        checks = (_parts, _migrations, _rights, _guarantees, _partitions, _clocks, _versions, _settings)
        # Over tables of another version nothing else can be judged, and its advice would change them.
        for check in () if findings else (*checks, _single_sign_on):
            for finding in _safely(check):
                findings.append(finding)
                self._print(finding)
        failures = sum(finding.mark is Mark.FAILURE for finding in findings)
        warnings = sum(finding.mark is Mark.WARNING for finding in findings)
        if failures:
            raise CommandError(f"{_number(failures, 'check')} failed, {_number(warnings, 'warning')}.")
        self.stdout.write(f"Nothing fails; {_number(warnings, 'warning')}.")

    def _print(self, finding: Finding) -> None:
        style = {Mark.OK: self.style.SUCCESS, Mark.WARNING: self.style.WARNING, Mark.FAILURE: self.style.ERROR}
        self.stdout.write(f"{style[finding.mark](f'{finding.mark:<4}')}  {finding.name}: {finding.told}")
        if finding.to_do:
            self.stdout.write(f"      to do: {finding.to_do}")


def _safely(check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """Yield what a check finds; one that cannot be made, because its database is gone, is left to the others' words."""
    try:
        with answer_within(CHECK_SECONDS):
            yield from check()
    except (psycopg.Error, DatabaseError, CacheUnavailable) as error:
        name = check.__name__.removeprefix("_").capitalize()
        yield Finding(
            name, Mark.FAILURE, f"cannot be looked at: {_line(error)}", "repair what fails above, then look again."
        )


def _tables() -> Iterator[Finding]:
    """Yield each database that has the tables of another version."""
    for alias, name in (("default", "Django database"), (LOGS_ALIAS, "Log database")):
        with suppress(psycopg.Error, DatabaseError), answer_within(CHECK_SECONDS):  # told below
            if told := told_of_another_version(alias):
                yield Finding(name, Mark.FAILURE, told)


def _parts() -> Iterator[Finding]:
    marks = {State.RUNNING: Mark.OK, State.DOWN: Mark.FAILURE}
    addresses = {
        "Django database": "DATABASE_URL",
        "Log database": "LOGS_GATE_URL and LOGS_DATABASE_URL, or after a restore run python manage.py repair_logs",
        "Redis": "REDIS_URL; if it refuses writes, free memory or disk, or name the primary",
    }
    for part in look_at_installation().parts:
        mark = marks.get(part.state, Mark.WARNING)
        variable = addresses.get(part.name)
        to_do = f"start the server, or correct {variable}." if variable and mark is Mark.FAILURE else ""
        yield Finding(part.name, mark, part.told, to_do)


def _migrations() -> Iterator[Finding]:
    for alias in connections:
        executor = MigrationExecutor(connections[alias])
        missing = [
            f"{migration.app_label}.{migration.name}"
            for migration, _ in executor.migration_plan(executor.loader.graph.leaf_nodes())
        ]
        name = f"Migrations of {'the log database' if alias != 'default' else 'Django'}"
        if missing:
            told = f"{_number(len(missing), 'migration')} not applied, the first is {missing[0]}."
            database = "" if alias == "default" else f" --database {alias}"
            yield Finding(name, Mark.FAILURE, told, f"python manage.py migrate{database}")
        else:
            yield Finding(name, Mark.OK, "All are applied.")


def _rights() -> Iterator[Finding]:
    name, told = "Roles and rights in the log database", "As migrations and log sources made them."
    try:
        with owner_connection() as connection:
            lost = [] if read_topology(connection).is_distributed else lost_rights(connection, settings.LOGS_GATE)
    except (RoleSetupError, psycopg.ProgrammingError) as error:  # what only a superuser may mend
        lost = [_line(error)]
    if lost:
        told = f"not as migrations and log sources made them, as after a restore. To be mended: {'; '.join(lost)}."
        yield Finding(name, Mark.FAILURE, told, "python manage.py repair_logs")
    else:
        yield Finding(name, Mark.OK, told)


def _guarantees() -> Iterator[Finding]:
    verdicts = verify_guarantees(costly=True)
    broken = [verdict for verdict in verdicts if not verdict.holds]
    for verdict in broken:
        yield _broken(verdict)
    told = f"{len(verdicts) - len(broken)} of {len(verdicts)} hold, the memory limit of PostgreSQL included."
    if not broken:
        yield Finding("Guarantees of the sandbox", Mark.OK, told)


def _broken(verdict: Verdict) -> Finding:
    guarantee = verdict.guarantee
    mark = Mark.FAILURE if verdict.is_needed else Mark.WARNING
    otherwise = "Sandbox queries are refused." if verdict.is_needed else f"Else an attacker: {guarantee.consequence}"
    found = verdict.findings[0]
    return Finding(
        f"Guarantee {guarantee.name}",
        mark,
        f"does not hold: {found}. {otherwise}",
        "python manage.py repair_logs, which hardens too; then python manage.py check_sandbox shows every finding.",
    )


def _partitions() -> Iterator[Finding]:
    today = utc_day(datetime.now(UTC))
    with owner_connection() as connection:
        partitions = partitions_by_table(connection)
    late: list[str] = []
    names = list(LogSource.objects.order_by("name").values_list("name", flat=True))
    for name in names:
        days = [day for each in partitions.get(name, ()) if (day := partition_day(name, each)) is not None]
        if not days or (max(days) - today).days < 1:
            late.append(name)
    if late:
        told = f"{', '.join(late)}: no partition for tomorrow, so its rows will pile up in the default partition."
        yield Finding(
            "Partitions ahead", Mark.FAILURE, told, "python manage.py roll_partitions; beat does it every hour."
        )
    else:
        told = f"{_number(len(names), 'log source')} ready for tomorrow; partitions are made {DAYS_AHEAD} days ahead."
        yield Finding("Partitions ahead", Mark.OK, told)


def _clocks() -> Iterator[Finding]:
    for name, clock in (
        ("Django's database", _clock_of_django),
        ("Log database", _clock_of_logs),
        ("Redis", _clock_of_redis),
    ):
        asked = time()
        there = clock()
        difference = there - (asked + time()) / 2
        if abs(difference) > CLOCK_SECONDS:
            told = f"{abs(difference):.1f} s {'ahead of' if difference > 0 else 'behind'} this machine."
            yield Finding(f"Clock, {name}", Mark.FAILURE, told, "let every machine keep time by NTP.")
        else:
            yield Finding(f"Clock, {name}", Mark.OK, "as here.")


def _clock_of_django() -> float:
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM clock_timestamp())::float8")
        return float(cursor.fetchone()[0])


def _clock_of_logs() -> float:
    with owner_connection() as connection:
        (found,) = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone() or (0.0,)
        return float(found)


def _clock_of_redis() -> float:
    seconds, microseconds = ask_for("TIME")
    return float(seconds) + float(microseconds) / 1_000_000


def _versions() -> Iterator[Finding]:
    with connections["default"].cursor() as cursor:
        cursor.execute("SHOW server_version_num")
        of_django = int(cursor.fetchone()[0])
    with owner_connection() as connection:
        (of_logs,) = connection.execute("SHOW server_version_num").fetchone() or ("0",)
    for name, number in (("Django's database", of_django), ("Log database", int(of_logs))):
        version = f"PostgreSQL {number // 10_000}.{number % 10_000}"
        if number // 10_000 in POSTGRESQL:
            yield Finding(f"Version, {name}", Mark.OK, f"{version}.")
        else:
            told = f"{version}; {POSTGRESQL[0]} to {POSTGRESQL[-1]} are tested."
            yield Finding(f"Version, {name}", Mark.FAILURE if number // 10_000 < POSTGRESQL[0] else Mark.WARNING, told)
    yield Finding("Version, here", Mark.OK, f"Python {platform.python_version()}, Django {django.get_version()}.")


def _settings() -> Iterator[Finding]:
    if settings.DEBUG:
        yield Finding(
            "Settings", Mark.WARNING, "DEBUG is on: error pages show settings.", "set DEBUG=false in production."
        )
    elif not settings.SECURE_SSL_REDIRECT:
        yield Finding(
            "Settings",
            Mark.WARNING,
            "HTTPS_ONLY is off: access tokens may travel in the clear.",
            "set HTTPS_ONLY=true behind TLS.",
        )
    else:
        yield Finding("Settings", Mark.OK, "DEBUG is off, HTTPS is required.")


def _single_sign_on() -> Iterator[Finding]:
    if not settings.OIDC_ISSUER:
        return
    from endpoints.access.identity_provider import PROVIDER, ProviderUnavailable, fetch_keys  # of the extra `sso`

    try:
        keys = fetch_keys(PROVIDER.metadata())
        yield Finding("Single sign-on", Mark.OK, f"{settings.OIDC_NAME} responds, with {_number(len(keys), 'key')}.")
    except ProviderUnavailable as error:
        to_do = "start the provider, or correct OIDC_ISSUER; passwords work meanwhile."
        yield Finding("Single sign-on", Mark.FAILURE, _line(error), to_do)
    superusers = User.objects.filter(is_superuser=True, is_active=True, identity=None)
    if settings.OIDC_ONLY and not any(person.has_usable_password() for person in superusers):
        told = "OIDC_ONLY is on, and no superuser has a password: if the provider is gone, nobody can log in."
        yield Finding("Single sign-on", Mark.WARNING, told, "python manage.py createsuperuser")


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
