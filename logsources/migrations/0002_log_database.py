"""Roles, schemas and functions of the log database; runs under `migrate --database logs` alone."""

from __future__ import annotations

from django.db import migrations

from logsources.repairing import set_up_log_database


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
