"""Views of sandbox schemas show rows to sessions armed for their schema alone; runs under `migrate --database logs`."""

from __future__ import annotations

from django.conf import settings
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps
from psycopg import sql

from logsources.roles import ensure_roles

# Schemas with a comment of `endpoints.log_database.publishing`; each is published anew when a call first misses its views.
PUBLISHED = """
    SELECT nspname FROM pg_namespace
    WHERE starts_with(nspname, 'sandbox_') AND pg_has_role(nspowner, 'USAGE')
    AND obj_description(oid, 'pg_namespace') LIKE '{%%"definition"%%'"""


def tell_schemas_apart(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    connection = schema_editor.connection
    connection.ensure_connection()
    ensure_roles(connection.connection, settings.LOGS_GATE)
    with connection.cursor() as cursor:
        cursor.execute(PUBLISHED, [])
        for (name,) in cursor.fetchall():
            cursor.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))


class Migration(migrations.Migration):
    dependencies = [("logsources", "0006_guard_functions")]

    operations = [
        # Going back changes nothing: views without the condition are published anew by whoever wants them.
        migrations.RunPython(tell_schemas_apart, migrations.RunPython.noop, hints={"target_db": "logs"}),
    ]
