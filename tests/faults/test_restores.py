"""repair_logs after restores that lose more than the documented one, each into a cluster that has only the logins."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from tests.files import PROJECT
from tests.installed_postgres import installed_postgres
from tests.live.debian import POSTGRES_PROGRAMS

pytestmark = pytest.mark.needs("postgresql-15")

FAST = {"fsync": "off", "synchronous_commit": "off"}
# The options of pg_restore, and whether the owner of the database runs it.
WAYS = {
    "by a superuser": ([], False),
    "by a superuser, who owns all": (["--no-owner"], False),
    "by a superuser, without rights": (["--no-privileges"], False),
    "by the owner": ([], True),
}


def manage(variables: Mapping[str, str], *arguments: str) -> str:
    """Run a command in a process of its own and return what it printed."""
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=PROJECT,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    return done.stdout


def run(program: str, *arguments: str | Path) -> str:
    """Run a program of PostgreSQL and return its complaints."""
    command = [POSTGRES_PROGRAMS / program, *arguments]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=300, check=False).stderr


def database(variables: Mapping[str, str], name: str) -> str:
    return make_conninfo(variables["LOGS_SUPERUSER_URL"], dbname=name)


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with complete dumps of both databases of an installation."""
    folder = tmp_path_factory.mktemp("dumps")
    with installed_postgres(POSTGRES_PROGRAMS, FAST) as (_, variables):
        for command in ("migrate", "migrate --database=logs", "load_fixtures", "harden_logs"):
            manage(variables, *command.split())
        assert run("pg_dump", "--format=custom", "--file", folder / "service", database(variables, "service")) == ""
        assert run("pg_dump", "--format=custom", "--file", folder / "logs", database(variables, "logs")) == ""
    return folder


@pytest.mark.parametrize(("options", "by_the_owner"), WAYS.values(), ids=WAYS.keys())
def test_every_restore_is_repaired(dumps: Path, options: list[str], by_the_owner: bool) -> None:
    with installed_postgres(POSTGRES_PROGRAMS, FAST) as (_, variables):
        assert run("pg_restore", "--dbname", database(variables, "service"), dumps / "service") == ""
        target = variables["LOGS_DATABASE_URL"] if by_the_owner else database(variables, "logs")
        assert "errors ignored on restore" in run("pg_restore", *options, "--dbname", target, dumps / "logs")
        assert "repair_logs" in manage(variables, "harden_logs")
        assert "python manage.py repair_logs" in manage(variables, "doctor")
        told = manage(variables, "repair_logs")
        assert told.endswith("Repaired. Now run manage.py check_sandbox.\n"), told
        assert "role restored: all_views, query_reader, sandbox_reader, tenant_views" in told
        assert "sandbox schema published: logs.all" in told
        assert manage(variables, "repair_logs") == "Nothing to do.\n"
        guarantees = manage(variables, "check_sandbox")
        # This cluster has no memory limit, unless the shell has one.
        assert [
            line for line in guarantees.splitlines() if line.startswith("FAIL") and "memory limit" not in line
        ] == []
        assert "Sandbox queries are refused" not in guarantees
        assert "0 rows" in manage(variables, "run_query", "logs.all", "project=acme")
