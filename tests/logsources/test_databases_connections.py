from __future__ import annotations

import psycopg
import pytest
from django.db import connections, transaction
from psycopg.conninfo import conninfo_to_dict

from logsources import databases
from logsources.databases import owner_connection

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


def test_gives_up_on_a_server_that_hangs(server, monkeypatch) -> None:
    parameters = conninfo_to_dict(server.servers.logs_database_url)
    settings = {
        "NAME": parameters["dbname"],
        "USER": parameters["user"],
        "PASSWORD": parameters["password"],
        "HOST": parameters["host"],
        "PORT": parameters["port"],
        "OPTIONS": {},
    }
    for name, value in settings.items():
        monkeypatch.setitem(connections["logs"].settings_dict, name, value)
    owner_connection().close()
    monkeypatch.setattr(databases, "CONNECTED_WITHIN_SECONDS", 0.3)
    with server.frozen(), pytest.raises(psycopg.OperationalError, match="did not answer in time"):
        owner_connection()
