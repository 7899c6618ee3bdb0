"""The whole service on one machine, with rows to query: servers, migrations, fixtures, web, worker and beat."""

from __future__ import annotations

import argparse
import os
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import CommandError, CommandParser

from config.embedded.state import Secrets, keep, load_secrets
from config.local import DEMO_ADDRESS, DEMO_PORT
from config.processes import Program, ProgramEnded, run_together
from endpoints.access.access_tokens import authenticate_access_token, issue_access_token
from endpoints.errors import NotAuthenticated
from logsources.databases import LOGS_ALIAS, owner_connection
from logsources.management.own_command import OwnCommand, whole_number
from logsources.measures import newest_rows
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
        root = settings.LOCAL_DIR
        (root / "log").mkdir(parents=True, exist_ok=True)
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
        password, access_token = _ensure_login(root)
        base = f"http://{DEMO_ADDRESS}:{port}"
        self.stdout.write("Starting web, worker and beat …")
        stop = threading.Event()
        how = {"rows_per_second": rows_per_second, "at_most": MOST_NEW_ROWS, "projects": PROJECTS}
        new_rows = threading.Thread(target=trickle, args=(stop,), kwargs=how, name="new rows", daemon=True)

        def announce() -> None:
            lines = [
                f"\nAdmin:  {base}/admin/   {ADMIN} / {password}",
                f"API:    {base}/api/docs",
                f"Logs:   {root / 'log'}",
                *(["Standbys: ps ax | grep '[s]treaming'   shows how far each one is"] if replicas else []),
                "",
                *_lines_to_paste(base, access_token, newest),
                "\nCtrl-C stops everything.",
            ]
            self.stdout.write("\n".join(lines))
            if rows_per_second:
                new_rows.start()

        try:
            run_together(_programs(port, root / "log"), settings.BASE_DIR, lambda: _is_ready(base), announce)
        except ProgramEnded as error:
            raise CommandError(f"The demo has ended: {error}") from error
        finally:
            stop.set()
            if new_rows.is_alive():
                new_rows.join(timeout=5)
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


def _rate(text: str) -> float:
    with suppress(ValueError):
        if 0 <= (rate := float(text)) <= MOST_ROWS_PER_SECOND:
            return rate
    raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to {MOST_ROWS_PER_SECOND}")


def _newest_row() -> datetime | None:
    names = list(LogSource.objects.values_list("name", flat=True))
    with owner_connection() as connection:
        return max(filter(None, newest_rows(connection, names).values()), default=None)


def _ensure_login(root: Path) -> tuple[str, str]:
    """Create the admin user and an access token if they are missing, and return the password and the secret to show.

    Both stay the same from run to run.
    """
    kept = load_secrets(root) or Secrets()  # none yet beside servers of the user's own
    users = get_user_model().objects
    admin = users.filter(username=ADMIN).first()
    if admin is None:
        admin = users.create_superuser(username=ADMIN, password=kept.admin_password)
    is_changed = not admin.check_password(kept.admin_password)
    try:
        authenticate_access_token(kept.access_token)
    except NotAuthenticated:
        # This is the first run, or the database is gone, or somebody revoked the access token.
        kept = replace(kept, access_token=issue_access_token(name="demo").secret)
    keep(root, kept)
    return "(the password you have set)" if is_changed else kept.admin_password, kept.access_token


def _programs(port: int, log_folder: Path) -> list[Program]:
    celery = ("celery", "-A", "config", "--quiet")
    commands = {
        "web": ("config.serve", "--host", DEMO_ADDRESS, "--port", str(port)),
        "worker": (*celery, "worker", "-c", "2", "--loglevel", "INFO"),
        "beat": (*celery, "beat"),
    }
    environment = {**os.environ, "DEBUG": os.environ.get("DEBUG", "false"), "PYTHONUNBUFFERED": "1"}
    if os.geteuid() == 0:
        # The user of the demo chose to be root; the worker need not log a warning at every start.
        environment["PYTHONWARNINGS"] = "ignore:You're running the worker with superuser privileges"
    return [
        Program(name, (sys.executable, "-m", *command), environment, log_folder / f"{name}.log")
        for name, command in commands.items()
    ]


def _is_ready(base: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(f"{base}/readyz", timeout=2) as answer:  # noqa: S310  # http
        return bool(answer.status == 200)
    return False


def _lines_to_paste(base: str, access_token: str, newest: datetime) -> Iterator[str]:
    """Yield lines whose answers a person can read: the first rows as CSV, of logs their time and message."""
    readable = {"project": PROJECTS[0], "lql": READABLE}
    window = {"iso_timestamp_start": _iso(newest - timedelta(hours=6)), "iso_timestamp_end": _iso(newest)}
    counts = {"interval": "daily", "project": PROJECTS[0]}
    redact = f"{settings.ENDPOINTS_HEADER_PREFIX}-ENDPOINT-REDACT-PII: true"
    for title, endpoint, arguments, *headers in (
        ("the newest log rows of a project", "logs.all", readable),
        ("a time window", "logs.all", readable | window),
        ("requests a day and API area", "usage.api-counts", counts),
        ("addresses redacted", "logs.all", readable, redact),
    ):
        sent = "".join(f" -H '{each}'" for each in (f"X-API-KEY: {access_token}", "Accept: text/csv", *headers))
        yield f"# {title}"
        yield f"curl -s{sent} '{base}/api/endpoints/query/{endpoint}?{urlencode(arguments)}' | head -n {LINES}"


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
