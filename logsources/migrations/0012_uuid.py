"""A UUID for every log source, by which clients may name it."""

from __future__ import annotations

import uuid

from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

HELP = "What clients may send in place of the name: /api/logs?source=UUID."


def give_uuids(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    sources = apps.get_model("logsources", "LogSource").objects.using(schema_editor.connection.alias)
    for key in sources.values_list("pk", flat=True):
        sources.filter(pk=key).update(uuid=uuid.uuid4())


class Migration(migrations.Migration):
    dependencies = [("logsources", "0009_plainer_help_texts")]

    operations = [
        # A default of the column itself would be one value for all rows.
        migrations.AddField(
            model_name="logsource",
            name="uuid",
            field=models.UUIDField("UUID", null=True, default=None, editable=False, help_text=HELP),
        ),
        migrations.RunPython(give_uuids, migrations.RunPython.noop, hints={"target_db": "default"}),
        migrations.AlterField(
            model_name="logsource",
            name="uuid",
            field=models.UUIDField("UUID", unique=True, default=uuid.uuid4, editable=False, help_text=HELP),
        ),
    ]
