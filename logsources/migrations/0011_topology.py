"""The log database tells whether it is one server or a cluster, by a function from `ensure_roles`.

Runs under `migrate --database logs` alone.
"""

from __future__ import annotations

from django.conf import settings
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

from logsources.roles import ensure_roles


def create_function(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    connection = schema_editor.connection
    connection.ensure_connection()
    ensure_roles(connection.connection, settings.LOGS_GATE)


class Migration(migrations.Migration):
    dependencies = [("logsources", "0010_empty_tenant_and_log_position")]

    operations = [
        migrations.RunPython(create_function, migrations.RunPython.noop, hints={"target_db": "logs"}),
    ]
