"""Columns in a covering index; the shipped gateway logs that are registered already get theirs, at the next roll."""

from __future__ import annotations

from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps


def cover_shipped_columns(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    column_model = apps.get_model("logsources", "ExtractedColumn")
    for name, path in (("request_path", "request.path"), ("request_url", "request.url")):
        column_model.objects.using(schema_editor.connection.alias).filter(
            source__name="edge_logs", name=name, path=path, type="text"
        ).update(covered=True)


class Migration(migrations.Migration):
    dependencies = [("logsources", "0004_producer_names")]

    operations = [
        migrations.AddField(
            model_name="extractedcolumn",
            name="covered",
            field=models.BooleanField(
                default=False,
                help_text="Kept in the table's covering index, from which a query can count without reading the rows. "
                "Existing days get it with the next roll of partitions.",
            ),
        ),
        migrations.RunPython(cover_shipped_columns, migrations.RunPython.noop, hints={"target_db": "default"}),
    ]
