"""What a query builds is bounded by the query's length: 0014 creates the twins anew."""

from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("logsources", "0007_armed_for")]

    operations = []
