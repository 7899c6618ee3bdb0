"""The command and the scheduled task."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from logsources import services
from logsources.management.commands.roll_partitions import Command
from logsources.models import LogSource
from logsources.services import PartitionsNotRolled
from logsources.tasks import roll_partitions

pytestmark = [pytest.mark.django_db(databases=["default", "logs"]), pytest.mark.sql]


@pytest.fixture
def source(logs):
    LogSource.objects.all().delete()  # comes back with the end of the test's transaction
    return services.create_source(
        name="rolled_here", holds="test rows", project_location="row field", retention_days=30
    )


def roll(*arguments):
    output = StringIO()
    call_command("roll_partitions", *arguments, stdout=output)
    return output.getvalue().splitlines()


def test_prints_what_it_did(source, insert) -> None:
    now = datetime.now(UTC)
    insert("rolled_here", id="old", timestamp=now - timedelta(days=20))
    insert("rolled_here", id="expired", timestamp=now - timedelta(days=40))
    ahead = now + timedelta(days=8)
    assert roll("--days-ahead", "8") == [
        f"rolled_here_p{now - timedelta(days=20):%Y%m%d}: created, 1 rows moved from the default partition",
        f"rolled_here_p{ahead:%Y%m%d}: created",
        "rolled_here_default: 1 expired rows deleted",
    ]
    assert roll() == ["Nothing to do."]


def test_says_which_source_failed(source, logs) -> None:
    logs.execute("DROP TABLE logs.rolled_here")
    with pytest.raises(CommandError, match="rolled_here"):
        roll()


@pytest.mark.parametrize("days", ["-1", "x", "1.5"])
def test_refuses_days_that_are_no_count(source, days) -> None:
    with pytest.raises(CommandError, match="--days-ahead"):
        roll(f"--days-ahead={days}")


def test_help_shows_an_example() -> None:
    text = Command().create_parser("manage.py", "roll_partitions").format_help()
    assert "python manage.py roll_partitions --days-ahead 14" in text


def test_task_rolls(source, insert, logs) -> None:
    insert("rolled_here", timestamp=datetime.now(UTC) - timedelta(days=20))
    roll_partitions()
    assert logs.execute("SELECT count(*) FROM ONLY logs.rolled_here_default").fetchone() == (0,)


def test_task_fails_when_a_source_fails(source, logs) -> None:
    logs.execute("DROP TABLE logs.rolled_here")
    with pytest.raises(PartitionsNotRolled):
        roll_partitions()
