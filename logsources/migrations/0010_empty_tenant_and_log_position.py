"""Two functions of the log database, both from `ensure_roles`; runs under `migrate --database logs` alone.

The empty tenant sees no row, because rows without a project have the empty text for it. No log table is changed here:
`manage.py upgrade_log_tables` does that, while loads and queries go on. And the gate may ask for the position in the
write-ahead log.
"""

from __future__ import annotations

from django.conf import settings
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

from logsources.roles import ensure_roles


def create_functions(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    connection = schema_editor.connection
    connection.ensure_connection()
    ensure_roles(connection.connection, settings.LOGS_GATE)


class Migration(migrations.Migration):
    dependencies = [("logsources", "0009_plainer_help_texts")]

    operations = [
        # Going back changes nothing: rows may have the empty text by now, and older versions ask for no position.
        migrations.RunPython(create_functions, migrations.RunPython.noop, hints={"target_db": "logs"}),
    ]
