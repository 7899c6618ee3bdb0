"""The empty tenant sees no row, and the gate may ask for the position in the write-ahead log: 0014 creates the functions.

No log table is changed here: `manage.py upgrade_log_tables` does that, while loads and queries go on.
"""

from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("logsources", "0009_plainer_help_texts")]

    operations = []
