"""The tables of endpoints in Django's database. docs/development.md, Schema numbers, says how to change them."""

import django.contrib.postgres.fields
import django.core.validators
import django.db.models.deletion
import endpoints.models.credentials
import endpoints.models.endpoint
import endpoints.results.outcomes
import simple_history.models
import uuid
from django.conf import settings
from django.db import migrations, models

# The audit log of calls: no models, for only auditing.call_log writes it, by COPY, and auditing.reports reads it.
CALLS = """
CREATE TABLE endpoints_call (
    at timestamptz NOT NULL,
    request_id text NOT NULL,
    kind text NOT NULL,
    endpoint_id uuid,
    endpoint text NOT NULL,
    version integer NOT NULL,
    caller text NOT NULL,
    prefix text NOT NULL,
    argument_names text[] NOT NULL,
    argument_values jsonb,
    cache text NOT NULL,
    status smallint NOT NULL,
    error_code text NOT NULL,
    result_rows bigint NOT NULL,
    milliseconds real NOT NULL,
    calls integer NOT NULL,
    reason text NOT NULL
) PARTITION BY RANGE (at);
CREATE INDEX endpoints_call_at ON endpoints_call (at);
CREATE INDEX endpoints_call_slow ON endpoints_call (milliseconds) WHERE status < 400;
CREATE INDEX endpoints_call_not_answered ON endpoints_call (at) WHERE status >= 400;
CREATE TABLE endpoints_call_minute (
    start timestamptz NOT NULL,
    endpoint_id uuid NOT NULL,
    prefix text NOT NULL,
    calls bigint NOT NULL,
    refused bigint NOT NULL,
    failed bigint NOT NULL,
    cached bigint NOT NULL,
    durations bigint[] NOT NULL,
    PRIMARY KEY (start, endpoint_id, prefix)
);
CREATE TABLE endpoints_call_hour (LIKE endpoints_call_minute INCLUDING ALL);
CREATE TABLE endpoints_call_day (
    day date PRIMARY KEY,
    kept_rows bigint NOT NULL,
    left_out bigint NOT NULL
);
"""
NO_CALLS = "DROP TABLE endpoints_call, endpoints_call_minute, endpoints_call_hour, endpoints_call_day;"


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Endpoint',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(help_text='The end of its address, /api/endpoints/query/name. Letters, digits, dots, dashes, underscores.', max_length=100, unique=True, validators=[django.core.validators.RegexValidator('\\A[A-Za-z][A-Za-z0-9_.-]{0,99}\\Z', 'A name must start with a letter and may have at most 100 letters, digits, dots, dashes and underscores.'), endpoints.models.endpoint.validate_no_uuid])),
                ('description', models.TextField(blank=True, help_text='What it returns, for the people who call it.')),
                ('sql', models.TextField(help_text='One SELECT over the tables of schema logs; arguments are written @name and always bound.', verbose_name='SQL')),
                ('tenant_parameter', models.CharField(blank=True, help_text='A required text parameter: PostgreSQL then shows the query only rows of that project. Blank = the query sees the rows of every project.', max_length=48, validators=[django.core.validators.RegexValidator('\\A[A-Za-z_][A-Za-z0-9_]{0,47}\\Z', 'A parameter name must start with a letter or underscore and may have at most 48 letters, digits and underscores.')])),
                ('max_rows', models.PositiveIntegerField(default=1000, help_text='Extra rows are dropped and the response says so.', validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(100000)])),
                ('statement_timeout_seconds', models.PositiveIntegerField(default=15, help_text='PostgreSQL cancels the query after this time.', validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(300)], verbose_name='statement timeout (seconds)')),
                ('stream_rows', models.PositiveIntegerField(default=0, help_text='CSV and NDJSON are sent while rows arrive, up to so many, in place of max rows and past the cache; 0 = no streams.', validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(1000000000)], verbose_name='stream up to (rows)')),
                ('planner_settings', models.CharField(blank=True, help_text='How PostgreSQL plans the stored query: plan_cache_mode = force_generic_plan plans it once for all arguments, enable_sort = off prefers an index that is in order. Blank = PostgreSQL decides.', max_length=400, validators=[endpoints.models.endpoint.validate_planner_settings])),
                ('page_order', models.CharField(blank=True, help_text='The order of pages, as in timestamp desc, id desc: callers may then send page_size and go on after the last row. Together the columns must be different in every row. Blank = no pages.', max_length=400, validators=[endpoints.models.endpoint.validate_page_order])),
                ('cache_seconds', models.PositiveIntegerField(default=0, help_text='How long a result may come from the cache; 0 = caching disabled.', validators=[django.core.validators.MaxValueValidator(86400)], verbose_name='caching (seconds)')),
                ('warm_every_seconds', models.PositiveIntegerField(default=0, help_text='How often requested results are renewed ahead of time; 0 = off.', validators=[django.core.validators.MaxValueValidator(86400)], verbose_name='cache warming every (seconds)')),
                ('sandboxing', models.BooleanField(default=False, help_text='Consumers may send their own SELECT. It can read the CTEs of this query as tables, and nothing else. The query must then begin with WITH; consumers can read every CTE.')),
                ('default_sandbox_table', models.CharField(blank=True, help_text='The table an LQL query reads when it names none. Blank = it must name one, unless there is only one.', max_length=63)),
                ('sandbox_dialect', models.CharField(choices=[('postgresql', 'PostgreSQL'), (endpoints.results.outcomes.SandboxDialect['BIGQUERY'], 'BigQuery')], default='postgresql', help_text='The SQL dialect of consumers. BigQuery is for clients that cannot be changed.', max_length=20)),
                ('lql_chart_column', models.CharField(choices=[('aggregate', 'Named after the aggregate'), ('count', 'Always count')], default='aggregate', help_text='The column with the values of an LQL chart. Always count is for clients that cannot be changed.', max_length=20, verbose_name='LQL chart column')),
                ('timestamps_as', models.CharField(choices=[('iso', 'ISO 8601 text'), ('unix_microseconds', 'Unix microseconds')], default='iso', help_text='How timestamps are written in every answer, for stored and sandbox queries.', max_length=20, verbose_name='timestamps as')),
                ('redact_pii', models.BooleanField(default=False, help_text='IP and e-mail addresses become REDACTED in every answer; no caller can switch it off.', verbose_name='redact PII by default')),
                ('record_argument_values', models.BooleanField(default=False, help_text='The audit log of calls keeps the values of arguments, not only their names; redacted like the result.', verbose_name='record argument values')),
                ('version', models.PositiveIntegerField(default=0, editable=False)),
                ('declared_parameters', models.JSONField(default=list, editable=False)),
                ('result_columns', models.JSONField(default=list, editable=False)),
                ('sandbox_tables', models.JSONField(default=list, editable=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('updated_at', models.DateTimeField(auto_now=True)),
            ],
            options={
                'ordering': ['name'],
                'permissions': [('run_draft', 'Can run drafts of endpoints')],
                'constraints': [models.CheckConstraint(condition=models.Q(('max_rows__gte', 1), ('max_rows__lte', 100000)), name='endpoint_max_rows_in_range'), models.CheckConstraint(condition=models.Q(('statement_timeout_seconds__gte', 1), ('statement_timeout_seconds__lte', 300)), name='endpoint_statement_timeout_in_range'), models.CheckConstraint(condition=models.Q(('warm_every_seconds', 0), ('cache_seconds__gt', 0), _connector='OR'), name='endpoint_warming_needs_caching')],
            },
        ),
        migrations.CreateModel(
            name='Alert',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(help_text='What the messages call it.', max_length=100, unique=True)),
                ('enabled', models.BooleanField(default=True, help_text='Off: it is not checked, and sends nothing.')),
                ('condition', models.CharField(choices=[('failed_share', 'Share of calls that failed (5xx), in per cent'), ('failed_count', 'Number of calls that failed (5xx)'), ('refused_count', 'Number of calls that were refused (4xx)'), ('value', "A value in the endpoint's result")], default='failed_share', max_length=20)),
                ('threshold', models.FloatField(help_text='It fires when the value is above this; if “fires below” is on, when it is below.')),
                ('fires_below', models.BooleanField(default=False, help_text='Only for a value in the result.')),
                ('minutes', models.PositiveSmallIntegerField(default=5, help_text='Only for calls.', validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(60)], verbose_name='over the last (minutes)')),
                ('minimum_calls', models.PositiveIntegerField(default=10, help_text='Only for a share: with fewer calls it does not fire.')),
                ('column', models.CharField(blank=True, help_text='Only for a value: the column. Any row that crosses the threshold counts.', max_length=63)),
                ('arguments', models.JSONField(blank=True, default=dict, help_text='Only for a value: the arguments that the endpoint runs with, such as {"project": "acme"}.')),
                ('webhook_url', models.CharField(help_text='Messages are sent there with POST, over https.', max_length=500, verbose_name='webhook address')),
                ('remind_minutes', models.PositiveIntegerField(default=60, help_text='While it fires; 0 = no reminders.', validators=[django.core.validators.MaxValueValidator(10080)], verbose_name='remind every (minutes)')),
                ('sealed_secret', models.BinaryField(default=bytes)),
                ('is_firing', models.BooleanField(default=False, editable=False)),
                ('told_firing', models.BooleanField(default=False, editable=False)),
                ('changed_at', models.DateTimeField(editable=False, null=True, verbose_name='in this state since')),
                ('evaluated_at', models.DateTimeField(editable=False, null=True, verbose_name='last checked')),
                ('last_value', models.FloatField(editable=False, null=True)),
                ('problem', models.CharField(blank=True, editable=False, max_length=300)),
                ('endpoint', models.ForeignKey(blank=True, help_text='Blank = the calls of every endpoint.', null=True, on_delete=django.db.models.deletion.CASCADE, to='endpoints.endpoint')),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='AccessToken',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(help_text='Who or what uses it; shown in logs instead of the secret.', max_length=100)),
                ('prefix', models.CharField(editable=False, max_length=16, unique=True)),
                ('secret_hash', models.CharField(editable=False, max_length=64)),
                ('every_endpoint', models.BooleanField(default=True, help_text='May call every endpoint; otherwise only those chosen below.')),
                ('bound_arguments', models.JSONField(blank=True, default=dict, help_text='Arguments this access token is bound to, such as {"project": "acme"}: a call with another value is refused, a call without a value gets this one.')),
                ('may_purge', models.BooleanField(default=False, help_text='May remove the cached results of the endpoints it may call (DELETE /api/endpoints/cache/name).', verbose_name='may purge caches')),
                ('may_load', models.BooleanField(default=False, help_text='May add rows to log sources (POST /api/logs).', verbose_name='may load rows')),
                ('load_sources', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=48), blank=True, default=list, help_text='The names of the only log sources that it may load rows into; empty: every log source.', size=None)),
                ('may_issue', models.BooleanField(default=False, help_text='May issue short-lived tokens for browsers, which never allow more than it does (POST /api/tokens).', verbose_name='may issue browser tokens')),
                ('allowed_origins', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=255, validators=[endpoints.models.credentials.validate_origin]), blank=True, default=list, help_text='The origins whose pages may call with the browser tokens that it issues.', size=None)),
                ('default_project', models.CharField(blank=True, default='', help_text='The project of the rows it loads that name none; blank = the one of the log source.', max_length=255)),
                ('calls_a_minute', models.PositiveIntegerField(blank=True, help_text='Calls of every kind, cached ones too.', null=True)),
                ('calls_at_once', models.PositiveIntegerField(blank=True, help_text='Only calls that the cache cannot answer.', null=True, verbose_name='calls at the same time')),
                ('sandbox_queries_at_once', models.PositiveIntegerField(blank=True, help_text='Only calls with sql or lql.', null=True, verbose_name='sandbox queries at the same time')),
                ('expires_at', models.DateTimeField(blank=True, null=True)),
                ('revoked_at', models.DateTimeField(blank=True, null=True)),
                ('last_used_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('endpoints', models.ManyToManyField(blank=True, related_name='access_tokens', to='endpoints.endpoint')),
            ],
            options={
                'ordering': ['name', 'id'],
            },
        ),
        migrations.CreateModel(
            name='EndpointVersion',
            fields=[
                ('id', models.UUIDField(db_index=True, default=uuid.uuid4, editable=False)),
                ('name', models.CharField(db_index=True, help_text='The end of its address, /api/endpoints/query/name. Letters, digits, dots, dashes, underscores.', max_length=100, validators=[django.core.validators.RegexValidator('\\A[A-Za-z][A-Za-z0-9_.-]{0,99}\\Z', 'A name must start with a letter and may have at most 100 letters, digits, dots, dashes and underscores.'), endpoints.models.endpoint.validate_no_uuid])),
                ('description', models.TextField(blank=True, help_text='What it returns, for the people who call it.')),
                ('sql', models.TextField(help_text='One SELECT over the tables of schema logs; arguments are written @name and always bound.', verbose_name='SQL')),
                ('tenant_parameter', models.CharField(blank=True, help_text='A required text parameter: PostgreSQL then shows the query only rows of that project. Blank = the query sees the rows of every project.', max_length=48, validators=[django.core.validators.RegexValidator('\\A[A-Za-z_][A-Za-z0-9_]{0,47}\\Z', 'A parameter name must start with a letter or underscore and may have at most 48 letters, digits and underscores.')])),
                ('max_rows', models.PositiveIntegerField(default=1000, help_text='Extra rows are dropped and the response says so.', validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(100000)])),
                ('statement_timeout_seconds', models.PositiveIntegerField(default=15, help_text='PostgreSQL cancels the query after this time.', validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(300)], verbose_name='statement timeout (seconds)')),
                ('stream_rows', models.PositiveIntegerField(default=0, help_text='CSV and NDJSON are sent while rows arrive, up to so many, in place of max rows and past the cache; 0 = no streams.', validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(1000000000)], verbose_name='stream up to (rows)')),
                ('planner_settings', models.CharField(blank=True, help_text='How PostgreSQL plans the stored query: plan_cache_mode = force_generic_plan plans it once for all arguments, enable_sort = off prefers an index that is in order. Blank = PostgreSQL decides.', max_length=400, validators=[endpoints.models.endpoint.validate_planner_settings])),
                ('page_order', models.CharField(blank=True, help_text='The order of pages, as in timestamp desc, id desc: callers may then send page_size and go on after the last row. Together the columns must be different in every row. Blank = no pages.', max_length=400, validators=[endpoints.models.endpoint.validate_page_order])),
                ('cache_seconds', models.PositiveIntegerField(default=0, help_text='How long a result may come from the cache; 0 = caching disabled.', validators=[django.core.validators.MaxValueValidator(86400)], verbose_name='caching (seconds)')),
                ('warm_every_seconds', models.PositiveIntegerField(default=0, help_text='How often requested results are renewed ahead of time; 0 = off.', validators=[django.core.validators.MaxValueValidator(86400)], verbose_name='cache warming every (seconds)')),
                ('sandboxing', models.BooleanField(default=False, help_text='Consumers may send their own SELECT. It can read the CTEs of this query as tables, and nothing else. The query must then begin with WITH; consumers can read every CTE.')),
                ('default_sandbox_table', models.CharField(blank=True, help_text='The table an LQL query reads when it names none. Blank = it must name one, unless there is only one.', max_length=63)),
                ('sandbox_dialect', models.CharField(choices=[('postgresql', 'PostgreSQL'), (endpoints.results.outcomes.SandboxDialect['BIGQUERY'], 'BigQuery')], default='postgresql', help_text='The SQL dialect of consumers. BigQuery is for clients that cannot be changed.', max_length=20)),
                ('lql_chart_column', models.CharField(choices=[('aggregate', 'Named after the aggregate'), ('count', 'Always count')], default='aggregate', help_text='The column with the values of an LQL chart. Always count is for clients that cannot be changed.', max_length=20, verbose_name='LQL chart column')),
                ('timestamps_as', models.CharField(choices=[('iso', 'ISO 8601 text'), ('unix_microseconds', 'Unix microseconds')], default='iso', help_text='How timestamps are written in every answer, for stored and sandbox queries.', max_length=20, verbose_name='timestamps as')),
                ('redact_pii', models.BooleanField(default=False, help_text='IP and e-mail addresses become REDACTED in every answer; no caller can switch it off.', verbose_name='redact PII by default')),
                ('record_argument_values', models.BooleanField(default=False, help_text='The audit log of calls keeps the values of arguments, not only their names; redacted like the result.', verbose_name='record argument values')),
                ('version', models.PositiveIntegerField(default=0, editable=False)),
                ('declared_parameters', models.JSONField(default=list, editable=False)),
                ('result_columns', models.JSONField(default=list, editable=False)),
                ('sandbox_tables', models.JSONField(default=list, editable=False)),
                ('created_at', models.DateTimeField(blank=True, editable=False)),
                ('updated_at', models.DateTimeField(blank=True, editable=False)),
                ('history_id', models.AutoField(primary_key=True, serialize=False)),
                ('history_date', models.DateTimeField(db_index=True)),
                ('history_change_reason', models.CharField(max_length=100, null=True)),
                ('history_type', models.CharField(choices=[('+', 'Created'), ('~', 'Changed'), ('-', 'Deleted')], max_length=1)),
                ('history_user', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'historical endpoint',
                'verbose_name_plural': 'historical endpoints',
                'ordering': ('-history_date', '-history_id'),
                'get_latest_by': ('history_date', 'history_id'),
            },
            bases=(simple_history.models.HistoricalChanges, models.Model),
        ),
        migrations.CreateModel(
            name='HistoricalAccessToken',
            fields=[
                ('id', models.BigIntegerField(auto_created=True, blank=True, db_index=True, verbose_name='ID')),
                ('name', models.CharField(help_text='Who or what uses it; shown in logs instead of the secret.', max_length=100)),
                ('prefix', models.CharField(db_index=True, editable=False, max_length=16)),
                ('every_endpoint', models.BooleanField(default=True, help_text='May call every endpoint; otherwise only those chosen below.')),
                ('bound_arguments', models.JSONField(blank=True, default=dict, help_text='Arguments this access token is bound to, such as {"project": "acme"}: a call with another value is refused, a call without a value gets this one.')),
                ('may_purge', models.BooleanField(default=False, help_text='May remove the cached results of the endpoints it may call (DELETE /api/endpoints/cache/name).', verbose_name='may purge caches')),
                ('may_load', models.BooleanField(default=False, help_text='May add rows to log sources (POST /api/logs).', verbose_name='may load rows')),
                ('load_sources', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=48), blank=True, default=list, help_text='The names of the only log sources that it may load rows into; empty: every log source.', size=None)),
                ('may_issue', models.BooleanField(default=False, help_text='May issue short-lived tokens for browsers, which never allow more than it does (POST /api/tokens).', verbose_name='may issue browser tokens')),
                ('allowed_origins', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=255, validators=[endpoints.models.credentials.validate_origin]), blank=True, default=list, help_text='The origins whose pages may call with the browser tokens that it issues.', size=None)),
                ('default_project', models.CharField(blank=True, default='', help_text='The project of the rows it loads that name none; blank = the one of the log source.', max_length=255)),
                ('calls_a_minute', models.PositiveIntegerField(blank=True, help_text='Calls of every kind, cached ones too.', null=True)),
                ('calls_at_once', models.PositiveIntegerField(blank=True, help_text='Only calls that the cache cannot answer.', null=True, verbose_name='calls at the same time')),
                ('sandbox_queries_at_once', models.PositiveIntegerField(blank=True, help_text='Only calls with sql or lql.', null=True, verbose_name='sandbox queries at the same time')),
                ('expires_at', models.DateTimeField(blank=True, null=True)),
                ('revoked_at', models.DateTimeField(blank=True, null=True)),
                ('created_at', models.DateTimeField(blank=True, editable=False)),
                ('history_id', models.AutoField(primary_key=True, serialize=False)),
                ('history_date', models.DateTimeField(db_index=True)),
                ('history_change_reason', models.CharField(max_length=100, null=True)),
                ('history_type', models.CharField(choices=[('+', 'Created'), ('~', 'Changed'), ('-', 'Deleted')], max_length=1)),
                ('history_user', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'historical access token',
                'verbose_name_plural': 'historical access tokens',
                'ordering': ('-history_date', '-history_id'),
                'get_latest_by': ('history_date', 'history_id'),
            },
            bases=(simple_history.models.HistoricalChanges, models.Model),
        ),
        migrations.CreateModel(
            name='HistoricalAccessToken_endpoints',
            fields=[
                ('id', models.BigIntegerField(auto_created=True, blank=True, db_index=True, verbose_name='ID')),
                ('m2m_history_id', models.AutoField(primary_key=True, serialize=False)),
                ('accesstoken', models.ForeignKey(blank=True, db_constraint=False, db_tablespace='', null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='endpoints.accesstoken')),
                ('endpoint', models.ForeignKey(blank=True, db_constraint=False, db_tablespace='', null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='endpoints.endpoint')),
                ('history', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, to='endpoints.historicalaccesstoken')),
            ],
            options={
                'verbose_name': 'HistoricalAccessToken_endpoints',
            },
            bases=(simple_history.models.HistoricalChanges, models.Model),
        ),
        migrations.CreateModel(
            name='AlertMessage',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('firing', 'Firing'), ('resolved', 'Resolved'), ('reminder', 'Reminder'), ('test', 'Test')], max_length=10)),
                ('body', models.TextField()),
                ('created_at', models.DateTimeField()),
                ('attempts', models.PositiveSmallIntegerField(default=0)),
                ('due_at', models.DateTimeField(null=True)),
                ('delivered_at', models.DateTimeField(null=True)),
                ('problem', models.CharField(blank=True, max_length=300)),
                ('alert', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='messages', to='endpoints.alert')),
            ],
            options={
                'ordering': ['-created_at'],
                'default_permissions': (),
                'indexes': [models.Index(condition=models.Q(('due_at__isnull', False)), fields=['due_at'], name='alert_message_due')],
            },
        ),
        migrations.CreateModel(
            name='Identity',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('issuer', models.CharField(max_length=500)),
                ('subject', models.CharField(max_length=255)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='identity', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name_plural': 'identities',
                'constraints': [models.UniqueConstraint(fields=('issuer', 'subject'), name='identity_one_person')],
            },
        ),
        migrations.CreateModel(
            name='Parameter',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('position', models.PositiveSmallIntegerField(default=0)),
                ('name', models.CharField(max_length=48, validators=[django.core.validators.RegexValidator('\\A[A-Za-z_][A-Za-z0-9_]{0,47}\\Z', 'A parameter name must start with a letter or underscore and may have at most 48 letters, digits and underscores.')])),
                ('type', models.CharField(choices=[('text', 'text'), ('integer', 'integer'), ('number', 'number'), ('boolean', 'boolean'), ('timestamp', 'timestamp'), ('date', 'date'), ('uuid', 'uuid'), ('list of text', 'list of text')], default='text', max_length=20)),
                ('required', models.BooleanField(default=False)),
                ('default', models.TextField(blank=True, help_text='Used when the argument is absent or empty.')),
                ('allowed_values', django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), blank=True, default=list, help_text='Separated by commas.', size=None)),
                ('minimum', models.CharField(blank=True, max_length=40)),
                ('maximum', models.CharField(blank=True, max_length=40)),
                ('pattern', models.CharField(blank=True, help_text='A regular expression the whole value must match.', max_length=500)),
                ('description', models.TextField(blank=True)),
                ('endpoint', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='parameters', to='endpoints.endpoint')),
            ],
            options={
                'ordering': ['position', 'id'],
                'constraints': [models.UniqueConstraint(fields=('endpoint', 'name'), name='parameter_name_once_per_endpoint')],
            },
        ),
        migrations.CreateModel(
            name='SavedSearch',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100)),
                ('query', models.TextField()),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='saved_searches', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name_plural': 'saved searches',
                'ordering': ['name'],
                'default_permissions': (),
                'constraints': [models.UniqueConstraint(fields=('owner', 'name'), name='saved_search_one_per_owner_and_name')],
            },
        ),
        migrations.RunSQL(CALLS, NO_CALLS),
    ]
