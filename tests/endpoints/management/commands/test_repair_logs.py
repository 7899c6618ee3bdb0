"""repair_logs mends each thing that a restore can lose, names it, and then finds nothing to do."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connections
from psycopg import Connection, sql

from endpoints.guarantees import verify_guarantees
from endpoints.log_database.publishing import drop_schemas, publish_sandbox, published_schemas, sandbox_schema
from endpoints.models import Endpoint
from logsources.databases import owner_connection
from logsources.repairing import lost_rights

pytestmark = [pytest.mark.django_db(databases=["default", "logs"]), pytest.mark.sql]

# What is lost: the statements that lose it, and words of the repair. {database}, {sandbox}: the names of this run.
LOSSES = {
    "gate's time limit": (
        "ALTER ROLE logs_gate IN DATABASE {database} RESET statement_timeout",
        "statement_timeout=15s",
    ),
    "gate's settings": (
        "ALTER ROLE logs_gate IN DATABASE {database} RESET ALL",
        "temp_file_limit = 100MB",
    ),
    "role": (
        "DROP OWNED BY tenant_views CASCADE; DROP ROLE tenant_views",
        "role restored: tenant_views",
    ),
    "role of readers": (
        "DROP OWNED BY query_reader CASCADE; DROP ROLE query_reader",
        "role restored: query_reader",
    ),
    "role of sandboxes": (
        "DROP OWNED BY sandbox_reader CASCADE; DROP ROLE sandbox_reader",
        "role restored: sandbox_reader",
    ),
    "gate's membership": (
        "SET ROLE logs_owner; REVOKE query_reader FROM logs_gate; RESET ROLE",
        "logs_gate in query_reader",
    ),
    "owner's membership": (
        "REVOKE catalog_users FROM logs_owner",
        "logs_owner: member of catalog_users",
    ),
    "right on a table": (
        "REVOKE SELECT ON logs.edge_logs FROM query_reader",
        "SELECT of query_reader on logs.edge_logs",
    ),
    "right on a schema": (
        "REVOKE USAGE ON SCHEMA logs FROM query_reader",
        "USAGE of query_reader on logs",
    ),
    "right on our functions": (
        "REVOKE EXECUTE ON FUNCTION logs_private.tenant() FROM query_reader",
        "logs_private.tenant()",
    ),
    "privacy of our functions": (
        "GRANT EXECUTE ON FUNCTION logs_private.log_position(text) TO PUBLIC",
        "of PUBLIC on logs_private.log_position",
    ),
    "right on the database": (
        "REVOKE CONNECT ON DATABASE {database} FROM logs_gate",
        "CONNECT of logs_gate",
    ),
    "privacy of the database": (
        "GRANT CONNECT, TEMPORARY ON DATABASE {database} TO PUBLIC",
        "TEMPORARY of PUBLIC",
    ),
    "right on PostgreSQL's functions": (
        "REVOKE EXECUTE ON FUNCTION lower(text) FROM sandbox_reader",
        "sandbox_reader: may call 1 functions",
    ),
    "privacy of a catalog": (
        "GRANT SELECT ON pg_class TO PUBLIC",
        "from PUBLIC to catalog_users",
    ),
    "function": (
        "DROP FUNCTION logs_private.log_position(text)",
        "function restored: logs_private.log_position",
    ),
    "function of policies": (
        "DROP FUNCTION logs_private.tenant() CASCADE",
        "row policy restored: ",
    ),
    "function of views": (
        "DROP FUNCTION logs_private.armed_for(text) CASCADE",
        "sandbox schema published: ",
    ),
    "function of sandboxes": (
        "DROP FUNCTION log_functions.try_boolean(text) CASCADE",
        "log_functions.try_boolean",
    ),
    "schema of functions": (
        "DROP SCHEMA log_functions CASCADE",
        "schema restored: log_functions",
    ),
    "operator": (
        "DROP OPERATOR log_functions.|| (text, text)",
        "operator restored: log_functions.||",
    ),
    "body of a function": (
        "CREATE OR REPLACE FUNCTION logs_private.sees_every_project() RETURNS boolean LANGUAGE sql RETURN true",
        "function changed: logs_private.sees_every_project",
    ),
    "policy": (
        "DROP POLICY query_reader_rows ON logs.edge_logs",
        "query_reader_rows on logs.edge_logs",
    ),
    "row security": (
        "ALTER TABLE logs.edge_logs DISABLE ROW LEVEL SECURITY",
        "table changed: logs.edge_logs",
    ),
    "owner of a table": (
        "ALTER TABLE logs.edge_logs OWNER TO postgres",
        "given back to logs_owner",
    ),
    "owner of a function": (
        "ALTER FUNCTION logs_private.tenant() OWNER TO postgres",
        "given back to logs_owner",
    ),
    "owner of the database": (
        "ALTER DATABASE {database} OWNER TO postgres",
        "given back to logs_owner",
    ),
    "owner of a sandbox": (
        "ALTER SCHEMA {sandbox} OWNER TO postgres; REVOKE USAGE ON SCHEMA {sandbox} FROM sandbox_reader",
        "sandbox schema published: logs.all",
    ),
    "sandbox": (
        "DROP SCHEMA {sandbox} CASCADE",
        "sandbox schema published: logs.all",
    ),
    "view of a sandbox": (
        "DROP VIEW {sandbox}.edge_logs",
        "sandbox schema published: logs.all",
    ),
    "owner of a view": (
        "ALTER VIEW {sandbox}.edge_logs OWNER TO logs_owner",
        "sandbox schema published: logs.all",
    ),
    "right on a view": (
        "REVOKE SELECT ON {sandbox}.edge_logs FROM sandbox_reader",
        "sandbox schema published: logs.all",
    ),
    "log table": (
        "DROP TABLE logs.auth_logs CASCADE",
        "log table created: auth_logs",
    ),
}


@pytest.fixture
def repairs(superuser: Connection[Any]) -> Iterator[None]:
    """The log database in order again after the test."""
    yield
    repaired()


def repaired(**options: str) -> str:
    output = io.StringIO()
    call_command("repair_logs", stdout=output, **options)
    return output.getvalue()


def names() -> dict[str, str]:
    sandbox = sandbox_schema(Endpoint.objects.get(name="logs.all").as_version())
    return {"database": str(connections["logs"].settings_dict["NAME"]), "sandbox": sandbox}


@pytest.mark.parametrize(("statements", "words"), LOSSES.values(), ids=LOSSES.keys())
def test_mends_each_loss_names_it_and_then_finds_nothing(
    superuser: Connection[Any], statements: str, words: str
) -> None:
    drop_schemas(schema.name for schema in published_schemas())  # other tests' may become too old between two repairs
    publish_sandbox(Endpoint.objects.get(name="logs.all").as_version())
    superuser.execute(statements.format(**names()).encode())
    told = repaired()
    assert repaired() == "Nothing to do.\n"
    assert words in told, told
    assert told.endswith("Repaired. Now run manage.py check_sandbox.\n")
    assert [verdict.guarantee.name for verdict in verify_guarantees() if not verdict.holds] == []
    with psycopg.connect(**settings.LOGS_GATE) as gate:
        gate.execute("SELECT set_config('logs.tenant', '=nobody', true), set_config('role', 'query_reader', true)")
        assert gate.execute("SELECT count(*) FROM logs.edge_logs").fetchone() == (0,)


class TestWithoutASuperuser:
    @pytest.fixture(autouse=True)
    def no_superuser(self, repairs: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[None]:
        with monkeypatch.context() as changed:
            changed.delenv("LOGS_SUPERUSER_URL")
            changed.setattr(settings, "LOCAL_DIR", tmp_path)
            yield

    def test_the_owner_repairs_what_is_the_owners(self, superuser: Connection[Any]) -> None:
        superuser.execute("REVOKE SELECT ON logs.edge_logs FROM query_reader")
        assert "SELECT of query_reader on logs.edge_logs" in repaired()
        assert repaired() == "Nothing to do.\n"

    @pytest.mark.parametrize(
        ("statement", "words"),
        [
            ("ALTER ROLE logs_gate IN DATABASE {database} RESET temp_file_limit", "logs_gate: temp_file_limit = 100MB"),
            ("GRANT SELECT ON pg_class TO PUBLIC", "from PUBLIC to catalog_users"),
            ("ALTER FUNCTION logs_private.tenant() OWNER TO postgres", "must be owner of function tenant"),
        ],
    )
    def test_what_only_a_superuser_may_do_is_said_with_the_command(
        self, superuser: Connection[Any], statement: str, words: str
    ) -> None:
        superuser.execute(statement.format(**names()).encode())
        with pytest.raises(CommandError, match=r"LOGS_SUPERUSER_URL=\S+ python manage\.py repair_logs") as refused:
            repaired()
        assert words in str(refused.value)

    def test_who_accepts_a_log_database_without_hardening_is_asked_for_none(
        self, superuser: Connection[Any], settings: Any
    ) -> None:
        superuser.execute("GRANT SELECT ON pg_class TO PUBLIC")
        settings.ENDPOINTS_SANDBOX_LEVEL = "row_security"
        assert "catalog" not in repaired()
        assert repaired() == "Nothing to do.\n"


@pytest.mark.usefixtures("repairs")
def test_harden_logs_restores_the_limits_of_the_gate(superuser: Connection[Any]) -> None:
    superuser.execute("ALTER ROLE logs_gate IN DATABASE {database} RESET ALL".format(**names()).encode())
    output = io.StringIO()
    call_command("harden_logs", stdout=output)
    assert "logs_gate: statement_timeout = 15s" in output.getvalue()


@pytest.mark.usefixtures("repairs")
def test_looking_for_losses_changes_nothing(superuser: Connection[Any]) -> None:
    superuser.execute("REVOKE SELECT ON logs.edge_logs FROM query_reader; DROP FUNCTION logs_private.log_position")
    with owner_connection() as owner:
        lost = lost_rights(owner, settings.LOGS_GATE)
        assert lost == lost_rights(owner, settings.LOGS_GATE)
    assert [line.partition(": ")[0] for line in lost] == ["function restored", "right restored"]


def test_published_schemas_that_are_in_order_stay(log_database: Connection[Any]) -> None:
    version = Endpoint.objects.get(name="logs.all").as_version()
    schemas = []
    for _ in range(2):
        publish_sandbox(version)
        query = "SELECT oid FROM pg_namespace WHERE nspname = %s"
        schemas += log_database.execute(query, [sandbox_schema(version)]).fetchall()
    assert len(schemas) == 2
    assert schemas[0] == schemas[1]


def test_the_service_database_is_closed_to_everybody(repairs: None) -> None:
    with connections["default"].cursor() as cursor:
        name = str(connections["default"].settings_dict["NAME"])
        cursor.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO PUBLIC").format(sql.Identifier(name)))
        assert f"database {name}: closed to PUBLIC" in repaired()
        cursor.execute("SELECT has_database_privilege('logs_gate', current_database(), 'CONNECT')")
        assert cursor.fetchone() == (False,)
