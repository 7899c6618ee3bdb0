"""All roles and functions as they are today, those with GoogleSQL's results among them; runs under `migrate --database logs` alone."""

from __future__ import annotations

from django.db import migrations

from logsources.repairing import set_up_log_database


class Migration(migrations.Migration):
    dependencies = [("logsources", "0013_default_project")]

    operations = [
        migrations.RunPython(
            set_up_log_database,
            # Going back changes nothing: sandbox queries that a process has checked may still name them.
            migrations.RunPython.noop,
            hints={"target_db": "logs"},
        )
    ]
