"""A log database of an earlier version shows the empty tenant no row after the migration."""

from __future__ import annotations

import pytest
from django.apps import apps
from django.db import connections

from logsources.repairing import set_up_log_database

pytestmark = [pytest.mark.django_db(databases=["default", "logs"]), pytest.mark.sql]


def test_the_empty_tenant_becomes_no_tenant() -> None:
    with connections["logs"].cursor() as cursor:  # within the test's transaction, so that nothing of it stays
        cursor.execute("CREATE OR REPLACE FUNCTION logs_private.tenant() RETURNS text LANGUAGE sql AS $$ SELECT '' $$")
        with connections["logs"].schema_editor() as editor:
            set_up_log_database(apps, editor)
        cursor.execute("SELECT set_config('logs.tenant', '=', true)")
        cursor.execute("SELECT logs_private.tenant() IS NULL")
        assert cursor.fetchone() == (True,)
