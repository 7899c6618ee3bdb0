"""A log database of an earlier version shows the empty tenant no row after the migration."""

from __future__ import annotations

from importlib import import_module

import pytest
from django.apps import apps
from django.db import connections

pytestmark = pytest.mark.django_db(databases=["default", "logs"])


def test_the_empty_tenant_becomes_no_tenant() -> None:
    migration = import_module("logsources.migrations.0010_empty_tenant_and_log_position")
    with connections["logs"].cursor() as cursor:  # within the test's transaction, so that nothing of it stays
        cursor.execute("CREATE OR REPLACE FUNCTION logs_private.tenant() RETURNS text LANGUAGE sql AS $$ SELECT '' $$")
        with connections["logs"].schema_editor() as editor:
            migration.create_functions(apps, editor)
        cursor.execute("SELECT set_config('logs.tenant', '=', true)")
        cursor.execute("SELECT logs_private.tenant() IS NULL")
        assert cursor.fetchone() == (True,)
