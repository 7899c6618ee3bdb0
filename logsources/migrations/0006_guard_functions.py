"""Twins of functions and operators that refuse large operands: 0014 creates them."""

from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("logsources", "0005_covered_columns")]

    operations = []
