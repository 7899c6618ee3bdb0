"""Roles, schemas and functions of the log database; runs under `migrate --database logs` alone."""

from __future__ import annotations

from django.conf import settings
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

from logsources.roles import ensure_roles


def set_up_log_database(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    connection = schema_editor.connection
    connection.ensure_connection()
    ensure_roles(connection.connection, settings.LOGS_GATE)


class Migration(migrations.Migration):
    dependencies = [("logsources", "0001_initial")]

    operations = [
        migrations.RunPython(
            set_up_log_database,
            # Going back changes nothing: other databases of the cluster may use the roles, log tables and views the
            # schemas. Going forward again is safe, every step looks at what is there.
            migrations.RunPython.noop,
            hints={"target_db": "logs"},
        )
    ]
