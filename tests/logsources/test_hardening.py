"""Hardening on a database of its own: what PUBLIC loses, who gets it, and that all of it comes back."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from io import StringIO
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connections
from psycopg import Connection, errors, sql

from logsources import hardening
from logsources.function_rights import (
    CATALOG_USERS,
    SIDE_EFFECT_FREE,
    callable_functions,
    granted_functions,
    public_functions,
    wanted_functions,
)
from logsources.hardening import (
    CLOSED_SCHEMAS,
    SANDBOX_FUNCTIONS,
    HardeningError,
    LogRoles,
    harden,
    plan_hardening,
    plan_undo,
    undo_hardening,
)

pytestmark = [pytest.mark.django_db(databases=["default", "logs"]), pytest.mark.sql]


@pytest.fixture
def roles() -> LogRoles:
    return LogRoles(owner=connections["logs"].settings_dict["USER"], gate=settings.LOGS_GATE["user"])


@pytest.fixture
def fresh(superuser: Connection[Any]) -> Iterator[Connection[Any]]:
    """A superuser's connection to a new database, where PUBLIC has what it has everywhere."""
    name = f"hardening_{uuid.uuid4().hex}"
    superuser.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
    try:
        with psycopg.connect(os.environ["LOGS_SUPERUSER_URL"], dbname=name, autocommit=True) as connection:
            yield connection
    finally:
        superuser.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def told(summary: str, seconds: float) -> None:
    assert summary
    assert seconds >= 0


def harden_fresh(fresh: Connection[Any], roles: LogRoles) -> int:
    return harden(fresh, roles, report=told)


def rights(fresh: Connection[Any], role: str) -> tuple[Any, ...]:
    """Return everything that the role, or PUBLIC, was granted in the schemas that hardening closes."""
    if role == "PUBLIC":
        grantee, functions = 0, public_functions(fresh, CLOSED_SCHEMAS)
    else:
        grantee = fresh.execute("SELECT to_regrole(%s)::oid", (role,)).fetchone()[0]
        functions = granted_functions(fresh, role, CLOSED_SCHEMAS)
    values = {"catalogs": list(hardening.CATALOG_SCHEMAS), "grantee": grantee}
    objects = fresh.execute(hardening._OBJECTS, values).fetchall()
    return functions, {(kind, tuple(names), privilege, column) for kind, names, privilege, column in objects}


def test_moves_exactly_what_public_has_and_brings_it_back(fresh, roles) -> None:
    before = rights(fresh, "PUBLIC")
    assert len(before[0]) > 3000
    assert len(before[1]) > 150
    harden_fresh(fresh, roles)
    assert rights(fresh, "PUBLIC") == (set(), set())
    assert rights(fresh, CATALOG_USERS) == before
    undo_hardening(fresh, roles, report=told)
    assert rights(fresh, "PUBLIC") == before
    for role in ("query_reader", "sandbox_reader", roles.gate):
        assert granted_functions(fresh, role, CLOSED_SCHEMAS) == set()


def test_is_repeatable_and_says_when_nothing_is_left_to_do(fresh, roles) -> None:
    assert harden_fresh(fresh, roles) > 3
    assert harden_fresh(fresh, roles) == 0
    assert undo_hardening(fresh, roles, report=told) > 3
    assert undo_hardening(fresh, roles, report=told) == 0


def test_planning_changes_nothing(fresh, roles) -> None:
    before = rights(fresh, "PUBLIC")
    plan = plan_hardening(fresh, roles)
    assert "from PUBLIC to catalog_users" in " ".join(step.summary for step in plan)
    assert rights(fresh, "PUBLIC") == before
    harden_fresh(fresh, roles)
    assert "back to PUBLIC" in " ".join(step.summary for step in plan_undo(fresh, roles))
    assert rights(fresh, "PUBLIC") == (set(), set())


def test_closes_what_was_opened_since(fresh, roles) -> None:
    harden_fresh(fresh, roles)
    fresh.execute("CREATE FUNCTION public.added() RETURNS int LANGUAGE sql AS 'SELECT 1'")
    fresh.execute("GRANT EXECUTE ON FUNCTION pg_sleep(float8), public.added() TO sandbox_reader")
    fresh.execute("GRANT SELECT ON pg_class TO PUBLIC")
    fresh.execute("REVOKE EXECUTE ON FUNCTION lower(text) FROM sandbox_reader")
    assert harden_fresh(fresh, roles) == 4
    assert rights(fresh, "PUBLIC") == (set(), set())
    names = {function.name for function in callable_functions(fresh, "sandbox_reader")}
    assert "lower" in names
    assert not names & {"pg_sleep", "added"}


def test_leaves_what_an_operator_grants_to_stored_queries(fresh, roles) -> None:
    fresh.execute("CREATE FUNCTION public.added() RETURNS int LANGUAGE sql AS 'SELECT 1'")
    fresh.execute(
        "GRANT EXECUTE ON FUNCTION public.added() TO query_reader; GRANT USAGE ON SCHEMA public TO query_reader"
    )
    harden_fresh(fresh, roles)
    assert "added" in {function.name for function in callable_functions(fresh, "query_reader")}


def test_rolls_back_as_a_whole(fresh, roles) -> None:
    before = rights(fresh, "PUBLIC")

    def fail(summary: str, seconds: float) -> None:
        if "functions" in summary:
            raise RuntimeError(summary)

    with pytest.raises(RuntimeError):
        harden(fresh, roles, report=fail)
    assert rights(fresh, "PUBLIC") == before


@pytest.mark.parametrize(
    ("role", "function", "may"),
    [
        ("sandbox_reader", "lower(text)", True),
        ("sandbox_reader", "age(timestamptz)", True),
        ("sandbox_reader", "age(xid)", False),
        ("sandbox_reader", "max(pg_lsn)", False),
        ("sandbox_reader", "int4out(int4)", True),
        ("sandbox_reader", "hashtext(text)", True),
        ("sandbox_reader", "array_in(cstring, oid, int4)", False),
        ("sandbox_reader", "regclassin(cstring)", False),
        ("sandbox_reader", "regclass(text)", False),
        ("sandbox_reader", "repeat(text, int4)", False),
        ("sandbox_reader", "set_config(text, text, bool)", False),
        ("sandbox_reader", "current_setting(text)", False),
        ("sandbox_reader", "pg_advisory_lock(int8)", False),
        ("sandbox_reader", "query_to_xml(text, bool, bool, text)", False),
        ("query_reader", "repeat(text, int4)", True),
        ("query_reader", "current_setting(text, bool)", True),
        ("query_reader", "pg_sleep(float8)", True),
        ("query_reader", "set_config(text, text, bool)", False),
        ("query_reader", "pg_notify(text, text)", False),
        ("query_reader", "pg_advisory_xact_lock(int8)", False),
        ("query_reader", "query_to_xml(text, bool, bool, text)", False),
        ("query_reader", "table_to_xml(regclass, bool, bool, text)", False),
        ("query_reader", "lo_get(oid)", False),
        ("query_reader", "nextval(regclass)", False),
        ("query_reader", "pg_stat_get_activity(int4)", False),
        ("query_reader", "pg_terminate_backend(int4, int8)", False),
        ("logs_gate", "set_config(text, text, bool)", True),
        ("logs_gate", "lower(text)", False),
        ("tenant_views", "lower(text)", False),
        ("logs_owner", "set_config(text, text, bool)", True),
        ("logs_owner", "pg_get_viewdef(oid)", True),
        ("logs_owner", "pg_read_file(text)", False),
        ("pg_monitor", "pg_stat_get_activity(int4)", True),
    ],
)
def test_gives_each_role_what_it_needs(superuser, role, function, may) -> None:
    query = "SELECT has_function_privilege(%s, %s, 'EXECUTE')"
    assert superuser.execute(query, (role, f"pg_catalog.{function}")).fetchone() == (may,)


def test_gives_readers_no_function_with_an_effect(superuser, roles) -> None:
    volatile = {
        name for (name,) in superuser.execute("SELECT proname FROM pg_proc WHERE provolatile = 'v' OR prosecdef")
    } - {"ts_rewrite"}  # of its two forms the volatile one runs SQL: see the next test
    wanted = wanted_functions(superuser, gate=roles.gate, allowed_functions=SANDBOX_FUNCTIONS)
    names = {role: {function.name for function in functions} for role, functions in wanted.items()}
    assert names["sandbox_reader"] & volatile <= {"clock_timestamp", "random", "gen_random_uuid"}
    assert names["query_reader"] & volatile <= set(SIDE_EFFECT_FREE)
    assert names[roles.gate] == {"set_config"}


def test_running_sql_given_as_text_is_nobodys(superuser) -> None:
    for role in ("sandbox_reader", "query_reader"):
        for function in ("ts_rewrite(tsquery, text)", "ts_stat(text)"):
            query = "SELECT has_function_privilege(%s, %s, 'EXECUTE')"
            assert superuser.execute(query, (role, function)).fetchone() == (False,)


def test_functions_written_in_sql_find_what_they_call(superuser) -> None:
    """Such a function runs with its caller's rights: all that its body calls has to be allowed too."""
    superuser.execute("CREATE SCHEMA sandbox_sql_functions; GRANT USAGE ON SCHEMA sandbox_sql_functions TO PUBLIC")
    try:
        found = superuser.execute(
            "SELECT p.pronamespace::regnamespace::text, p.proname,"
            " array_agg(format('NULL::%%s AS a%%s', t, n) ORDER BY n), array_agg('a' || n ORDER BY n)"
            " FROM pg_proc AS p, unnest(p.proargtypes::regtype[]) WITH ORDINALITY AS argument (t, n)"
            " WHERE p.prolang = (SELECT oid FROM pg_language WHERE lanname = 'sql') AND p.proname = ANY (%s)"
            " AND p.prokind = 'f' AND has_function_privilege('sandbox_reader', p.oid, 'EXECUTE')"
            " AND NOT 'anyelement'::regtype = ANY (p.proargtypes::regtype[]) GROUP BY p.oid",
            (sorted(SANDBOX_FUNCTIONS),),
        ).fetchall()
        assert len(found) > 15
        for schema, name, arguments, columns in found:
            call = sql.SQL("EXPLAIN SELECT {}({}) FROM (SELECT {} OFFSET 0) AS given").format(
                sql.Identifier(schema, name),
                sql.SQL(", ").join(map(sql.SQL, columns)),
                sql.SQL(", ").join(map(sql.SQL, arguments)),
            )
            with superuser.transaction(force_rollback=True):
                superuser.execute("SET LOCAL ROLE sandbox_reader")
                superuser.execute(call)
    finally:
        superuser.execute("DROP SCHEMA sandbox_sql_functions")


def test_wants_a_superuser(logs, roles) -> None:
    with pytest.raises(HardeningError, match="only a superuser"):
        plan_hardening(logs, roles)
    with pytest.raises(HardeningError, match="only a superuser"):
        plan_undo(logs, roles)


def test_wants_the_roles_that_migrations_make(fresh) -> None:
    with pytest.raises(HardeningError, match=r"No role nobody yet: run manage\.py migrate"):
        plan_hardening(fresh, LogRoles(owner="nobody", gate=settings.LOGS_GATE["user"]))


def test_command_tells_that_nothing_is_left_to_do() -> None:
    for options in ([], ["--dry-run"]):
        output = StringIO()
        call_command("harden_logs", *options, stdout=output)
        assert output.getvalue() == "Nothing to do.\n"


def test_command_undoes_and_hardens_again(superuser) -> None:
    def public() -> int:
        return len(public_functions(superuser, CLOSED_SCHEMAS))

    try:
        output = StringIO()
        call_command("harden_logs", "--undo", "--dry-run", stdout=output)
        assert public() == 0
        assert output.getvalue().startswith("would do: ")
        call_command("harden_logs", "--undo", stdout=output)
        assert public() > 3000
    finally:
        output = StringIO()
        call_command("harden_logs", stdout=output)
    assert public() == 0
    assert output.getvalue().splitlines()[-1].endswith("is hardened.")


def test_command_refuses_a_login_that_is_no_superuser(logs) -> None:
    url = psycopg.conninfo.make_conninfo(**{**logs.info.get_parameters(), "password": logs.info.password})
    with pytest.raises(CommandError, match="only a superuser"):
        call_command("harden_logs", superuser_url=url)


def test_command_says_when_no_superuser_is_known(monkeypatch, tmp_path) -> None:
    monkeypatch.delenv("LOGS_SUPERUSER_URL")
    monkeypatch.setattr(settings, "LOCAL_DIR", tmp_path)
    with pytest.raises(CommandError, match="No superuser is known"):
        call_command("harden_logs")


def test_gate_still_starts_a_transaction_as_a_reader(gate) -> None:
    gate.execute("BEGIN READ ONLY")
    gate.execute("SELECT set_config('logs.tenant', '=nobody', true), set_config('role', 'query_reader', true)")
    assert gate.execute("SELECT count(*) FROM logs.edge_logs").fetchone() == (0,)
    gate.execute("ROLLBACK")
    with pytest.raises(errors.InsufficientPrivilege):
        gate.execute("SELECT lower('A')")
