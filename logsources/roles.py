"""The log database's roles, schemas and functions: the rights to read, before any table exists.

================  =====  ===============================================================================================
role              login  may
================  =====  ===============================================================================================
owner             yes    everything in the log database: migrations, loading, publishing views
gate              yes    become query_reader or sandbox_reader; by itself reads only the server's log position
query_reader      no     SELECT on log tables under row security; runs stored queries
sandbox_reader    no     only EXECUTE on the argument functions of its own; reads the views of sandbox schemas
tenant_views      no     owns views that show the rows of one project
all_views         no     owns views that show the rows of every project
================  =====  ===============================================================================================

Settings decide what a session may see; the service sets them for one transaction. A value is stored with a leading `=`,
so that NULL ('' or never set) and the empty text ('=') differ; if nothing is set, no row is visible:

- `logs.scope`: `every_project` shows query_reader the rows of every project
- `logs.tenant`: the one project whose rows are shown; not the empty text, which rows without a project have
- `logs.arg_<name>`: an argument, read by the views through `logs_private.argument(name)`
- `search_path`: its first schema is the one sandbox schema whose views show rows, by `logs_private.armed_for(schema)`

Only the owner and the gate have USAGE on schema logs_private, and the gate may call `log_position` alone: views and row
policies call the other functions, nobody by name.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, LiteralString

from psycopg import Connection, errors, sql

from logsources.topology import cluster_functions, read_topology, set_topology

logger = logging.getLogger(__name__)

LOGS_SCHEMA: Final = "logs"
SANDBOX_SCHEMAS: Final = "sandbox_"  # how the names of schemas begin that hold the views of sandboxes
DRAFT_SCHEMAS: Final = "sandbox_draft_"  # how the names of schemas begin that may go at any time
PRIVATE_SCHEMA: Final = "logs_private"
QUERY_READER: Final = "query_reader"
SANDBOX_READER: Final = "sandbox_reader"
TENANT_VIEWS: Final = "tenant_views"
ALL_VIEWS: Final = "all_views"

READERS: Final = (QUERY_READER, SANDBOX_READER)
VIEW_OWNERS: Final = (TENANT_VIEWS, ALL_VIEWS)

# After SET ROLE the settings of the new role do not apply, so the limits are set on the login.
GATE_SETTINGS: Final[Mapping[str, str]] = {
    "default_transaction_read_only": "on",
    "statement_timeout": "15s",
    "lock_timeout": "1s",
    "idle_in_transaction_session_timeout": "30s",
    "work_mem": "8MB",
    "hash_mem_multiplier": "1",
    "jit": "off",
    "standard_conforming_strings": "on",
    "TimeZone": "UTC",
}
# Only a superuser may set these (PostgreSQL, "Resource Consumption", "Error Reporting and Logging"); elsewhere the
# server's own values hold. Error messages quote the failing value of a row, and the server's log would keep it. LOG is
# below fatal too: no slow statement, lock wait or temporary file is logged with its text.
GATE_SUPERUSER_SETTINGS: Final[Mapping[str, str]] = {
    "temp_file_limit": "100MB",
    "log_min_messages": "fatal",
    "log_min_error_statement": "panic",
}

CONFLICT_ATTEMPTS: Final = 5  # roles belong to the whole cluster: migrations of two databases may meet
CONFLICT_PAUSE_SECONDS: Final = 0.2

# SECURITY DEFINER: hardening may take current_setting() from readers. SET search_path: no other schema is searched.
_FUNCTIONS: Final[Mapping[LiteralString, LiteralString]] = {
    "argument(text)": """
        CREATE OR REPLACE FUNCTION logs_private.argument(name text) RETURNS text
        LANGUAGE sql {volatility} PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog
        AS $$ SELECT CASE WHEN starts_with(v, '=') THEN substr(v, 2) END
            FROM current_setting('logs.arg_' || name, true) AS v $$""",
    "tenant()": """
        CREATE OR REPLACE FUNCTION logs_private.tenant() RETURNS text
        LANGUAGE sql {volatility} PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog
        AS $$ SELECT CASE WHEN starts_with(v, '=') THEN nullif(substr(v, 2), '') END
            FROM current_setting('logs.tenant', true) AS v $$""",
    # Without SET search_path, because it may read the search path; its names are looked up now, not when it runs.
    "armed_for(text)": """
        CREATE OR REPLACE FUNCTION logs_private.armed_for(sandbox_schema text) RETURNS boolean
        LANGUAGE sql {volatility} PARALLEL SAFE SECURITY DEFINER
        RETURN coalesce({armed_for}, false)""",
    "sees_every_project()": """
        CREATE OR REPLACE FUNCTION logs_private.sees_every_project() RETURNS boolean
        LANGUAGE sql {volatility} PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog
        AS $$ SELECT coalesce(current_setting('logs.scope', true) = 'every_project', false) $$""",
}
# How far the server has written its log, or on a standby replayed it (PostgreSQL, "Backup Control Functions", "Recovery
# Information Functions"); an error on a standby that has not replayed the awaited position yet. The gate calls it
# before it becomes a reader. SECURITY DEFINER: hardening takes these functions from the gate. No SET clause, which
# would double its cost: every name in it has its schema.
POSITION_NOT_REPLAYED: Final = "LQ002"  # of no class that PostgreSQL has; LQ001 are operands that are too large
_LOG_POSITION: Final[LiteralString] = """
    CREATE OR REPLACE FUNCTION logs_private.log_position(awaited text) RETURNS pg_lsn
    LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
    AS $$
    DECLARE
        replayed pg_catalog.pg_lsn;
    BEGIN
        IF NOT pg_catalog.pg_is_in_recovery() THEN
            RETURN {written};
        END IF;
        replayed := pg_catalog.pg_last_wal_replay_lsn();
        IF replayed OPERATOR(pg_catalog.<) awaited::pg_catalog.pg_lsn THEN
            RAISE EXCEPTION 'the standby has not replayed the awaited position' USING ERRCODE = 'LQ002';
        END IF;
        RETURN replayed;
    END $$"""
# Immutable, although text -> timestamptz is not: only ISO 8601 forms with a numeric offset, Z or none (UTC) pass, and
# the session's settings do not count. Runs only for the owner, when rows are loaded.
_ISO_TIMESTAMP: Final[LiteralString] = r"""
    CREATE OR REPLACE FUNCTION logs_private.iso_timestamp(value text) RETURNS timestamptz
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path = pg_catalog SET "TimeZone" = 'UTC' SET "DateStyle" = 'ISO, YMD'
    AS $$
    BEGIN
        IF value !~ '^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?( ?(Z|UTC|[+-]\d\d(:?\d\d)?))?)?$' THEN
            RETURN NULL;
        END IF;
        RETURN value::timestamptz;
    EXCEPTION WHEN data_exception THEN
        RETURN NULL;
    END $$"""


class RoleSetupError(Exception):
    """The roles cannot be set up as required; the message tells the operator what to change."""


def ensure_roles(conn: Connection[Any], gate: Mapping[str, Any]) -> None:
    """Create or update roles, schemas and functions as described above; repeatable, on PostgreSQL 15 and later.

    `conn` is the owner's: it needs CREATEROLE the first time in a cluster, and no superuser. `gate` has psycopg
    connection keywords; only `user` and `password` count; an existing login keeps its password.
    Raises RoleSetupError for a gate login that could get past the wall, psycopg.Error if PostgreSQL refuses a step.
    """
    login = str(gate.get("user") or "")
    _refuse_powerful_gate(conn, login)
    with conn.transaction():
        for role in (*READERS, *VIEW_OWNERS):
            _retry_on_conflict(conn, _create_group, role)
        _retry_on_conflict(conn, _create_gate, login, str(gate.get("password") or ""))
        for reader in READERS:
            _retry_on_conflict(conn, _let_gate_become, login, reader)
        for views in VIEW_OWNERS:
            _retry_on_conflict(conn, _let_owner_become, views)
        _refuse_inheriting_gate(conn, login)
        _create_schemas(conn)
        _create_functions(conn, login)
        _restrict_database(conn, login)
        _retry_on_conflict(conn, _limit_gate, login)


def _retry_on_conflict(conn: Connection[Any], step: Callable[..., None], *arguments: str) -> None:
    """Take the step; repeat it if a migration of another database of the cluster was quicker with the same role."""
    for attempt in range(1, CONFLICT_ATTEMPTS + 1):
        try:
            with conn.transaction():
                step(conn, *arguments)
            return
        except (errors.DuplicateObject, errors.UniqueViolation, errors.InternalError_) as error:
            # InternalError_: "tuple concurrently updated", which has no SQLSTATE of its own.
            unrelated = error.sqlstate == "XX000" and "tuple concurrently" not in str(error)
            if unrelated or attempt == CONFLICT_ATTEMPTS:
                raise
            time.sleep(CONFLICT_PAUSE_SECONDS * attempt)


def _value(conn: Connection[Any], query: LiteralString, *arguments: object) -> Any:
    row = conn.execute(query, arguments).fetchone()
    return None if row is None else row[0]


def _role_exists(conn: Connection[Any], role: str) -> bool:
    return bool(_value(conn, "SELECT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = %s)", role))


def _create_group(conn: Connection[Any], role: str) -> None:
    if not _role_exists(conn, role):
        conn.execute(sql.SQL("CREATE ROLE {} NOLOGIN NOINHERIT").format(sql.Identifier(role)))


def _create_gate(conn: Connection[Any], login: str, password: str) -> None:
    if _role_exists(conn, login):
        return
    statement = sql.SQL("CREATE ROLE {} LOGIN NOINHERIT").format(sql.Identifier(login))
    if password:
        # Hashed here, so the password itself appears in no server log.
        verifier = conn.pgconn.encrypt_password(password.encode(), login.encode(), b"scram-sha-256").decode()
        statement += sql.SQL(" PASSWORD {}").format(sql.Literal(verifier))
    conn.execute(statement)


def _refuse_powerful_gate(conn: Connection[Any], login: str) -> None:
    if not login:
        raise RoleSetupError("LOGS_GATE_URL names no user: the gate login would be the server's own default user.")
    powers = conn.execute(
        "SELECT rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolreplication,"
        " pg_has_role(oid, current_user, 'MEMBER') FROM pg_roles WHERE rolname = %s",
        (login,),
    ).fetchone()
    if powers is not None and any(powers):
        raise RoleSetupError(
            f'The gate login "{login}" of LOGS_GATE_URL is the owner, may become it, or is a superuser or may '
            "bypass row security, create roles or databases, or replicate. Row policies would not restrict "
            "it: use a separate login."
        )


def _refuse_inheriting_gate(conn: Connection[Any], login: str) -> None:
    inherited = [
        role for role in (*READERS, *VIEW_OWNERS) if _value(conn, "SELECT pg_has_role(%s, %s, 'USAGE')", login, role)
    ]
    if inherited:
        raise RoleSetupError(
            f'The gate login "{login}" inherits the rights of {", ".join(inherited)} without SET ROLE. '
            f'Run as a superuser: ALTER ROLE "{login}" NOINHERIT; and on PostgreSQL 16 or later also revoke the '
            "memberships that were granted WITH INHERIT."
        )


def _may_become(conn: Connection[Any], member: str, role: str) -> bool:
    # Up to 15 every member may SET ROLE; since 16 only if the membership says so.
    privilege = "SET" if conn.info.server_version >= 160000 else "MEMBER"
    return bool(_value(conn, "SELECT pg_has_role(%s, %s, %s)", member, role, privilege))


def _grant_membership(conn: Connection[Any], member: sql.Composable, role: str) -> None:
    options = sql.SQL(" WITH INHERIT FALSE, SET TRUE" if conn.info.server_version >= 160000 else "")
    conn.execute(sql.SQL("GRANT {} TO {}{}").format(sql.Identifier(role), member, options))


def _let_gate_become(conn: Connection[Any], login: str, role: str) -> None:
    if not _may_become(conn, login, role):
        _grant_membership(conn, sql.Identifier(login), role)


def _let_owner_become(conn: Connection[Any], role: str) -> None:
    """Let the owner give views to a view role: ALTER VIEW … OWNER TO needs SET ROLE rights on it."""
    if not _may_become(conn, str(_value(conn, "SELECT current_user")), role):
        _grant_membership(conn, sql.SQL("CURRENT_USER"), role)


def _create_schemas(conn: Connection[Any]) -> None:
    users = sql.SQL(", ").join(map(sql.Identifier, (QUERY_READER, *VIEW_OWNERS)))
    for schema in map(sql.Identifier, (LOGS_SCHEMA, PRIVATE_SCHEMA)):
        conn.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(schema))
        conn.execute(sql.SQL("REVOKE ALL ON SCHEMA {} FROM PUBLIC, {}").format(schema, users))
    conn.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(sql.Identifier(LOGS_SCHEMA), users))


def _create_functions(conn: Connection[Any], login: str) -> None:
    # Functions in a view or a policy are called with the rights of the role that runs the query, not of the view's
    # owner, so sandbox_reader needs EXECUTE too; without USAGE on the schema it cannot call them by name.
    callers = sql.SQL(", ").join(map(sql.Identifier, (*READERS, *VIEW_OWNERS)))
    topology = read_topology(conn)
    words = {"volatility": sql.SQL(topology.volatility), "armed_for": sql.SQL(topology.armed_for)}
    for signature, definition in _FUNCTIONS.items():
        conn.execute(sql.SQL(definition).format(**words))
        function = sql.SQL("FUNCTION logs_private.") + sql.SQL(signature)
        conn.execute(sql.SQL("REVOKE ALL ON {} FROM PUBLIC").format(function))
        conn.execute(sql.SQL("GRANT EXECUTE ON {} TO {}").format(function, callers))
    conn.execute(_ISO_TIMESTAMP)
    conn.execute("REVOKE ALL ON FUNCTION logs_private.iso_timestamp(text) FROM PUBLIC")
    conn.execute(sql.SQL(_LOG_POSITION).format(written=sql.SQL(topology.written)))
    conn.execute("REVOKE ALL ON FUNCTION logs_private.log_position(text) FROM PUBLIC")
    gate = sql.Identifier(login)
    conn.execute(sql.SQL("GRANT EXECUTE ON FUNCTION logs_private.log_position(text) TO {}").format(gate))
    conn.execute(set_topology(topology))
    conn.execute("REVOKE ALL ON FUNCTION logs_private.topology() FROM PUBLIC")
    conn.execute(sql.SQL("GRANT EXECUTE ON FUNCTION logs_private.topology() TO {}").format(gate))
    if topology.is_distributed:
        for statement in cluster_functions(gate=login, callers=callers):
            conn.execute(statement)
    conn.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(sql.Identifier(PRIVATE_SCHEMA), gate))


def _restrict_database(conn: Connection[Any], login: str) -> None:
    """Take CONNECT and TEMPORARY from PUBLIC, and CREATE on schema public, if the owner may do so."""
    database = sql.Identifier(str(_value(conn, "SELECT current_database()")))
    if _value(conn, "SELECT pg_has_role(datdba, 'USAGE') FROM pg_database WHERE datname = current_database()"):
        conn.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(database))
        conn.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, sql.Identifier(login)))
    if _value(conn, "SELECT pg_has_role(nspowner, 'USAGE') FROM pg_namespace WHERE nspname = 'public'"):
        conn.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")


def _may_alter(conn: Connection[Any], login: str) -> bool:
    # Up to 15 CREATEROLE is enough; since 16 only the role's creator or a role that was granted it may alter it.
    if _value(conn, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user"):
        return True
    if not _value(conn, "SELECT rolcreaterole FROM pg_roles WHERE rolname = current_user"):
        return False
    return conn.info.server_version < 160000 or bool(
        _value(conn, "SELECT pg_has_role(current_user, %s, 'MEMBER WITH ADMIN OPTION')", login)
    )


def _limit_gate(conn: Connection[Any], login: str) -> None:
    """Set the gate's limits for this database, except those that are already set or that we may not set."""
    current = set(
        _value(
            conn,
            "SELECT coalesce(array_agg(setting), '{}') FROM pg_db_role_setting s, unnest(s.setconfig) AS setting"
            " WHERE setrole = %s::regrole AND setdatabase ="
            " (SELECT oid FROM pg_database WHERE datname = current_database())",
            _quoted(conn, login),
        )
    )
    statements = [
        sql.SQL("ALTER ROLE {} IN DATABASE {} SET {} = {}").format(
            sql.Identifier(login),
            sql.Identifier(str(_value(conn, "SELECT current_database()"))),
            sql.Identifier(name),
            sql.Literal(value),
        )
        for name, value in {**GATE_SETTINGS, **GATE_SUPERUSER_SETTINGS}.items()
        if f"{name}={value}" not in current and (name in GATE_SETTINGS or _may_set(conn, name))
    ]
    if statements and not _may_alter(conn, login):
        by_hand = "; ".join(statement.as_string(conn) for statement in statements)
        logger.warning(
            "The gate login belongs to another role, so its limits are not set. Ask a superuser to run: %s", by_hand
        )
        return
    for statement in statements:
        conn.execute(statement)


def _quoted(conn: Connection[Any], name: str) -> str:
    return sql.Identifier(name).as_string(conn)


def _may_set(conn: Connection[Any], setting: str) -> bool:
    return bool(
        _value(
            conn,
            "SELECT rolsuper OR has_parameter_privilege(%s, 'SET') FROM pg_roles WHERE rolname = current_user",
            setting,
        )
    )
