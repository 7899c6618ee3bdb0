"""Functions with GoogleSQL's results, and the twins that bound them; runs under `migrate --database logs` alone."""

from __future__ import annotations

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

from logsources.log_functions import ensure_guard_functions, ensure_log_functions


def set_up_googlesql_functions(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    connection = schema_editor.connection
    connection.ensure_connection()
    ensure_log_functions(connection.connection)
    ensure_guard_functions(connection.connection)


class Migration(migrations.Migration):
    dependencies = [("logsources", "0013_default_project")]

    operations = [
        migrations.RunPython(
            set_up_googlesql_functions,
            # Going back changes nothing: sandbox queries that a process has checked may still name them.
            migrations.RunPython.noop,
            hints={"target_db": "logs"},
        )
    ]
