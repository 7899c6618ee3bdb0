"""A database with the tables of another version: said in one sentence, and nothing of it is changed."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from io import StringIO
from typing import Any, Final

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, connections
from django.db.migrations.loader import MigrationLoader
from psycopg import Connection

from logsources.schema_numbers import LOG_SCHEMA, read_log_schema, told_of_another_version
from tests.files import CASES

pytestmark = [
    pytest.mark.django_db(databases=["default", "logs"]),
    pytest.mark.sql,
    pytest.mark.one_server("functions of one server"),
]
# The database, what makes it another version's and what takes that back, and what is then said of it.
OTHERS: Final = {
    "Django's of an older version": (
        "default",
        "INSERT INTO django_migrations (app, name, applied) VALUES ('endpoints', '0001_initial', now())",
        "",
        "Django's database was made by another version (it recorded endpoints.0001_initial): let DATABASE_URL name",
    ),
    "Django's of a newer version": (
        "default",
        "INSERT INTO django_migrations (app, name, applied) VALUES ('logsources', '0001_schema_999', now())",
        "",
        "Django's database was made by another version (it recorded logsources.0001_schema_999): let DATABASE_URL",
    ),
    "logs with an older number": (
        "logs",
        "COMMENT ON SCHEMA logs_private IS 'schema 0'",
        f"COMMENT ON SCHEMA logs_private IS '{LOG_SCHEMA}'",
        f"The log database was made by another version (schema 0, not {LOG_SCHEMA}): let LOGS_DATABASE_URL",
    ),
    "logs without a number": (
        "logs",
        "COMMENT ON SCHEMA logs_private IS NULL",
        f"COMMENT ON SCHEMA logs_private IS '{LOG_SCHEMA}'",
        f"The log database was made by another version (none, not {LOG_SCHEMA}): let LOGS_DATABASE_URL",
    ),
    "tables of logs alone": (
        "logs",
        "ALTER SCHEMA logs_private RENAME TO elsewhere",
        "ALTER SCHEMA elsewhere RENAME TO logs_private",
        f"The log database was made by another version (none, not {LOG_SCHEMA}): let LOGS_DATABASE_URL",
    ),
}
NUMBERS: Final = CASES / "schema_numbers.txt"
RECORDED: Final = "SELECT app, name FROM django_migrations ORDER BY 1, 2"
MADE: Final = """
    SELECT nspname, obj_description(oid, 'pg_namespace'),
        (SELECT count(*) FROM pg_class), (SELECT count(*) FROM pg_proc)
    FROM pg_namespace ORDER BY 1"""


@pytest.fixture(params=OTHERS.values(), ids=OTHERS.keys())
def other(request: pytest.FixtureRequest, log_database: Connection[Any]) -> Iterator[tuple[str, str]]:
    """The alias of a database of another version, and the beginning of what is said of it."""
    alias, make, take_back, told = request.param
    if alias == "default":  # within the test's transaction
        connection.cursor().execute(make)
        yield alias, told
        return
    log_database.execute(make)
    try:
        yield alias, told
    finally:
        log_database.execute(take_back)


def state(logs: Connection[Any]) -> tuple[Any, Any]:
    with connection.cursor() as cursor:
        cursor.execute(RECORDED)
        return cursor.fetchall(), logs.execute(MADE).fetchall()


def said_by(*command: str) -> tuple[str, str]:
    """Return what the command prints, and the words it ends with."""
    out = StringIO()
    with pytest.raises(CommandError) as caught:
        call_command(*command, stdout=out, stderr=out, no_color=True)
    assert caught.value.returncode == 1
    return out.getvalue(), str(caught.value)


def test_this_version_finds_nothing_to_say() -> None:
    assert [told_of_another_version(alias) for alias in connections] == ["", ""]


def test_an_empty_log_database_is_new(log_database: Connection[Any]) -> None:
    with log_database.transaction(force_rollback=True):
        log_database.execute("DROP SCHEMA logs, logs_private, log_functions CASCADE")
        assert read_log_schema(log_database) is None
    assert read_log_schema(log_database) == LOG_SCHEMA


def test_migrate_says_what_to_do_and_changes_nothing(other: tuple[str, str], log_database: Connection[Any]) -> None:
    alias, told = other
    before = state(log_database)
    printed, ended = said_by("migrate", f"--database={alias}")
    assert printed == ""
    assert ended.startswith(told)
    assert "\n" not in ended
    assert ended.count(". ") == 0
    assert state(log_database) == before


def test_the_demo_says_it_before_it_does_anything(other: tuple[str, str], log_database: Connection[Any]) -> None:
    before = state(log_database)
    printed, ended = said_by("demo")
    assert (printed, ended.startswith(other[1])) == ("", True)
    assert state(log_database) == before


def test_doctor_says_it_and_judges_nothing_else(other: tuple[str, str]) -> None:
    printed, ended = said_by("doctor")
    (line,) = printed.splitlines()
    name = "Django database" if other[0] == "default" else "Log database"
    assert line.startswith(f"FAIL  {name}: {other[1]}")
    assert ended == "1 check failed, 0 warnings."


def test_repair_logs_repairs_no_other_version(other: tuple[str, str]) -> None:
    if other[0] == "logs":
        assert said_by("repair_logs") == ("", told_of_another_version("logs"))


def test_each_application_has_one_migration_whose_name_has_the_number() -> None:
    ours = [key for key in MigrationLoader(None).disk_migrations if key[0] in ("endpoints", "logsources")]
    assert sorted(app for app, _ in ours) == ["endpoints", "logsources"]
    assert all(name.startswith("0001_schema_") for _, name in ours)


def test_what_is_made_has_the_number_that_it_was_given(log_database: Connection[Any]) -> None:
    """Until 0.1.0, raise the number of what has changed (docs/development.md, Schema numbers), then write it down."""
    functions = log_database.execute(
        "SELECT pg_get_functiondef(pg_proc.oid) FROM pg_proc JOIN pg_namespace AS n ON n.oid = pronamespace"
        " WHERE nspname IN ('logs_private', 'log_functions') AND prokind = 'f'"
    ).fetchall()
    functions.sort()
    rest = (CASES / "recorded" / "catalogue.txt").read_text(encoding="utf-8")
    made = {f"log database, {LOG_SCHEMA}": f"{functions}{rest}"}
    for application, name in MigrationLoader(None).disk_migrations:
        if application in ("endpoints", "logsources"):
            out = StringIO()
            call_command("sqlmigrate", application, name, stdout=out, no_color=True)
            made[f"{application}.{name}"] = out.getvalue()
    digests = "".join(f"{name}: {sha256(made[name].encode()).hexdigest()[:16]}\n" for name in sorted(made))
    assert digests == NUMBERS.read_text(encoding="utf-8")
