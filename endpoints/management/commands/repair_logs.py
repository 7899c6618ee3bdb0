"""Repair what a restore of the databases has lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any, Final

import psycopg
from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.db import connections
from psycopg import sql

from endpoints.defining.upkeep import drop_old_sandbox_schemas
from endpoints.errors import EndpointError
from endpoints.guarantees import SandboxLevel, accepted_level
from endpoints.log_database.publishing import PublishingError, publish_sandbox, published_schemas, sandbox_schema
from endpoints.models import Endpoint
from logsources.databases import LOGS_ALIAS, owner_connection
from logsources.hardening import HardeningError, harden, remaining_steps
from logsources.management.own_command import OwnCommand
from logsources.management.superuser import find_superuser_url, log_roles
from logsources.models import LogSource
from logsources.repairing import plan_handing_back, repair_rights
from logsources.roles import RoleSetupError
from logsources.schema_numbers import told_of_another_log_schema
from logsources.services import SourceTableError, save_source, table_shape
from logsources.table_changes import read_shape
from logsources.topology import read_topology

BY_A_SUPERUSER: Final = "LOGS_SUPERUSER_URL=postgresql://postgres:…@db/logs python manage.py repair_logs"


class Command(OwnCommand):
    help = (
        "Repair what a restore from dumps can lose, and print each change: roles, settings of the gate, rights, "
        "functions, row policies, missing log tables, sandbox schemas, and, if a superuser is known, owners and the "
        "hardening. Run it after each restore. It changes no row and nothing that is in order; you can run it again."
    )
    examples = ("python manage.py repair_logs", BY_A_SUPERUSER)

    def add_arguments(self, parser: CommandParser) -> None:
        told = "a superuser of the log database's server; default: LOGS_SUPERUSER_URL, else the embedded server's"
        parser.add_argument("--superuser-url", metavar="URL", help=told)

    def handle(self, *args: Any, superuser_url: str | None = None, **options: Any) -> None:
        with suppress(CommandError):  # without one the owner repairs what it may
            superuser_url = find_superuser_url(superuser_url)
        last = "Nothing to do."
        try:
            for change in _repair(superuser_url):
                self.stdout.write(change)
                last = "Repaired. Now run manage.py check_sandbox."
        except psycopg.errors.InsufficientPrivilege as error:
            told = f"The owner of the log database may not repair it: {error.diag.message_primary}."
            raise CommandError(f"{told} A superuser may: {BY_A_SUPERUSER}") from error
        except (EndpointError, HardeningError, RoleSetupError, SourceTableError) as error:
            raise CommandError(" ".join(str(error).split())) from error
        self.stdout.write(last)


def _repair(superuser_url: str | None) -> Iterator[str]:
    """Repair in the order in which one thing needs the other, and yield each change in words."""
    database, roles = str(connections[LOGS_ALIAS].settings_dict["NAME"]), log_roles()
    with ExitStack() as stack:
        if superuser_url:
            superuser = stack.enter_context(psycopg.connect(superuser_url, dbname=database, autocommit=True))
            _refuse(superuser)
            for step in plan_handing_back(superuser, roles):
                for statement in step.statements:
                    superuser.execute(statement)
                yield step.summary
        # Not before: without its database it may not even connect.
        owner = stack.enter_context(owner_connection())
        _refuse(owner)
        yield from repair_rights(owner, settings.LOGS_GATE)
        for source in [each for each in LogSource.objects.all() if read_shape(owner, each.name) is None]:
            save_source(source, table_shape(source).columns)
            yield f"log table created: {source.name}"
        yield from _close_service_database(roles.gate)
        if superuser_url:
            hardened: list[str] = []
            harden(superuser, roles, report=lambda summary, seconds: hardened.append(summary))
            yield from hardened
        yield from _publish_sandboxes()
        if not superuser_url and accepted_level() is SandboxLevel.FULL and (left := remaining_steps(owner, roles)):
            told = "Sandbox queries need what only a superuser can do: "
            raise CommandError(f"{told}{'; '.join(step.summary for step in left)}. {BY_A_SUPERUSER}")


def _refuse(conn: psycopg.Connection[Any]) -> None:
    """Raise CommandError for a log database that this command must not change."""
    if told := told_of_another_log_schema(conn):
        raise CommandError(told)
    if read_topology(conn).is_distributed:
        raise CommandError("The log database is a cluster: manage.py distribute_logs repairs its nodes.")


def _close_service_database(gate: str) -> Iterator[str]:
    with connections["default"].cursor() as cursor:
        cursor.execute(
            "SELECT datname FROM pg_database WHERE datname = current_database() AND pg_has_role(datdba, 'USAGE')"
            " AND has_database_privilege(%s, oid, 'CONNECT')",
            [gate],
        )
        for (name,) in cursor.fetchall():
            cursor.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(sql.Identifier(name)))
            yield f"database {name}: closed to PUBLIC"


def _publish_sandboxes() -> Iterator[str]:
    before = {schema.name: schema.published_at for schema in published_schemas()}
    versions = {sandbox_schema(one): one for one in map(Endpoint.as_version, Endpoint.objects.filter(sandboxing=True))}
    for version in versions.values():
        try:
            publish_sandbox(version)
        except PublishingError as error:  # as without a table of its own that the stored query reads
            yield f"sandbox schema not published: {version.name}: {error.message}"
    for schema in published_schemas():
        if schema.name in versions and before.get(schema.name) != schema.published_at:
            yield f"sandbox schema published: {versions[schema.name].name}"
    if dropped := drop_old_sandbox_schemas():
        yield f"sandbox schemas of older versions dropped: {dropped}"
