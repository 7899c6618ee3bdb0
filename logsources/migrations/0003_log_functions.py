"""Functions for sandbox queries in a schema of their own; runs under `migrate --database logs` alone."""

from __future__ import annotations

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

from logsources.log_functions import ensure_log_functions


def set_up_log_functions(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    connection = schema_editor.connection
    connection.ensure_connection()
    ensure_log_functions(connection.connection)


class Migration(migrations.Migration):
    dependencies = [("logsources", "0002_log_database")]

    operations = [
        migrations.RunPython(
            set_up_log_functions,
            # Going back changes nothing: results of stored queries may depend on the functions.
            migrations.RunPython.noop,
            hints={"target_db": "logs"},
        )
    ]
