"""What producers call a source; the shipped sources that are registered already get their producers' names."""

from __future__ import annotations

import django.contrib.postgres.fields
import django.core.validators
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

SHIPPED = {
    "edge_logs": "cloudflare.logs.prod",
    "database_logs": "postgres.logs",
    "function_edge_logs": "deno-relay-logs",
    "function_logs": "deno-subhosting-events",
    "auth_logs": "gotrue.logs.prod",
    "realtime_logs": "realtime.logs.prod",
    "storage_logs": "storage.logs.prod.2",
    "rest_logs": "postgREST.logs.prod",
    "pooler_logs": "pgbouncer.logs.prod",
}


def name_shipped_producers(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    source_model = apps.get_model("logsources", "LogSource")
    for name, producer_name in SHIPPED.items():
        source_model.objects.using(schema_editor.connection.alias).filter(name=name).update(
            producer_names=[producer_name]
        )


class Migration(migrations.Migration):
    dependencies = [("logsources", "0002_log_database")]

    operations = [
        migrations.AddField(
            model_name="logsource",
            name="producer_names",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(
                    max_length=200,
                    validators=[
                        django.core.validators.RegexValidator(
                            "^[^\\s,](?:[^,\\n\\r\\t\\x00]*[^\\s,])?\\Z",
                            "A producer's name has neither commas nor spaces at its ends.",
                        )
                    ],
                ),
                blank=True,
                default=list,
                help_text="What producers call this source, such as cloudflare.logs.prod, separated by commas: rows "
                "sent to /api/logs?source_name= one of them come here.",
                size=None,
            ),
        ),
        migrations.RunPython(name_shipped_producers, migrations.RunPython.noop, hints={"target_db": "default"}),
    ]
