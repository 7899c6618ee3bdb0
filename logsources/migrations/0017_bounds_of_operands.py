"""Twins that bound numerics, rows, arrays and casts to text, and look at the clock: all functions are created anew."""

from importlib import import_module

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("logsources", "0016_moments_in_range")]
    operations = import_module("logsources.migrations.0014_googlesql_functions").Migration.operations
