from __future__ import annotations

import pytest
from django.db import connections, transaction

from logsources.connections import owner_connection

pytestmark = pytest.mark.django_db(databases=["default", "logs"])


def test_names_the_database_of_the_alias() -> None:
    with owner_connection() as conn:
        assert conn.info.dbname == connections["logs"].settings_dict["NAME"]
        assert conn.execute("SHOW TimeZone").fetchone() == ("UTC",)


def test_commits_whatever_django_rolls_back(logs) -> None:
    with transaction.atomic(using="logs"), owner_connection() as conn:
        conn.execute("CREATE TABLE logs.committed ()")
        transaction.set_rollback(True, using="logs")
    assert logs.execute("SELECT to_regclass('logs.committed') IS NOT NULL").fetchone() == (True,)


def test_leaves_options_of_django_alone(monkeypatch) -> None:
    options = {"assume_role": "nobody", "server_side_binding": True, "application_name": "loader"}
    monkeypatch.setitem(connections["logs"].settings_dict, "OPTIONS", options)
    with owner_connection() as conn:
        assert conn.execute("SHOW application_name").fetchone() == ("loader",)
