"""Sandbox schemas that are older than their condition go with the migration; a call makes them anew."""

from __future__ import annotations

from importlib import import_module

import pytest
from django.apps import apps
from django.db import connections

pytestmark = [pytest.mark.django_db(databases=["default", "logs"]), pytest.mark.sql]


def test_drops_published_schemas_and_no_other() -> None:
    migration = import_module("logsources.migrations.0007_armed_for")
    with connections["logs"].cursor() as cursor:  # within the test's transaction, so that nothing of it stays
        cursor.execute("CREATE SCHEMA sandbox_of_an_operator")
        cursor.execute("CREATE SCHEMA sandbox_older; CREATE VIEW sandbox_older.v AS SELECT 1 AS x")
        cursor.execute("""COMMENT ON SCHEMA sandbox_older IS '{"definition": "x", "published_at": "2025-06-02"}'""")
        with connections["logs"].schema_editor() as editor:
            migration.tell_schemas_apart(apps, editor)
        cursor.execute("SELECT nspname FROM pg_namespace WHERE nspname IN ('sandbox_of_an_operator', 'sandbox_older')")
        assert cursor.fetchall() == [("sandbox_of_an_operator",)]
