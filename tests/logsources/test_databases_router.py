from __future__ import annotations

import pytest

from logsources.databases import LogDatabaseRouter
from logsources.models import LogSource


@pytest.mark.parametrize(
    ("database", "hints", "allowed"),
    [
        ("default", {}, True),
        ("logs", {}, False),
        ("default", {"target_db": "logs"}, False),
        ("logs", {"target_db": "logs"}, True),
    ],
)
def test_the_log_database_takes_what_is_meant_for_it(database, hints, allowed) -> None:
    assert LogDatabaseRouter().allow_migrate(database, "logsources", "logsource", **hints) is allowed


def test_models_are_read_and_written_in_the_default_database() -> None:
    assert LogSource.objects.all().db == "default"
    assert LogSource.objects.db_manager(hints={}).db == "default"
