"""Functions for sandbox queries in a schema of their own: 0014 creates them."""

from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("logsources", "0002_log_database")]

    operations = []
