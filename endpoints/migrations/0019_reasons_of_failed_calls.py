from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ("endpoints", "0018_wording"),
    ]

    operations = [
        migrations.RunSQL(
            "ALTER TABLE endpoints_call ADD COLUMN reason text NOT NULL DEFAULT ''",
            "ALTER TABLE endpoints_call DROP COLUMN reason",
        ),
    ]
