"""The log database tells whether it is one server or a cluster, by a function that 0014 creates."""

from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("logsources", "0010_empty_tenant_and_log_position")]

    operations = []
