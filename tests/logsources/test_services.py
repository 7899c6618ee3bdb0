from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from django.core.exceptions import ValidationError

from logsources import rolling, services
from logsources.models import ExtractedColumn, LogSource
from logsources.services import PartitionAction, PartitionsNotRolled, SourceTableError
from logsources.table_changes import read_shape
from logsources.tables import ColumnType, ExtractedColumnShape
from tests.files import FIXTURES

pytestmark = [pytest.mark.django_db(databases=["default", "logs"]), pytest.mark.sql]

FIXTURE = FIXTURES / "log_sources.json"
PATH = ExtractedColumnShape("request_path", "request.path", ColumnType.TEXT, indexed=True)
STATUS = ExtractedColumnShape("status", "response.status_code", ColumnType.INTEGER)
METADATA = [{"project_ref": "acme", "request": [{"path": "/x"}], "response": [{"status_code": 404}]}]


@pytest.fixture(autouse=True)
def own_sources(logs) -> None:
    """No other sources than the test's; the shipped ones come back when the test's transaction is rolled back."""
    LogSource.objects.all().delete()


def create(name="made_here", **settings):
    return services.create_source(**{"name": name, "holds": "test rows", "project_location": "row field", **settings})


def columns_of(logs, table="made_here"):
    rows = logs.execute(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
        (f"logs.{table}",),
    )
    return dict(rows.fetchall())


def indexed_columns(logs, table="made_here"):
    rows = logs.execute(
        "SELECT attname FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND indkey::text = attnum::text"
        " WHERE indrelid = to_regclass(%s)",
        (f"logs.{table}",),
    )
    return {name for (name,) in rows} - {"timestamp"}


class TestCreateSource:
    def test_makes_a_table_with_its_partitions(self, logs) -> None:
        create(retention_days=90, extracted_columns=[PATH])
        today = datetime.now(UTC).date()
        assert columns_of(logs) == {
            "id": "text",
            "project": "text",
            "timestamp": "timestamp with time zone",
            "event_message": "text",
            "metadata": "jsonb",
            "request_path": "text",
        }
        assert today in rolling.partition_days(logs, "made_here")
        assert today + timedelta(days=7) in rolling.partition_days(logs, "made_here")

    def test_takes_columns_as_json_describes_them(self) -> None:
        source = create(extracted_columns=[{"name": "status", "path": "response.status_code", "type": "integer"}])
        assert services.table_shape(source).columns == (STATUS,)

    @pytest.mark.parametrize(
        "name",
        [
            "",
            "Edge_logs",
            "edge-logs",
            "1logs",
            "_logs",
            "edge logs",
            "edge_logs\n",
            "logs.edge",
            'x"; DROP SCHEMA logs CASCADE; --',
            "x'",
            "ſource",
            "x" * 49,
            "edge_default",
            "edge_p20250602",
        ],
    )
    def test_refuses_names_that_are_no_table_names(self, logs, name) -> None:
        before = logs.execute("SELECT count(*) FROM pg_class").fetchone()
        with pytest.raises(ValidationError) as refusal:
            create(name)
        assert "name" in refusal.value.message_dict
        assert logs.execute("SELECT count(*) FROM pg_class").fetchone() == before

    def test_refuses_a_name_that_is_taken(self) -> None:
        create()
        with pytest.raises(ValidationError, match="already exists"):
            create()

    @pytest.mark.parametrize("name", ["x", "order", "select", "x" * 48, "edge_p2025"])
    def test_takes_names_that_look_odd(self, logs, name) -> None:
        create(name)
        assert "metadata" in columns_of(logs, name)

    @pytest.mark.parametrize(
        ("location", "path"),
        [
            ("row field", "project_ref"),
            ("metadata", ""),
            ("metadata", "a..b"),
            ("metadata", ".a"),
            ("metadata", 'a"b'),
            ("metadata", "$.a"),
            ("metadata", "a b"),
            ("elsewhere", ""),
        ],
    )
    def test_refuses_project_that_cannot_be_found(self, location, path) -> None:
        with pytest.raises(ValidationError):
            create(project_location=location, project_path=path)

    @pytest.mark.parametrize("days", [0, -1, 36_501])
    def test_refuses_retention_out_of_range(self, days) -> None:
        with pytest.raises(ValidationError, match="retention_days"):
            create(retention_days=days)

    @pytest.mark.parametrize(
        "column",
        [
            {"name": "metadata", "path": "a", "type": "text"},
            {"name": "ctid", "path": "a", "type": "text"},
            {"name": "Status", "path": "a", "type": "text"},
            {"name": "status", "path": "", "type": "text"},
            {"name": "status", "path": "a['b']", "type": "text"},
            {"name": "status", "path": "a\n", "type": "text"},
            {"name": "status", "path": "a", "type": "jsonb"},
            {"name": "status", "path": "a", "type": "text", "kind": "x"},
        ],
    )
    def test_refuses_columns_that_cannot_be(self, logs, column) -> None:
        with pytest.raises(ValidationError):
            create(extracted_columns=[column])
        assert columns_of(logs) == {}
        assert not LogSource.objects.exists()

    def test_refuses_a_column_twice(self) -> None:
        with pytest.raises(ValidationError, match="already has a column"):
            create(extracted_columns=[PATH, PATH])

    def test_completes_a_table_that_was_left_behind(self, logs) -> None:
        source = create(extracted_columns=[PATH])
        logs.execute("DROP POLICY tenant_views_rows ON logs.made_here")
        logs.execute("ALTER TABLE logs.made_here DISABLE ROW LEVEL SECURITY")
        source.delete()
        create(extracted_columns=[STATUS])
        assert columns_of(logs).keys() >= {"status"}
        policies = logs.execute(
            "SELECT count(*), bool_and(relrowsecurity) FROM pg_policy JOIN pg_class c ON c.oid = polrelid"
            " WHERE relname = 'made_here'"
        )
        assert policies.fetchone() == (3, True)

    def test_registers_nothing_when_the_log_database_refuses(self, logs) -> None:
        logs.execute("CREATE TABLE logs.made_here_default ()")
        with pytest.raises(SourceTableError, match="made_here_default"):
            create()
        assert not LogSource.objects.exists()
        assert columns_of(logs) == {}


class TestSaveSource:
    def test_adds_changes_and_drops_columns(self, logs, insert) -> None:
        source = create(extracted_columns=[PATH, ExtractedColumnShape("code", "response.status_code", ColumnType.TEXT)])
        insert("made_here", metadata=METADATA, project="acme")
        code = ExtractedColumnShape("code", "response.status_code", ColumnType.INTEGER)
        services.save_source(source, [code, STATUS])
        assert logs.execute("SELECT code, status FROM logs.made_here").fetchone() == (404, 404)
        assert columns_of(logs)["code"] == "bigint"
        assert "request_path" not in columns_of(logs)
        assert set(source.extracted_columns.values_list("name", flat=True)) == {"code", "status"}

    def test_new_columns_reach_every_partition(self, logs, insert) -> None:
        source = create()
        insert("made_here", id="now", metadata=METADATA, timestamp=datetime.now(UTC))
        insert("made_here", id="then", metadata=METADATA)
        services.save_source(source, [STATUS])
        assert logs.execute("SELECT array_agg(status) FROM logs.made_here").fetchone() == ([404, 404],)

    def test_index_comes_and_goes(self, logs) -> None:
        source = create(extracted_columns=[STATUS])
        assert indexed_columns(logs) == set()
        services.save_source(source, [ExtractedColumnShape(STATUS.name, STATUS.path, STATUS.type, indexed=True)])
        assert indexed_columns(logs) == {"status"}
        services.save_source(source, [STATUS])
        assert indexed_columns(logs) == set()

    def test_leaves_a_fitting_table_alone(self, logs) -> None:
        source = create(extracted_columns=[PATH, STATUS])
        identity = "SELECT array_agg((oid, relfilenode) ORDER BY oid) FROM pg_class WHERE relname ~ '^made_here'"
        before = logs.execute(identity).fetchone()
        source.retention_days = 5
        services.save_source(source, [STATUS, PATH])
        assert logs.execute(identity).fetchone() == before

    def test_refuses_a_new_name(self) -> None:
        source = create()
        source.name = "other_name"
        with pytest.raises(ValidationError, match="keeps its name"):
            services.save_source(source, [])

    def test_refuses_to_move_the_project_of_rows(self, logs, insert) -> None:
        source = create()
        insert("made_here", metadata=METADATA, project="zenith")
        source.project_location, source.project_path = "metadata", "project_ref"
        with pytest.raises(ValidationError, match="Create a new source"):
            services.save_source(source, [])
        assert logs.execute("SELECT project FROM logs.made_here").fetchone() == ("zenith",)
        assert LogSource.objects.get().project_location == "row field"

    def test_moves_the_project_of_an_empty_table(self, logs, insert) -> None:
        source = create()
        source.project_location, source.project_path = "metadata", "project_ref"
        services.save_source(source, [PATH])
        shape = read_shape(logs, "made_here")
        assert shape is not None
        assert shape.project_path == "project_ref"
        insert("made_here", metadata=METADATA)
        assert logs.execute("SELECT request_path FROM logs.made_here").fetchone() == ("/x",)

    def test_keeps_a_column_that_a_view_reads(self, logs) -> None:
        source = create(extracted_columns=[STATUS])
        logs.execute("CREATE VIEW logs.reads_status AS SELECT status FROM logs.made_here")
        with pytest.raises(SourceTableError, match="reads_status"):
            services.save_source(source, [])
        assert ExtractedColumn.objects.count() == 1

    def test_says_when_the_table_is_busy(self, logs, monkeypatch) -> None:
        monkeypatch.setattr("logsources.table_changes.DDL_LOCK_TIMEOUT", "100ms")
        source = create()
        with logs.transaction():
            logs.execute("SELECT FROM logs.made_here")
            with pytest.raises(SourceTableError, match="busy"):
                services.save_source(source, [STATUS])
        services.save_source(source, [STATUS])

    def test_says_when_the_log_database_is_away(self, settings, monkeypatch) -> None:
        monkeypatch.setitem(services.owner_connection.__globals__["connections"]["logs"].settings_dict, "PORT", "1")
        with pytest.raises(SourceTableError, match="refused to change"):
            create()


class TestDropSource:
    def test_drops_the_table_with_its_rows(self, logs, insert) -> None:
        source = create()
        insert("made_here")
        services.drop_source(source)
        assert columns_of(logs) == {}
        assert not LogSource.objects.exists()
        assert logs.execute("SELECT count(*) FROM pg_class WHERE relname ~ '^made_here'").fetchone() == (0,)

    def test_keeps_a_table_that_a_view_reads(self, logs) -> None:
        source = create()
        logs.execute("CREATE VIEW logs.reads_made_here AS SELECT id FROM logs.made_here")
        with pytest.raises(SourceTableError, match="reads_made_here"):
            services.drop_source(source)
        assert LogSource.objects.filter(name="made_here").exists()
        assert columns_of(logs)


class TestRollPartitions:
    def test_rolls_every_source(self, logs, insert) -> None:
        create("first", retention_days=30)
        create("second")
        old = datetime.now(UTC) - timedelta(days=20)
        insert("first", timestamp=old)
        insert("second", timestamp=old)
        changes = services.roll_partitions()
        assert [(change.source_name, change.action, change.rows) for change in changes] == [
            ("first", PartitionAction.CREATED, 1),
            ("second", PartitionAction.CREATED, 1),
        ]

    def test_follows_the_clock_it_is_given(self, logs) -> None:
        create(retention_days=3)
        later = datetime.now(UTC) + timedelta(days=5)
        changes = services.roll_partitions(now=later, days_ahead=0)
        dropped = {change.partition_name for change in changes if change.action is PartitionAction.DROPPED}
        assert len(dropped) == 3  # yesterday, today, tomorrow
        assert services.roll_partitions(now=later, days_ahead=0) == []

    def test_a_failing_source_does_not_stop_the_others(self, logs, insert) -> None:
        for name in ("first", "second", "third"):
            create(name)
            insert(name, timestamp=datetime.now(UTC) - timedelta(days=20))
        logs.execute("DROP TABLE logs.second")
        with pytest.raises(PartitionsNotRolled, match="second") as failure:
            services.roll_partitions()
        assert {change.source_name for change in failure.value.changes} == {"first", "third"}
        assert isinstance(failure.value.failures["second"], psycopg.errors.UndefinedTable)


def test_shipped_sources_are_the_contract_s() -> None:
    sources = {entry["name"]: services.create_source(**entry) for entry in json.loads(FIXTURE.read_text())}
    row_field = {"edge_logs", "database_logs", "auth_logs", "rest_logs", "pooler_logs"}
    assert {name for name, source in sources.items() if source.project_location == "row field"} == row_field
    assert {name: source.project_path for name, source in sources.items() if name not in row_field} == {
        "function_edge_logs": "project_ref",
        "function_logs": "project_ref",
        "realtime_logs": "project",
        "storage_logs": "project",
    }
    assert {source.retention_days for source in sources.values()} == {90}
    extracted = ExtractedColumn.objects.order_by("name").values_list("source__name", "name", "path", "type")
    assert list(extracted) == [
        ("edge_logs", "request_path", "request.path", "text"),
        ("edge_logs", "request_url", "request.url", "text"),
    ]


class TestDrafts:
    """The views of drafts stay for a while: they hold up no change of a table, and are made anew for the new one."""

    @pytest.fixture
    def source(self, logs) -> LogSource:
        source = create(extracted_columns=[PATH])
        logs.execute("CREATE SCHEMA sandbox_draft_of_a_test")
        logs.execute("CREATE VIEW sandbox_draft_of_a_test.v AS SELECT * FROM logs.made_here")
        return source

    @staticmethod
    def has_draft(logs) -> bool:
        return logs.execute("SELECT to_regnamespace('sandbox_draft_of_a_test') IS NOT NULL").fetchone()[0]

    def test_go_when_a_column_goes_or_comes(self, logs, source: LogSource) -> None:
        services.save_source(source, [STATUS])
        assert not self.has_draft(logs)
        assert "status" in columns_of(logs)

    def test_stay_when_nothing_changes(self, logs, source: LogSource) -> None:
        services.save_source(source, [PATH])
        assert self.has_draft(logs)

    def test_go_with_the_table(self, logs, source: LogSource) -> None:
        services.drop_source(source)
        assert not self.has_draft(logs)

    def test_another_view_holds_it_up(self, logs, source: LogSource) -> None:
        logs.execute("CREATE SCHEMA of_an_operator")
        logs.execute("CREATE VIEW of_an_operator.v AS SELECT * FROM logs.made_here")
        with pytest.raises(SourceTableError, match="Something still reads"):
            services.drop_source(source)
