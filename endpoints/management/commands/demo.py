"""The whole service on one machine, with rows to query: servers, migrations, fixtures, web, worker and beat."""

from __future__ import annotations

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
from config.processes import run_together
from endpoints.access.access_tokens import authenticate_access_token, issue_access_token
from endpoints.errors import NotAuthenticated
from logsources.databases import LOGS_ALIAS, owner_connection
from logsources.management.own_command import OwnCommand, whole_number
from logsources.measures import newest_rows
from logsources.models import LogSource
from logsources.schema_numbers import told_of_another_version
from logsources.trickle import trickle

PROJECTS = ("acme", "globex", "initech")
ADMIN = "admin"
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
        parser.add_argument(
            "--rows", type=whole_number, default=20_000, help="sample rows to make; default: %(default)s"
        )
        parser.add_argument(
            "--rows-per-second", type=whole_number, default=3,
            help=f"new sample rows while it runs, at most {MOST_NEW_ROWS:,} in all; 0: none; default: %(default)s",
        )  # fmt: skip
        # config.local reads it too, and starts them before the settings load.
        parser.add_argument(
            "--replicas", type=whole_number, default=0, help="standbys of the embedded PostgreSQL; default: %(default)s"
        )

    def handle(self, *args: Any, port: int, rows: int, rows_per_second: int, replicas: int, **options: Any) -> None:
        for told in filter(None, map(told_of_another_version, ("default", LOGS_ALIAS))):
            raise CommandError(told)
        logs = settings.LOCAL_DIR / "log"
        logs.mkdir(parents=True, exist_ok=True)
        newest = self._prepare(rows)
        password, access_token = _ensure_login(settings.LOCAL_DIR)
        base = f"http://{DEMO_ADDRESS}:{port}"
        self.stdout.write("Starting web, worker and beat …")
        stop = threading.Event()
        how = {"rows_per_second": rows_per_second, "at_most": MOST_NEW_ROWS, "projects": PROJECTS}
        new_rows = threading.Thread(target=trickle, args=(stop,), kwargs=how, name="new rows", daemon=True)

        def announce() -> bool:
            if not _is_ready(base):
                return False
            lines = [
                f"\nAdmin:  {base}/admin/   {ADMIN} / {password}",
                f"API:    {base}/api/docs",
                f"Logs:   {logs}",
                *(["Standbys: ps ax | grep '[s]treaming'   shows how far each one is"] if replicas else []),
                "",
                *_lines_to_paste(base, access_token, newest),
                "\nCtrl-C stops everything.",
            ]
            self.stdout.write("\n".join(lines))
            if rows_per_second:
                new_rows.start()
            return True

        os.chdir(settings.BASE_DIR)  # where the programs are found
        celery = (sys.executable, "-m", "celery", "-A", "config", "--quiet")
        programs = {
            "web": (sys.executable, "-m", "config.serve", "--host", DEMO_ADDRESS, "--port", str(port)),
            "worker": (*celery, "worker", "-c", "2", "--loglevel", "INFO"),
            "beat": (*celery, "beat"),
        }
        try:
            ended = run_together(programs, {**os.environ, "PYTHONUNBUFFERED": "1"}, logs, announce)
        finally:
            stop.set()
            if new_rows.is_alive():
                new_rows.join(timeout=5)
        if ended:
            raise CommandError(f"The demo has ended: {ended}")
        self.stdout.write("Stopped.")

    def _prepare(self, rows: int) -> datetime:
        """Bring both databases up to date, with rows unless there are recent ones; return the time of the newest."""
        for name, database in (("Django", "default"), ("logs", LOGS_ALIAS)):
            self.stdout.write(f"Preparing the database of {name} …")
            call_command("migrate", database=database, verbosity=0, interactive=False)
        self.stdout.write("Hardening the database of logs …")
        try:
            call_command("harden_logs", stdout=StringIO())
        except CommandError as error:  # the superuser of the user's own servers is not known here
            self.stderr.write(f"The log database is not hardened, so sandbox queries are refused: {error}")
        self.stdout.write("Loading the log sources and endpoints that ship …")
        made = StringIO()
        call_command("load_fixtures", stdout=made)
        for line in made.getvalue().splitlines():
            if not line.endswith(": exists"):
                self.stdout.write(line)
        newest = _newest_row()
        if newest is not None and datetime.now(UTC) - newest <= FRESH_FOR:
            self.stdout.write("Sample rows: kept")
        else:
            self.stdout.write("Making sample rows …")
            call_command("generate_logs", rows=rows, projects=",".join(PROJECTS))
            newest = _newest_row()
        return (newest or datetime.now(UTC)).astimezone(UTC)


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
    try:
        authenticate_access_token(kept.access_token)
    except NotAuthenticated:
        # This is the first run, or the database is gone, or somebody revoked the access token.
        kept = replace(kept, access_token=issue_access_token(name="demo").secret)
    keep(root, kept)
    is_ours = admin.check_password(kept.admin_password)
    return kept.admin_password if is_ours else "(the password you have set)", kept.access_token


def _is_ready(base: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(f"{base}/readyz", timeout=2) as answer:  # noqa: S310  # http
        return bool(answer.status == 200)
    return False


def _lines_to_paste(base: str, access_token: str, newest: datetime) -> Iterator[str]:
    """Yield lines whose answers a person can read: the first rows as CSV, of logs their time and message."""
    readable = {"project": PROJECTS[0], "lql": "s:timestamp s:event_message"}  # two columns, without the JSON
    start, end = (f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}" for moment in (newest - timedelta(hours=6), newest))
    window = {"iso_timestamp_start": start, "iso_timestamp_end": end}
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
        yield f"curl -s{sent} '{base}/api/endpoints/query/{endpoint}?{urlencode(arguments)}' | head -n 20"
