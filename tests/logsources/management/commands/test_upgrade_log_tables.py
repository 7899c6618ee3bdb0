"""The command: what it would do, what it did, and why it could not."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from psycopg import Connection

from logsources import rolling
from logsources.databases import LockSpace, owner_connection
from logsources.models import LogSource
from logsources.services import create_source
from tests.logsources.older_tables import make_older_table

pytestmark = [pytest.mark.django_db(databases=["default", "logs"]), pytest.mark.sql]
TODAY = datetime.now(UTC).date()


@pytest.fixture
def older(logs: Connection[Any]) -> Connection[Any]:
    """Two sources: the table of the first is older, that of the second has today's shape."""
    LogSource.objects.all().delete()  # comes back with the end of the test's transaction
    for name in ("first_logs", "second_logs"):
        create_source(name=name, holds="test rows", project_location="row field")
    logs.execute("DROP TABLE logs.first_logs")
    make_older_table(logs, "first_logs", None, TODAY)
    return logs


def upgrade(*arguments: str) -> list[str]:
    output = StringIO()
    call_command("upgrade_log_tables", *arguments, stdout=output)
    return [re.sub(r" \(\d+\.\d s\)$", "", line) for line in output.getvalue().splitlines()]


STEPS = [
    "first_logs: loads fill the column project",
    f"first_logs_p{TODAY:%Y%m%d}: rows checked, new key's index built (0 MiB of rows)",
    "first_logs_default: rows checked, new key's index built (0 MiB of rows)",
    "first_logs: the key is (id, project, timestamp)",
]


def test_shows_what_it_would_do_and_then_does_it(older: Connection[Any]) -> None:
    assert upgrade("--dry-run") == [*(f"would do: {step}" for step in STEPS), "Nothing was changed."]
    assert upgrade("--dry-run", "first_logs") == [*(f"would do: {step}" for step in STEPS), "Nothing was changed."]
    assert upgrade("second_logs") == ["Nothing to do."]
    assert upgrade() == STEPS
    assert upgrade() == ["Nothing to do."]


def test_knows_the_log_sources(older: Connection[Any]) -> None:
    with pytest.raises(CommandError, match="first_logs, second_logs"):
        upgrade("no_such_logs")


def test_says_that_a_table_is_busy(older: Connection[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolling, "EXCLUSIVE_ATTEMPTS", 1)
    with owner_connection() as reader, reader.transaction():
        reader.execute("SELECT count(*) FROM logs.first_logs")
        with pytest.raises(CommandError, match="first_logs is busy"):
            upgrade()


def test_says_that_another_session_builds_indexes(older: Connection[Any]) -> None:
    with owner_connection() as other:
        other.execute("SELECT pg_advisory_lock(%s, hashtext('first_logs'))", (LockSpace.BUILDING.value,))
        with pytest.raises(CommandError, match="run the command again"):
            upgrade()


def test_names_a_view_that_groups_by_the_old_key(older: Connection[Any]) -> None:
    older.execute("CREATE VIEW logs.grouped AS SELECT event_message FROM logs.first_logs GROUP BY id, timestamp")
    with pytest.raises(CommandError, match=r"view logs\.grouped depends on .* Group by the columns"):
        upgrade()


def test_says_why_the_log_database_refuses(older: Connection[Any]) -> None:
    older.execute("ALTER TABLE logs.first_logs_default ADD CONSTRAINT project_is_known CHECK (id <> '')")
    with pytest.raises(CommandError, match="refused to change first_logs"):
        upgrade()
