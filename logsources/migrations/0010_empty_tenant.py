"""The empty tenant sees no row, because rows without a project have the empty text for it.

Runs under `migrate --database logs` alone. It changes no log table: `manage.py upgrade_log_tables` does, while loads
and queries go on.
"""

from __future__ import annotations

from django.conf import settings
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

from logsources.roles import ensure_roles


def close_empty_tenant(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    connection = schema_editor.connection
    connection.ensure_connection()
    ensure_roles(connection.connection, settings.LOGS_GATE)


class Migration(migrations.Migration):
    dependencies = [("logsources", "0009_plainer_help_texts")]

    operations = [
        # Going back changes nothing: rows may have the empty text by now.
        migrations.RunPython(close_empty_tenant, migrations.RunPython.noop, hints={"target_db": "logs"}),
    ]
