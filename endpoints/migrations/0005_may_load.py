from django.db import migrations, models

HELP = "May add rows to every log source (POST /api/logs)."


class Migration(migrations.Migration):

    dependencies = [
        ('endpoints', '0004_run_draft'),
    ]

    operations = [
        migrations.AddField(
            model_name='accesstoken',
            name='may_load',
            field=models.BooleanField(default=False, help_text=HELP, verbose_name='may load rows'),
        ),
        migrations.AddField(
            model_name='historicalaccesstoken',
            name='may_load',
            field=models.BooleanField(default=False, help_text=HELP, verbose_name='may load rows'),
        ),
    ]
