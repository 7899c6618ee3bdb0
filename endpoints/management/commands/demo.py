"""The whole service on one machine, with rows to query: servers, migrations, fixtures, web, worker and beat."""

from __future__ import annotations

import argparse
import os
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psycopg
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import CommandError, CommandParser
from psycopg import sql

from config.embedded import known_urls, local_folder
from config.local import DEMO_ADDRESS, DEMO_PORT, LocalSecrets, ensure_local_secrets, keep_local_secrets
from config.processes import Program, ProgramFailed, run_together
from endpoints.access.access_tokens import authenticate_access_token, issue_access_token
from endpoints.errors import NotAuthenticated
from logsources.databases import LOGS_ALIAS, owner_connection
from logsources.management.own_command import OwnCommand, whole_number
from logsources.models import LogSource
from logsources.schema_numbers import told_of_another_version
from logsources.trickle import trickle

ROWS = 20_000
DAYS = 7
PROJECTS = ("acme", "globex", "initech")
ADMIN = "admin"
LINES = 20
READABLE = "s:timestamp s:event_message"  # LQL: two columns, without the JSON
ROWS_PER_SECOND = 3.0
MOST_ROWS_PER_SECOND = 1000
MOST_NEW_ROWS = 100_000  # nine hours of them, then the demo is quiet
# Older rows will soon leave the window of usage.api-counts (7 days), so the demo makes new ones.
FRESH_FOR = timedelta(days=5)
STANDBYS = """
SELECT application_name, state, coalesce(pg_wal_lsn_diff(sent_lsn, replay_lsn), 0)
FROM pg_stat_replication
ORDER BY application_name
"""


@dataclass(frozen=True, slots=True)
class Login:
    """The secrets that the demo shows its user: the admin's password and an access token."""

    password: str
    access_token: str


class Command(OwnCommand):
    help = (
        "Run the whole service here until Ctrl-C: migrations, log sources, sample rows, an admin login, an access "
        "token, web server, worker and scheduler; then new sample rows each second."
    )
    examples = ("python manage.py demo --port 8000 --rows 20000 --rows-per-second 3 --replicas 1",)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=whole_number, default=DEMO_PORT, help="default: %(default)s")
        parser.add_argument("--rows", type=whole_number, default=ROWS, help="sample rows to make; default: %(default)s")
        parser.add_argument(
            "--rows-per-second",
            type=_rate,
            default=ROWS_PER_SECOND,
            help=f"new sample rows while it runs, at most {MOST_NEW_ROWS:,} in all; 0: none; default: %(default)g",
        )
        # config.local reads it too, and starts them before the settings load.
        parser.add_argument(
            "--replicas", type=whole_number, default=0, help="standbys of the embedded PostgreSQL; default: %(default)s"
        )

    def handle(self, *args: Any, port: int, rows: int, rows_per_second: float, replicas: int, **options: Any) -> None:
        for told in filter(None, map(told_of_another_version, ("default", LOGS_ALIAS))):
            raise CommandError(told)
        root = local_folder(settings.BASE_DIR)
        log_folder = root / "log"
        log_folder.mkdir(parents=True, exist_ok=True)
        for name, database in (("Django", "default"), ("logs", "logs")):
            self.stdout.write(f"Preparing the database of {name} …")
            call_command("migrate", database=database, verbosity=0, interactive=False)
        self.stdout.write("Hardening the database of logs …")
        self._harden()
        self.stdout.write("Loading the log sources and endpoints that ship …")
        made = StringIO()
        call_command("load_fixtures", stdout=made)
        for line in made.getvalue().splitlines():
            if not line.endswith(": exists"):
                self.stdout.write(line)
        newest = self._ensure_rows(rows)
        login = _ensure_login(root)
        base = f"http://{DEMO_ADDRESS}:{port}"
        self.stdout.write("Starting web, worker and beat …")
        try:
            with _new_rows(rows_per_second) as begin:

                def announce() -> None:
                    self.stdout.write(_announcement(base, login, newest, root, replicas=replicas))
                    begin()

                run_together(
                    list(_programs(port, log_folder)),
                    {**os.environ, **_child_environment()},
                    folder=settings.BASE_DIR,
                    report=lambda line: self.stderr.write(line),
                    is_up=lambda: _is_ready(base),
                    announce=announce,
                )
        except ProgramFailed as error:
            raise CommandError(f"The demo has ended: {error}") from error
        self.stdout.write("Stopped.")

    def _harden(self) -> None:
        """Harden the log database; if the superuser is not known here (the user's own servers), say that it is not."""
        try:
            call_command("harden_logs", stdout=StringIO())
        except CommandError as error:
            self.stderr.write(f"The log database is not hardened, so sandbox queries are refused: {error}")

    def _ensure_rows(self, rows: int) -> datetime:
        """Make sample rows unless there are recent ones; return the time of the newest row."""
        newest = _newest_row()
        if newest is None or datetime.now(UTC) - newest > FRESH_FOR:
            self.stdout.write("Making sample rows …")
            call_command("generate_logs", rows=rows, days=DAYS, projects=",".join(PROJECTS))
            newest = _newest_row()
        else:
            self.stdout.write("Sample rows: kept")
        return newest or datetime.now(UTC)


@contextmanager
def _new_rows(rows_per_second: float) -> Iterator[Callable[[], None]]:
    """Yield what begins to load new rows in a thread, which ends with the context."""
    stop = threading.Event()
    how = {"rows_per_second": rows_per_second, "at_most": MOST_NEW_ROWS, "projects": PROJECTS}
    loading = threading.Thread(target=trickle, args=(stop,), kwargs=how, name="new rows", daemon=True)
    try:
        yield loading.start if rows_per_second else lambda: None
    finally:
        stop.set()
        if loading.is_alive():
            loading.join(timeout=5)


def _rate(text: str) -> float:
    with suppress(ValueError):
        if 0 <= (rate := float(text)) <= MOST_ROWS_PER_SECOND:
            return rate
    raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to {MOST_ROWS_PER_SECOND}")


def _newest_row() -> datetime | None:
    names = list(LogSource.objects.values_list("name", flat=True))
    newest: list[datetime] = []
    with owner_connection() as connection:
        for name in names:
            query = sql.SQL("SELECT max(timestamp) FROM {}").format(sql.Identifier("logs", name))
            row = connection.execute(query).fetchone()
            newest += [row[0]] if row is not None and row[0] is not None else []
    return max(newest, default=None)


def _ensure_login(root: Path) -> Login:
    """Create the admin user and an access token if they are missing; both stay the same from run to run."""
    kept = ensure_local_secrets(root)
    users = get_user_model().objects
    admin = users.filter(username=ADMIN).first()
    if admin is None:
        admin = users.create_superuser(username=ADMIN, password=kept.admin_password)
    is_changed = not admin.check_password(kept.admin_password)
    return Login(
        password="(the password you have set)" if is_changed else kept.admin_password,
        access_token=_ensure_access_token(root, kept),
    )


def _ensure_access_token(root: Path, kept: LocalSecrets) -> str:
    try:
        authenticate_access_token(kept.access_token)
    except NotAuthenticated:
        # This is the first run, or the database is gone, or somebody revoked the access token.
        issued = issue_access_token(name="demo")
        keep_local_secrets(root, replace(kept, access_token=issued.secret))
        return issued.secret
    return kept.access_token


def _programs(port: int, log_folder: Path) -> Iterator[Program]:
    web = ["config.serve", "--host", DEMO_ADDRESS, "--port", str(port)]
    celery = ["celery", "-A", "config", "--quiet"]
    for name, command in (
        ("web", web),
        ("worker", [*celery, "worker", "-c", "2", "--loglevel", "INFO"]),
        ("beat", [*celery, "beat"]),
    ):
        yield Program(name=name, arguments=[sys.executable, "-m", *command], log=log_folder / f"{name}.log")


def _child_environment() -> dict[str, str]:
    environment = {"DEBUG": os.environ.get("DEBUG", "false"), "PYTHONUNBUFFERED": "1"}
    if os.geteuid() == 0:
        # The user of the demo chose to be root; the worker need not log a warning at every start.
        environment["PYTHONWARNINGS"] = "ignore:You're running the worker with superuser privileges"
    return environment


def _is_ready(base: str) -> bool:
    try:
        with urllib.request.urlopen(f"{base}/readyz", timeout=2) as answer:  # noqa: S310  # http, on loopback
            return bool(answer.status == 200)
    except OSError:
        return False


def _standby_lines(root: Path) -> list[str]:
    """Say of each standby of the embedded PostgreSQL how it follows, and how to see that at any time."""
    servers = known_urls(root)
    if servers is None or servers.superuser_url is None:
        return []
    with psycopg.connect(servers.superuser_url, autocommit=True) as connection:
        standbys = connection.execute(STANDBYS).fetchall()
    return [
        *(f"Standby: {name} is {state}, {behind} bytes behind" for name, state, behind in standbys),
        "         ps ax | grep '[s]treaming'   shows how far each one is",
    ]


def _announcement(base: str, login: Login, newest: datetime, root: Path, *, replicas: int) -> str:
    window = {
        "iso_timestamp_start": _iso(newest - timedelta(hours=6)),
        "iso_timestamp_end": _iso(newest),
    }
    redact = f"{settings.ENDPOINTS_HEADER_PREFIX}-ENDPOINT-REDACT-PII: true"
    readable = {"project": PROJECTS[0], "lql": READABLE}

    def curl(endpoint: str, arguments: dict[str, str], *headers: str) -> str:
        """Return a line whose answer a person can read: the first rows as CSV, of logs their time and message."""
        every = (f"X-API-KEY: {login.access_token}", "Accept: text/csv", *headers)
        sent = "".join(f" -H '{header}'" for header in every)
        return f"curl -s{sent} '{base}/api/endpoints/query/{endpoint}?{urlencode(arguments)}' | head -n {LINES}"

    return "\n".join(
        [
            "",
            f"Admin:  {base}/admin/   {ADMIN} / {login.password}",
            f"API:    {base}/api/docs",
            f"Logs:   {root / 'log'}",
            *(_standby_lines(root) if replicas else []),
            "",
            "# the newest log rows of a project",
            curl("logs.all", readable),
            "# a time window",
            curl("logs.all", readable | window),
            "# requests a day and API area",
            curl("usage.api-counts", {"interval": "daily", "project": PROJECTS[0]}),
            "# addresses redacted",
            curl("logs.all", readable, redact),
            "",
            "Ctrl-C stops everything.",
        ]
    )


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
