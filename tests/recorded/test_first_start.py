"""What `migrate` prints over empty databases, and `doctor` over an installation in order and over one that is not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from io import StringIO
from typing import Any, Final
from urllib.parse import urlsplit

import psycopg
import pytest
from django.core.management import CommandError, call_command
from psycopg import sql

from endpoints.calling.installation import note_worker_heartbeat
from tests.files import PROJECT
from tests.recorded.recordings import assert_recorded

pytestmark = pytest.mark.one_server("roles and rights of one server")
DATABASES: Final = {
    "DATABASE_URL": "first_start_service",
    "LOGS_DATABASE_URL": "first_start_logs",
    "LOGS_GATE_URL": "first_start_logs",
}
MIGRATIONS: Final = ("migrate", "migrate --database logs", "migrate", "migrate --database logs")
NAMES: Final = "  Applying "  # of migrations, which nobody was promised
# What the day and the machine decide; the number of guarantees is PostgreSQL's, too.
MASKS: Final = {
    "task <seconds> ago": re.compile(r"task [^.;]* ago"),
    "<number> of <number> hold": re.compile(r"\d+ of \d+ hold"),
    r"\1 <version>": re.compile(r"\b(PostgreSQL|Python|Django) \d+(?:\.\d+)+"),
}


@pytest.fixture
def empty_databases(superuser: psycopg.Connection[Any]) -> Iterator[Mapping[str, str]]:
    """The environment of an installation that begins: databases of its own, without a table."""
    names = set(DATABASES.values())
    drop = [sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)) for name in names]
    urls = {variable: urlsplit(os.environ[variable]) for variable in DATABASES}
    try:
        for statement in drop:
            superuser.execute(statement)
        for variable in ("DATABASE_URL", "LOGS_DATABASE_URL"):
            create = sql.SQL("CREATE DATABASE {} OWNER {} TEMPLATE template0")
            name, owner = DATABASES[variable], str(urls[variable].username)
            superuser.execute(create.format(sql.Identifier(name), sql.Identifier(owner)))
        yield {variable: url._replace(path=f"/{DATABASES[variable]}").geturl() for variable, url in urls.items()}
    finally:
        for statement in drop:
            superuser.execute(statement)


def manage(environment: Mapping[str, str], *words: str) -> Iterator[str]:
    """Yield what the command prints in a process of its own, and how it ends if it fails."""
    done = subprocess.run(
        [sys.executable, "manage.py", *words],
        cwd=PROJECT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    yield from done.stdout.splitlines()
    yield from (f"(stderr) {line}" for line in done.stderr.splitlines())
    if done.returncode:
        yield f"(exit {done.returncode})"


def test_migrations_print_what_is_recorded(empty_databases: Mapping[str, str]) -> None:
    lines = []
    for command in MIGRATIONS:
        printed = manage(empty_databases, *command.split())
        lines += [f"$ manage.py {command}", *(line for line in printed if not line.startswith(NAMES)), ""]
    assert_recorded("first_start.txt", lines)


def doctor() -> Iterator[str]:
    out, ended = StringIO(), ""
    try:
        call_command("doctor", stdout=out, no_color=True)
    except CommandError as error:
        ended = f"(exit {error.returncode}) {error}"
    text = f"{out.getvalue()}{ended}"
    for name, pattern in MASKS.items():
        text = pattern.sub(name, text)
    yield from text.splitlines()


@pytest.mark.django_db(databases=["default", "logs"])
def test_doctor_prints_what_is_recorded(superuser: psycopg.Connection[Any], settings: Any) -> None:
    call_command("repair_logs", stdout=StringIO())  # the database of a test run is open to PUBLIC
    settings.SECURE_SSL_REDIRECT = True
    note_worker_heartbeat()
    lines = ["$ manage.py doctor", *doctor(), ""]
    superuser.execute("GRANT EXECUTE ON FUNCTION pg_sleep(float8) TO sandbox_reader")
    try:
        lines += ["$ manage.py doctor (sandbox queries may sleep)", *doctor()]
    finally:
        superuser.execute("REVOKE EXECUTE ON FUNCTION pg_sleep(float8) FROM sandbox_reader")
    assert_recorded("doctor.txt", lines)
