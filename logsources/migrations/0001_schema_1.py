"""Log sources in Django's database; roles, schemas and functions of the log database.

docs/development.md, Schema numbers, says how to change them.
"""

import django.contrib.postgres.fields
import django.core.validators
import django.db.models.deletion
import uuid
from django.db import migrations, models

from logsources.repairing import set_up_log_database


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='LogSource',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(help_text="The table's name in schema logs, such as edge_logs. It cannot be changed later.", max_length=48, unique=True, validators=[django.core.validators.RegexValidator('^[a-z][a-z0-9_]{0,47}\\Z', 'A lower-case letter, then lower-case letters, digits and underscores; 48 characters at most.'), django.core.validators.RegexValidator('(_default|_p[0-9]{8})\\Z', 'A name that ends in _default or in _p and eight digits belongs to a partition.', inverse_match=True)])),
                ('uuid', models.UUIDField(default=uuid.uuid4, editable=False, help_text='What clients may send in place of the name: /api/logs?source=UUID.', unique=True, verbose_name='UUID')),
                ('holds', models.CharField(help_text='What the table contains, such as: gateway request logs.', max_length=200, verbose_name='description')),
                ('project_location', models.CharField(choices=[('row field', 'a field of the row'), ('metadata', 'a path into metadata')], default='row field', help_text='Where a row says which project it belongs to.', max_length=16)),
                ('project_path', models.CharField(blank=True, default='', help_text='The path of the project inside metadata, such as project_ref. Empty for a field of the row. Where and how the project is found cannot be changed once the table contains rows.', max_length=200, validators=[django.core.validators.RegexValidator('^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*\\Z', 'Keys joined by dots, such as request.url; a key may have letters, digits, _ and -.')])),
                ('retention_days', models.PositiveIntegerField(blank=True, help_text='Days after which rows are dropped, a whole UTC day at a time. Empty keeps them for ever.', null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(36500)])),
                ('default_project', models.CharField(blank=True, default='', help_text='The project of loaded rows that name none, unless the access token has one of its own. Empty refuses such rows.', max_length=255)),
                ('producer_names', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=200, validators=[django.core.validators.RegexValidator('^[^\\s,](?:[^,\\n\\r\\t\\x00]*[^\\s,])?\\Z', "A producer's name may not contain commas, or spaces at its ends.")]), blank=True, default=list, help_text='The names that producers use for this source, separated by commas, such as cloudflare.logs.prod. Rows sent to /api/logs?source_name=NAME are stored here.', size=None)),
            ],
            options={
                'verbose_name': 'log source',
                'ordering': ['name'],
                'constraints': [models.CheckConstraint(condition=models.Q(('name__regex', '^[a-z][a-z0-9_]{0,47}$'), models.Q(('name__regex', '(_default|_p[0-9]{8})$'), _negated=True)), name='log_source_name_is_a_table_name', violation_error_message='This cannot be the name of a log table.'), models.CheckConstraint(condition=models.Q(models.Q(('project_location', 'row field'), ('project_path', '')), models.Q(('project_location', 'metadata'), ('project_path__regex', '^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*$')), _connector='OR'), name='log_source_project_path_fits_location', violation_error_message='Give a project path for a project inside metadata, and none for a row field.'), models.CheckConstraint(condition=models.Q(('retention_days__isnull', True), ('retention_days__range', (1, 36500)), _connector='OR'), name='log_source_retention_in_range', violation_error_message='Rows are kept for 1 to 36500 days, or for ever.')],
            },
        ),
        migrations.CreateModel(
            name='ExtractedColumn',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(help_text="The column's name, such as request_url. Adding or changing a column rewrites the table.", max_length=48, validators=[django.core.validators.RegexValidator('^[a-z][a-z0-9_]{0,47}\\Z', 'A lower-case letter, then lower-case letters, digits and underscores; 48 characters at most.')])),
                ('path', models.CharField(help_text='Where the value is inside metadata, such as request.url. Arrays on the way are looked into.', max_length=200, validators=[django.core.validators.RegexValidator('^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*\\Z', 'Keys joined by dots, such as request.url; a key may have letters, digits, _ and -.')])),
                ('type', models.CharField(choices=[('text', 'text'), ('integer', 'integer'), ('number', 'number'), ('boolean', 'boolean'), ('timestamp', 'timestamp')], default='text', help_text='A value of another type is NULL. Timestamps are ISO 8601 texts, UTC if they name no zone.', max_length=16)),
                ('indexed', models.BooleanField(default=False, help_text='Useful for a column that is compared with = or a prefix; slows loading a little.')),
                ('covered', models.BooleanField(default=False, help_text="Kept in the table's covering index, from which a query can count without reading the rows. Existing days get it with the next roll of partitions.")),
                ('source', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='extracted_columns', to='logsources.logsource')),
            ],
            options={
                'verbose_name': 'extracted column',
                'ordering': ['source', 'name'],
                'constraints': [models.UniqueConstraint(fields=('source', 'name'), name='extracted_column_name_once_per_source', violation_error_message='This source already has a column of this name.'), models.CheckConstraint(condition=models.Q(('name__regex', '^[a-z][a-z0-9_]{0,47}$'), models.Q(('name__in', ('id', 'project', 'timestamp', 'event_message', 'metadata', 'tableoid', 'xmin', 'cmin', 'xmax', 'cmax', 'ctid')), _negated=True)), name='extracted_column_name_is_free', violation_error_message='Every log table already has a column of this name, or it cannot be one.'), models.CheckConstraint(condition=models.Q(('path__regex', '^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*$')), name='extracted_column_path_is_dotted', violation_error_message='Give keys joined by dots, such as request.url.'), models.CheckConstraint(condition=models.Q(('type__in', ['text', 'integer', 'number', 'boolean', 'timestamp'])), name='extracted_column_type_is_known', violation_error_message='This is not a type of an extracted column.')],
            },
        ),
        # Under `migrate --database logs` alone. Going back changes nothing: other databases of the cluster may use the
        # roles, log tables and views the schemas. Going forward again is safe, every step looks at what is there.
        migrations.RunPython(set_up_log_database, migrations.RunPython.noop, hints={"target_db": "logs"}),
    ]
