"""Views of sandbox schemas show rows to sessions armed for their schema alone: those without the condition go.

Runs under `migrate --database logs` alone; 0014 creates the function that they call.
"""

from __future__ import annotations

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps
from psycopg import sql

# Schemas with a comment of `endpoints.log_database.publishing`; each is published anew when a call first misses its views.
PUBLISHED = """
    SELECT nspname FROM pg_namespace
    WHERE starts_with(nspname, 'sandbox_') AND pg_has_role(nspowner, 'USAGE')
    AND obj_description(oid, 'pg_namespace') LIKE '{%%"definition"%%'"""


def tell_schemas_apart(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(PUBLISHED, [])
        for (name,) in cursor.fetchall():
            cursor.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))


class Migration(migrations.Migration):
    dependencies = [("logsources", "0005_covered_columns")]

    operations = [
        # Going back changes nothing: views without the condition are published anew by whoever wants them.
        migrations.RunPython(tell_schemas_apart, migrations.RunPython.noop, hints={"target_db": "logs"}),
    ]
