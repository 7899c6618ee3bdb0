from __future__ import annotations

import threading
import uuid
from contextlib import closing

import psycopg
import pytest
from django.conf import settings
from django.db import connections
from psycopg import errors, sql

from logsources import roles, tables
from logsources.databases import owner_connection
from logsources.roles import ALL_VIEWS, QUERY_READER, SANDBOX_READER, TENANT_VIEWS, RoleSetupError, ensure_roles
from logsources.tables import TableShape

pytestmark = [pytest.mark.django_db(databases=["default", "logs"]), pytest.mark.sql]

VISIBLE = "SELECT array_agg(project ORDER BY id) FROM logs.policy_rows"


@pytest.fixture
def table(logs, insert):
    """Three rows of two projects, one without a project."""
    for statement in tables.create_table(TableShape("policy_rows", None)):
        logs.execute(statement)
    for id, project in (("1", "acme"), ("2", "zenith"), ("3", "")):
        insert("policy_rows", id=id, project=project)


def read(gate, query=VISIBLE, *, role=QUERY_READER, **session_settings):
    """Run a query as the service does: settings and role for one transaction."""
    with gate.transaction(force_rollback=True):
        for name, value in session_settings.items():
            gate.execute("SELECT set_config(%s, %s, true)", (f"logs.{name}", value))
        gate.execute("SELECT set_config('role', %s, true)", (role,))
        return gate.execute(query).fetchone()[0]


@pytest.mark.usefixtures("table")
class TestRowPolicies:
    @pytest.mark.parametrize(
        ("session_settings", "projects"),
        [
            ({}, None),
            ({"tenant": "=acme"}, ["acme"]),
            ({"tenant": "=zenith"}, ["zenith"]),
            ({"tenant": "=nobody"}, None),
            ({"tenant": "="}, None),
            ({"tenant": ""}, None),
            ({"tenant": "xacme"}, None),  # not as the service writes it: no row rather than a wrong one
            ({"tenant": "=acme' OR true --"}, None),
            ({"scope": "every_project"}, ["acme", "zenith", ""]),
            ({"scope": "every_project", "tenant": "=acme"}, ["acme", "zenith", ""]),
            ({"scope": ""}, None),
            ({"scope": "tenant", "tenant": "=acme"}, ["acme"]),
            ({"scope": "EVERY_PROJECT"}, None),
            ({"scope": "true"}, None),
        ],
    )
    def test_query_reader_sees_what_the_session_says(self, gate, session_settings, projects) -> None:
        assert read(gate, **session_settings) == projects

    def test_nothing_stays_after_the_transaction(self, gate) -> None:
        assert read(gate, scope="every_project") is not None
        assert read(gate) is None

    def test_gate_by_itself_reads_nothing(self, gate) -> None:
        with pytest.raises(errors.InsufficientPrivilege, match="schema logs"):
            gate.execute(VISIBLE)

    def test_sandbox_reader_reads_no_log_table(self, gate) -> None:
        with pytest.raises(errors.InsufficientPrivilege):
            read(gate, role=SANDBOX_READER, scope="every_project")

    @pytest.mark.parametrize("role", [QUERY_READER, SANDBOX_READER])
    def test_partitions_cannot_be_read_directly(self, gate, role) -> None:
        with pytest.raises(errors.InsufficientPrivilege):
            read(gate, "SELECT count(*) FROM logs.policy_rows_default", role=role, scope="every_project")

    @pytest.mark.parametrize(
        "statement",
        [
            "INSERT INTO logs.policy_rows VALUES ('9', 'acme', now(), '', '[]')",
            "UPDATE logs.policy_rows SET project = 'acme'",
            "DELETE FROM logs.policy_rows",
            "TRUNCATE logs.policy_rows",
            "DROP TABLE logs.policy_rows",
            "ALTER TABLE logs.policy_rows DISABLE ROW LEVEL SECURITY",
            "CREATE TABLE logs.mine ()",
            "CREATE TABLE public.mine ()",
            "CREATE TEMP TABLE mine ()",
            "CREATE SCHEMA mine",
            "SELECT 1 FROM logs.policy_rows FOR UPDATE",
        ],
    )
    def test_reader_changes_nothing(self, gate, statement) -> None:
        gate.execute("SET default_transaction_read_only = off")
        with pytest.raises(errors.InsufficientPrivilege):
            read(gate, statement, scope="every_project")

    @pytest.mark.parametrize("role", ["logs_owner", "postgres", TENANT_VIEWS, ALL_VIEWS])
    def test_gate_becomes_no_other_role(self, gate, role) -> None:
        with pytest.raises((errors.InsufficientPrivilege, errors.InvalidParameterValue)):
            read(gate, "SELECT 1", role=role)

    @pytest.mark.parametrize("call", ["tenant()", "sees_every_project()", "argument('project')"])
    @pytest.mark.parametrize("role", [QUERY_READER, SANDBOX_READER, "none"])
    def test_nobody_calls_the_argument_functions_by_name(self, gate, role, call) -> None:
        refused = "for function" if role == "none" else "for schema logs_private"
        with pytest.raises(errors.InsufficientPrivilege, match=refused):
            read(gate, f"SELECT logs_private.{call}", role=role)

    @pytest.mark.parametrize("role", [QUERY_READER, SANDBOX_READER])
    def test_no_reader_asks_for_the_position_of_the_log(self, gate, role) -> None:
        with pytest.raises(errors.InsufficientPrivilege, match="for schema logs_private"):
            read(gate, "SELECT logs_private.log_position('0/0')", role=role)


@pytest.mark.usefixtures("table")
class TestViews:
    """What sandbox schemas build upon: views owned by the view roles, read by sandbox_reader."""

    @pytest.fixture
    def view(self, logs):
        def make_view(owner):
            logs.execute("CREATE SCHEMA sandbox_test")
            logs.execute(
                "CREATE VIEW sandbox_test.policy_rows AS SELECT id, project,"
                " (SELECT logs_private.argument('level')) AS level FROM logs.policy_rows"
            )
            names = {"owner": sql.Identifier(owner), "reader": sql.Identifier(SANDBOX_READER)}
            for statement in (
                "GRANT SELECT ON sandbox_test.policy_rows TO {reader}",
                "GRANT CREATE ON SCHEMA sandbox_test TO {owner}",
                "ALTER VIEW sandbox_test.policy_rows OWNER TO {owner}",
                "REVOKE CREATE ON SCHEMA sandbox_test FROM {owner}",
                "GRANT USAGE ON SCHEMA sandbox_test TO {reader}",
            ):
                logs.execute(sql.SQL(statement).format(**names))

        yield make_view
        logs.execute("DROP SCHEMA IF EXISTS sandbox_test CASCADE")

    @pytest.mark.parametrize(
        ("owner", "session_settings", "projects"),
        [
            (TENANT_VIEWS, {}, None),
            (TENANT_VIEWS, {"tenant": "="}, None),
            (TENANT_VIEWS, {"tenant": "=acme"}, ["acme"]),
            (TENANT_VIEWS, {"tenant": "=acme", "scope": "every_project"}, ["acme"]),
            (ALL_VIEWS, {}, ["acme", "zenith", ""]),
        ],
    )
    def test_view_shows_the_rows_of_its_owner(self, gate, view, owner, session_settings, projects) -> None:
        view(owner)
        query = "SELECT array_agg(project ORDER BY id) FROM sandbox_test.policy_rows"
        assert read(gate, query, role=SANDBOX_READER, **session_settings) == projects

    @pytest.mark.parametrize(
        ("stored", "argument"),
        [(None, None), ("", None), ("=", ""), ("=error", "error"), ("==a", "=a"), ("error", None), ("=a\nb", "a\nb")],
    )
    def test_argument_tells_null_from_empty_text(self, gate, view, stored, argument) -> None:
        view(ALL_VIEWS)
        session_settings = {} if stored is None else {"arg_level": stored}
        query = "SELECT array_agg(DISTINCT level) FROM sandbox_test.policy_rows"
        assert read(gate, query, role=SANDBOX_READER, **session_settings) == [argument]


ROLES_AND_RIGHTS = """
    SELECT 'role', rolname::text, r::text FROM pg_roles AS r
    UNION ALL SELECT 'member', roleid::regrole::text, m::text FROM pg_auth_members AS m
    UNION ALL SELECT 'setting', setdatabase::text, s::text FROM pg_db_role_setting AS s
    UNION ALL SELECT 'database', datname, datacl::text FROM pg_database
    UNION ALL SELECT 'schema', nspname, nspacl::text FROM pg_namespace WHERE nspname !~ '^pg_(toast_)?temp'
    UNION ALL SELECT 'relation', oid::text, relacl::text FROM pg_class WHERE relnamespace = 'logs'::regnamespace
    UNION ALL SELECT 'default', oid::text, defaclacl::text FROM pg_default_acl
    ORDER BY 1, 2, 3"""


class TestGate:
    def test_inherits_nothing(self, logs, gate) -> None:
        login = gate.info.user
        for role in (QUERY_READER, SANDBOX_READER, TENANT_VIEWS, ALL_VIEWS):
            assert logs.execute("SELECT pg_has_role(%s, %s, 'USAGE')", (login, role)).fetchone() == (False,)

    @pytest.mark.parametrize(
        ("setting", "value"),
        [
            ("default_transaction_read_only", "on"),
            ("statement_timeout", "15s"),
            ("lock_timeout", "1s"),
            ("idle_in_transaction_session_timeout", "30s"),
            ("work_mem", "8MB"),
            ("TimeZone", "UTC"),
        ],
    )
    def test_connects_with_limits(self, gate, setting, value) -> None:
        # Not current_setting(): the gate may call nothing but set_config().
        assert gate.execute(sql.SQL("SHOW {}").format(sql.Identifier(setting))).fetchone() == (value,)

    def test_limits_hold_in_the_reader(self, gate) -> None:
        assert read(gate, "SELECT current_setting('statement_timeout')") == "15s"

    @pytest.mark.parametrize("privilege", ["CONNECT", "TEMPORARY", "CREATE"])
    def test_public_has_no_right_on_the_database(self, logs, privilege) -> None:
        public = "SELECT has_database_privilege('pg_monitor', current_database(), %s)"
        assert logs.execute(public, (privilege,)).fetchone() == (False,)

    def test_reader_roles_cannot_log_in(self, logs) -> None:
        names = [QUERY_READER, SANDBOX_READER, TENANT_VIEWS, ALL_VIEWS]
        flags = "SELECT bool_or(rolcanlogin OR rolsuper OR rolbypassrls OR rolinherit), count(*) FROM pg_roles"
        assert logs.execute(f"{flags} WHERE rolname = ANY(%s)", (names,)).fetchone() == (False, 4)


class TestEnsureRoles:
    def test_is_repeatable(self, logs) -> None:
        ensure_roles(logs, settings.LOGS_GATE)
        before = logs.execute(ROLES_AND_RIGHTS).fetchall()
        ensure_roles(logs, settings.LOGS_GATE)
        assert logs.execute(ROLES_AND_RIGHTS).fetchall() == before
        assert len(before) > 20

    @pytest.mark.parametrize("user", ["", None])
    def test_refuses_gate_without_a_name(self, logs, user) -> None:
        with pytest.raises(RoleSetupError, match="names no user"):
            ensure_roles(logs, {"user": user})

    def test_refuses_owner_as_gate(self, logs) -> None:
        with pytest.raises(RoleSetupError, match="is the owner"):
            ensure_roles(logs, {"user": logs.info.user, "password": "x"})

    def test_refuses_gate_with_powers(self, logs) -> None:
        name = f"powerful_{uuid.uuid4().hex}"
        logs.execute(sql.SQL("CREATE ROLE {} LOGIN CREATEDB").format(sql.Identifier(name)))
        try:
            with pytest.raises(RoleSetupError, match="create roles or databases"):
                ensure_roles(logs, {"user": name})
        finally:
            logs.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))

    def test_refuses_gate_that_inherits(self, logs) -> None:
        name = sql.Identifier(f"inheriting_{uuid.uuid4().hex}")
        logs.execute(sql.SQL("CREATE ROLE {} LOGIN INHERIT").format(name))
        logs.execute(sql.SQL("GRANT query_reader TO {}").format(name))
        try:
            with pytest.raises(RoleSetupError, match="inherits the rights of query_reader"):
                ensure_roles(logs, {"user": name.as_string(logs).strip('"')})
        finally:
            logs.execute(sql.SQL("DROP ROLE {}").format(name))

    def test_creates_gate_with_its_password(self, logs) -> None:
        name, password = f"gate_{uuid.uuid4().hex}", "p'w \\ü"
        try:
            ensure_roles(logs, {"user": name, "password": password})
            place = {"dbname": logs.info.dbname, "host": logs.info.host, "port": logs.info.port}
            with closing(psycopg.connect(user=name, password=password, **place)) as conn:
                assert conn.execute("SELECT session_user").fetchone() == (name,)
        finally:
            _drop_login(logs, name)

    def test_says_what_to_run_when_the_gate_is_somebody_elses(self, logs, monkeypatch, caplog) -> None:
        name = f"gate_{uuid.uuid4().hex}"
        monkeypatch.setattr(roles, "_may_alter", lambda conn, login: False)
        try:
            ensure_roles(logs, {"user": name})
            assert f"""ALTER ROLE "{name}" IN DATABASE "{logs.info.dbname}" SET "lock_timeout" = '1s'""" in caplog.text
        finally:
            _drop_login(logs, name)

    def test_survives_meeting_in_two_databases(self, logs) -> None:
        """Roles are the cluster's: two migrations that create the same gate at once both succeed."""
        name = f"gate_{uuid.uuid4().hex}"
        databases = [f"{name[:20]}_{number}" for number in range(3)]
        place = {key: value for key, value in _owner_place().items() if key != "dbname"}
        faults = []

        def set_up(database, barrier):
            try:
                with psycopg.connect(**place, dbname=database, autocommit=True) as conn:
                    barrier.wait(timeout=20)
                    ensure_roles(conn, {"user": name})
            except BaseException as fault:  # noqa: BLE001 - shown by the main thread
                faults.append(fault)

        try:
            for database in databases:
                logs.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(database)))
            barrier = threading.Barrier(len(databases))
            threads = [threading.Thread(target=set_up, args=(database, barrier)) for database in databases]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(timeout=60)
            assert faults == []
        finally:
            for database in databases:
                logs.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(database)))
            _drop_login(logs, name)


def _owner_place() -> dict[str, object]:
    with owner_connection() as conn:
        return {**conn.info.get_parameters(), "password": conn.info.password, "dbname": conn.info.dbname}


def _drop_login(logs, name) -> None:
    if logs.execute("SELECT FROM pg_roles WHERE rolname = %s", (name,)).fetchone() is not None:
        database = sql.Identifier(logs.info.dbname)
        login = sql.Identifier(name)
        logs.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM {}").format(database, login))
        logs.execute(sql.SQL("REVOKE ALL ON SCHEMA logs_private FROM {}").format(login))
        logs.execute(sql.SQL("REVOKE ALL ON FUNCTION logs_private.log_position FROM {}").format(login))
        logs.execute(sql.SQL("REVOKE ALL ON FUNCTION logs_private.topology FROM {}").format(login))
        logs.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


def test_django_tables_stay_out_of_the_log_database(logs) -> None:
    found = logs.execute("SELECT array_agg(tablename::text) FROM pg_tables WHERE schemaname = 'public'").fetchone()
    assert found == (["django_migrations"],)


def test_log_schemas_stay_out_of_the_default_database() -> None:
    with connections["default"].cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_namespace WHERE nspname IN (%s, %s)", [roles.LOGS_SCHEMA, roles.PRIVATE_SCHEMA]
        )
        assert cursor.fetchone() == (0,)
