"""Hardens the log database: PUBLIC loses its rights on catalogs and functions, the readers get those that they need.

PostgreSQL lets every role read nearly all catalogs and call nearly all functions. A sandbox query that got past the
checker could use that: set_config() gives it another project, advisory locks and notifications leave a trace, and the
catalogs reveal everybody. So all rights of PUBLIC move to the group `catalog_users`, whose members are the owner and
monitoring. The readers then get functions one by one (`function_rights`).

Hardening needs a superuser, once for each database, and again after a major upgrade (new functions are PUBLIC's) or a
new extension. Undo it before pg_upgrade: the dump would grant functions that the new version may not have.
Nothing is granted ON ALL: that would open pg_authid and pg_read_file(). query_reader has nothing in schema public; if
stored queries use an extension there, the operator grants it USAGE and the functions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, LiteralString

from psycopg import Connection, errors, sql

from logsources.allowed_functions import ALLOWED_FUNCTIONS, SYNTAX_FUNCTIONS
from logsources.function_rights import (
    CATALOG_USERS,
    FunctionName,
    granted_functions,
    public_functions,
    wanted_functions,
)
from logsources.roles import GATE_SETTINGS, GATE_SUPERUSER_SETTINGS, QUERY_READER, READERS

SANDBOX_FUNCTIONS: Final = ALLOWED_FUNCTIONS.union(*SYNTAX_FUNCTIONS.values())
CATALOG_SCHEMAS: Final = ("pg_catalog", "information_schema")
CLOSED_SCHEMAS: Final = (*CATALOG_SCHEMAS, "public")
# Monitoring and backup logins are members of these; they read the catalogs as before.
PREDEFINED_CATALOG_USERS: Final = ("pg_monitor", "pg_read_all_data")

CONFLICT_ATTEMPTS: Final = 5  # roles belong to the whole cluster: two databases may be hardened at once
CONFLICT_PAUSE_SECONDS: Final = 0.2

# Everything except functions on which a role can have PUBLIC's rights: its name in GRANT, and the privilege.
_OBJECTS: Final[LiteralString] = """
    SELECT 'TABLE', ARRAY[n.nspname, c.relname]::text[], a.privilege_type, NULL
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace, aclexplode(c.relacl) AS a
    WHERE n.nspname = ANY (%(catalogs)s) AND a.grantee = %(grantee)s
    UNION ALL
    SELECT 'TABLE', ARRAY[n.nspname, c.relname]::text[], a.privilege_type, t.attname::text
    FROM pg_attribute AS t JOIN pg_class AS c ON c.oid = t.attrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace,
        aclexplode(t.attacl) AS a
    WHERE n.nspname = ANY (%(catalogs)s) AND a.grantee = %(grantee)s
    UNION ALL
    SELECT 'SCHEMA', ARRAY[n.nspname]::text[], a.privilege_type, NULL
    FROM pg_namespace AS n, aclexplode(n.nspacl) AS a
    WHERE n.nspname IN ('information_schema', 'public', 'citus_internal') AND a.grantee = %(grantee)s
    UNION ALL
    SELECT 'LANGUAGE', ARRAY[l.lanname]::text[], a.privilege_type, NULL
    FROM pg_language AS l, aclexplode(coalesce(l.lanacl, acldefault('l', l.lanowner))) AS a
    WHERE l.lanpltrusted AND a.grantee = %(grantee)s
    UNION ALL
    SELECT 'DATABASE', ARRAY[d.datname]::text[], a.privilege_type, NULL
    FROM pg_database AS d, aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) AS a
    WHERE d.datname = current_database() AND a.grantee = %(grantee)s"""

Report = Callable[[str, float], None]  # the step, and its seconds


class HardeningError(Exception):
    """The log database cannot be hardened; the message tells the operator what to do."""


@dataclass(frozen=True, slots=True)
class Step:
    """One change: what it does in words, and its statements."""

    summary: str
    statements: tuple[sql.Composed, ...]


@dataclass(frozen=True, slots=True)
class LogRoles:
    """The two logins of the log database."""

    owner: str
    gate: str


def harden(conn: Connection[Any], roles: LogRoles, *, report: Report) -> int:
    """Harden the database of a superuser's connection and return the number of steps: 0 if it was already hardened.

    All or nothing, repeatable. Raises HardeningError like `plan_hardening`, and psycopg.Error.
    """
    return _apply(conn, lambda: plan_hardening(conn, roles), report)


def undo_hardening(conn: Connection[Any], roles: LogRoles, *, report: Report) -> int:
    """Give PUBLIC back the rights that `harden` took and return the number of steps; the work of migrations stays."""
    return _apply(conn, lambda: plan_undo(conn, roles), report)


def plan_hardening(conn: Connection[Any], roles: LogRoles) -> list[Step]:
    """Return the remaining steps. Raises HardeningError without a superuser or before the roles exist."""
    _require_superuser(conn)
    return remaining_steps(conn, roles)


def remaining_steps(conn: Connection[Any], roles: LogRoles) -> list[Step]:
    """Return the same to whoever reads the catalogs. Raises HardeningError before the roles exist."""
    _require_roles(conn, (roles.owner, roles.gate, *READERS))
    steps = [*membership_steps(conn, roles)]
    public = _object_statements(conn, grantee=0, giver="PUBLIC", taker=CATALOG_USERS)
    if public:
        steps.append(Step(f"{len(public) // 2} catalogs, schemas and languages: from PUBLIC to catalog_users", public))
    steps += _function_steps(public_functions(conn, CLOSED_SCHEMAS), giver="PUBLIC", taker=CATALOG_USERS)
    for role, wanted in wanted_functions(conn, gate=roles.gate, allowed_functions=SANDBOX_FUNCTIONS).items():
        # An operator's grants to stored queries in schema public stay.
        schemas = CATALOG_SCHEMAS if role == QUERY_READER else CLOSED_SCHEMAS
        granted = granted_functions(conn, role, schemas)
        steps += _grant_steps(wanted - granted, role)
        steps += _revoke_steps(granted - wanted, role)
    return [*steps, *_limit_steps(conn, roles.gate)]


def plan_undo(conn: Connection[Any], roles: LogRoles) -> list[Step]:
    """Return the steps that undo the hardening. Raises HardeningError without a superuser."""
    _require_superuser(conn)
    group = _value(conn, "SELECT to_regrole(%s)::oid", CATALOG_USERS)
    steps: list[Step] = []
    if group is not None:
        kept = _object_statements(conn, grantee=group, giver=CATALOG_USERS, taker="PUBLIC")
        if kept:
            steps.append(Step(f"{len(kept) // 2} catalogs, schemas and languages: back to PUBLIC", kept))
        functions = granted_functions(conn, CATALOG_USERS, CLOSED_SCHEMAS)
        steps += _function_steps(functions, giver=CATALOG_USERS, taker="PUBLIC")
    for role in (*READERS, roles.gate):
        steps += _revoke_steps(granted_functions(conn, role, CATALOG_SCHEMAS), role)
    reset = [name for name in GATE_SUPERUSER_SETTINGS if _gate_setting(conn, roles.gate, name) is not None]
    for name in reset:
        steps.append(Step(f"{roles.gate}: {name} reset", (_alter_gate(conn, roles.gate, "RESET {}", name),)))
    if group is not None and not _is_used_elsewhere(conn, group):
        # Memberships are dropped with the role.
        drop = sql.SQL("DROP ROLE {}").format(sql.Identifier(CATALOG_USERS))
        steps.append(Step("role catalog_users dropped: no database uses it", (drop,)))
    return steps


def _apply(conn: Connection[Any], plan: Callable[[], list[Step]], report: Report) -> int:
    for attempt in range(1, CONFLICT_ATTEMPTS + 1):
        try:
            with conn.transaction():
                steps = plan()
                for step in steps:
                    started = time.monotonic()
                    for statement in step.statements:
                        conn.execute(statement)
                    report(step.summary, time.monotonic() - started)
            return len(steps)
        except (errors.DuplicateObject, errors.UniqueViolation, errors.InternalError_) as error:
            # InternalError_: "tuple concurrently updated", which has no SQLSTATE of its own.
            unrelated = error.sqlstate == "XX000" and "tuple concurrently" not in str(error)
            if unrelated or attempt == CONFLICT_ATTEMPTS:
                raise
            time.sleep(CONFLICT_PAUSE_SECONDS * attempt)
    raise AssertionError("unreachable")


def _value(conn: Connection[Any], query: LiteralString, *arguments: object) -> Any:
    row = conn.execute(query, arguments).fetchone()
    return None if row is None else row[0]


def _require_superuser(conn: Connection[Any]) -> None:
    if not _value(conn, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user"):
        raise HardeningError(
            f'Hardening takes rights on the catalogs from PUBLIC, which only a superuser may do, and "{conn.info.user}"'
            " is not one. Without a superuser (managed PostgreSQL), the roles, views and row security still "
            "protect the rows: see manage.py check_sandbox and ENDPOINTS_SANDBOX_LEVEL."
        )


def _require_roles(conn: Connection[Any], names: Iterable[str]) -> None:
    wanted = list(names)
    known = {name for (name,) in conn.execute("SELECT rolname FROM pg_roles WHERE rolname = ANY (%s)", (wanted,))}
    missing = [name for name in wanted if name not in known]
    if missing:
        raise HardeningError(
            f"No role {', '.join(missing)} yet: run manage.py migrate --database logs first, or, if the database was "
            "restored and has nothing to migrate, manage.py repair_logs."
        )


def _grantee(name: str) -> sql.Composable:
    return sql.SQL("PUBLIC") if name == "PUBLIC" else sql.Identifier(name)


def membership_steps(conn: Connection[Any], roles: LogRoles) -> Iterator[Step]:
    """Yield the steps after which the group catalog_users has its members, which read the catalogs."""
    group = sql.Identifier(CATALOG_USERS)
    if _value(conn, "SELECT to_regrole(%s)::oid", CATALOG_USERS) is None:
        yield Step("role catalog_users created", (sql.SQL("CREATE ROLE {} NOLOGIN").format(group),))
    members = {
        name
        for (name,) in conn.execute(
            "SELECT member::regrole::text FROM pg_auth_members WHERE roleid = to_regrole(%s)", (CATALOG_USERS,)
        )
    }
    option = sql.SQL(" WITH INHERIT TRUE" if conn.info.server_version >= 160000 else "")
    for name in (roles.owner, *PREDEFINED_CATALOG_USERS):
        if sql.Identifier(name).as_string(conn) not in members and name not in members:
            grant = sql.SQL("GRANT {} TO {}{}").format(group, sql.Identifier(name), option)
            yield Step(f"{name}: member of catalog_users", (grant,))


def _object_statements(conn: Connection[Any], *, grantee: int, giver: str, taker: str) -> tuple[sql.Composed, ...]:
    """Return the statements that move the giver's rights on everything but functions to the taker, one GRANT first."""
    rows = conn.execute(_OBJECTS, {"catalogs": list(CATALOG_SCHEMAS), "grantee": grantee})
    statements: list[sql.Composed] = []
    for kind, names, privilege, column in rows.fetchall():
        parts = {
            # PostgreSQL's own words, not a caller's: SELECT, or SELECT (subname).
            "privilege": sql.SQL(privilege if column is None else f"{privilege} ({{}})").format(
                sql.Identifier(column or "")
            ),
            "object": sql.SQL(kind) + sql.SQL(" ") + sql.Identifier(*names),
            "giver": _grantee(giver),
            "taker": _grantee(taker),
        }
        statements.append(sql.SQL("GRANT {privilege} ON {object} TO {taker}").format(**parts))
        statements.append(sql.SQL("REVOKE {privilege} ON {object} FROM {giver}").format(**parts))
    return tuple(statements)


def _routines(functions: Collection[FunctionName]) -> sql.Composed:
    ordered = sorted(functions, key=lambda function: (function.schema, function.name, function.arguments))
    return sql.SQL(", ").join(function.signature() for function in ordered)


def _function_steps(functions: Collection[FunctionName], *, giver: str, taker: str) -> Iterator[Step]:
    if functions:
        parts = {"routines": _routines(functions), "giver": _grantee(giver), "taker": _grantee(taker)}
        statements = (
            sql.SQL("GRANT EXECUTE ON ROUTINE {routines} TO {taker}").format(**parts),
            sql.SQL("REVOKE EXECUTE ON ROUTINE {routines} FROM {giver}").format(**parts),
        )
        yield Step(f"{len(functions)} functions: from {giver} to {taker}", statements)


def _grant_steps(functions: Collection[FunctionName], role: str) -> Iterator[Step]:
    if functions:
        grant = sql.SQL("GRANT EXECUTE ON ROUTINE {} TO {}").format(_routines(functions), sql.Identifier(role))
        yield Step(f"{role}: may call {len(functions)} functions", (grant,))


def _revoke_steps(functions: Collection[FunctionName], role: str) -> Iterator[Step]:
    if functions:
        revoke = sql.SQL("REVOKE EXECUTE ON ROUTINE {} FROM {}").format(_routines(functions), sql.Identifier(role))
        yield Step(f"{role}: may no longer call {len(functions)} functions", (revoke,))


def _limit_steps(conn: Connection[Any], gate: str) -> Iterator[Step]:
    for name, value in {**GATE_SETTINGS, **GATE_SUPERUSER_SETTINGS}.items():
        if _gate_setting(conn, gate, name) != value:
            yield Step(f"{gate}: {name} = {value}", (_alter_gate(conn, gate, "SET {} = {}", name, value),))


def _gate_setting(conn: Connection[Any], gate: str, name: str) -> str | None:
    """Return the value of a setting for the gate in this database, None if it has none of its own."""
    value: str | None = _value(
        conn,
        "SELECT substr(setting, length(%s) + 2) FROM pg_db_role_setting AS s, unnest(s.setconfig) AS setting"
        " WHERE setrole = to_regrole(quote_ident(%s)) AND starts_with(setting, %s || '=')"
        " AND setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())",
        name,
        gate,
        name,
    )
    return value


def _alter_gate(conn: Connection[Any], gate: str, action: LiteralString, name: str, *values: str) -> sql.Composed:
    database = sql.Identifier(str(_value(conn, "SELECT current_database()")))
    change = sql.SQL(action).format(sql.Identifier(name), *map(sql.Literal, values))
    return sql.SQL("ALTER ROLE {} IN DATABASE {} ").format(sql.Identifier(gate), database) + change


def _is_used_elsewhere(conn: Connection[Any], group: int) -> bool:
    """Tell whether another database still has rights of catalog_users, without which the role cannot be dropped."""
    return bool(
        _value(
            conn,
            "SELECT EXISTS (SELECT 1 FROM pg_shdepend WHERE refclassid = 'pg_authid'::regclass AND refobjid = %s"
            " AND dbid NOT IN (0, (SELECT oid FROM pg_database WHERE datname = current_database())))",
            group,
        )
    )
