"""Distribute the log tables over a Citus cluster, and harden every node of it."""

from __future__ import annotations

import time
from typing import Any

import psycopg
from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.db import connections
from psycopg.conninfo import make_conninfo

from logsources.databases import LOGS_ALIAS, owner_connection
from logsources.distribution import DistributionError, open_cluster, plan_distribution
from logsources.hardening import HardeningError
from logsources.management.own_command import OwnCommand
from logsources.management.superuser import find_superuser_url, log_roles
from logsources.roles import RoleSetupError


class Command(OwnCommand):
    help = (
        "Distribute the log tables by project over the workers of a Citus cluster, and harden every node. Run it "
        "once the nodes are joined (docs/scaling.md), and again after a node was added: it does what is missing. "
        "Calls get 503 while it runs for the first time; loads wait for the table that is being distributed. It "
        "needs a superuser, by the same name and password on every node. There is no way back to one server but to "
        "load the rows anew."
    )
    examples = (
        "python manage.py distribute_logs --dry-run",
        "LOGS_SUPERUSER_URL=postgresql://postgres:…@coordinator/logs python manage.py distribute_logs",
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--superuser-url",
            metavar="URL",
            help="a superuser of the coordinator, and of every worker; default: LOGS_SUPERUSER_URL",
        )
        parser.add_argument("--dry-run", action="store_true", help="show what would be done, and do nothing")

    def handle(self, *args: Any, superuser_url: str | None = None, dry_run: bool = False, **options: Any) -> None:
        owner = connections[LOGS_ALIAS].settings_dict
        roles = log_roles()
        url = make_conninfo(find_superuser_url(superuser_url), dbname=str(owner["NAME"]))
        try:
            with owner_connection() as connection, open_cluster(url, connection, roles, settings.LOGS_GATE) as cluster:
                steps = plan_distribution(cluster)
                for number, step in enumerate(steps, start=1):
                    if dry_run:
                        self.stdout.write(f"would do: {step.summary}")
                        continue
                    started = time.monotonic()
                    step.take()
                    self.stdout.write(f"{number}/{len(steps)} {step.summary} ({time.monotonic() - started:.1f} s)")
        except (DistributionError, HardeningError, RoleSetupError, psycopg.Error) as error:
            raise CommandError(" ".join(str(error).split())) from error
        done = f"The log database is distributed over {len(cluster.workers)} workers."
        self.stdout.write("Nothing was changed." if dry_run else f"{done} Now run manage.py check_sandbox.")
