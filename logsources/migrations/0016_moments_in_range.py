"""Functions that know the ends of GoogleSQL's calendar, local times that come twice, and NaN: all are created anew."""

from importlib import import_module

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("logsources", "0015_source_description")]
    operations = import_module("logsources.migrations.0014_googlesql_functions").Migration.operations
