"""The gate may ask for the position in the write-ahead log; runs under `migrate --database logs`."""

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
    dependencies = [("logsources", "0010_empty_tenant")]

    operations = [
        # Going back changes nothing: older versions of the service do not call the function.
        migrations.RunPython(create_function, migrations.RunPython.noop, hints={"target_db": "logs"}),
    ]
