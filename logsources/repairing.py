"""Sets up roles, functions and rights of the log database, and repairs what a restored dump of it lacks.

A dump is of one database: roles belong to the cluster, settings of a role in a database come with `pg_dump --create`
alone, and each statement that names a missing role, or that the restoring role may not run, is lost. Then migrations
are recorded as applied, but their work is not there. So it is done again here, and what that changed is found by
comparing PostgreSQL's catalogs before and after. Sandbox schemas are published anew by `endpoints`; rights on
PostgreSQL's own functions and catalogs come from `hardening`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, LiteralString

from django.conf import settings
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from psycopg import Connection, sql

from logsources.hardening import LogRoles, Step, membership_steps
from logsources.log_functions import ensure_guard_functions, ensure_log_functions
from logsources.roles import READERS, VIEW_OWNERS, ensure_roles
from logsources.schema_numbers import number_log_schema
from logsources.table_changes import is_secured
from logsources.tables import secure_table
from logsources.topology import read_topology

NAMES_SHOWN: Final = 6  # of many changes of one kind

# What the owner owns, with its rights and what else may differ.
_OBJECTS: Final[LiteralString] = """
    WITH ours AS (SELECT oid FROM pg_namespace WHERE nspname IN ('logs', 'logs_private', 'log_functions')),
    objects AS (SELECT of_class.*, what.type, what.identity FROM (
        SELECT 'pg_database'::regclass, oid, datdba, coalesce(datacl, acldefault('d', datdba)), ''
        FROM pg_database WHERE datname = current_database()
        UNION ALL SELECT 'pg_namespace'::regclass, oid, nspowner, nspacl, ''
        FROM pg_namespace WHERE oid IN (TABLE ours) OR starts_with(nspname, 'sandbox_')
        UNION ALL SELECT 'pg_class'::regclass, oid, relowner, relacl, relrowsecurity::text
        FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace IN (TABLE ours)
            OR oid = to_regclass('public.django_migrations')
        UNION ALL SELECT 'pg_proc'::regclass, oid, proowner, coalesce(proacl, acldefault('f', proowner)),
            md5(pg_get_functiondef(oid)) FROM pg_proc WHERE pronamespace IN (TABLE ours)
        UNION ALL SELECT 'pg_operator'::regclass, oid, oprowner, NULL, ''
        FROM pg_operator WHERE oprnamespace IN (TABLE ours)
        UNION ALL SELECT 'pg_type'::regclass, oid, typowner, NULL, ''
        FROM pg_type WHERE typnamespace IN (TABLE ours) AND typtype = 'd'
    ) AS of_class (class, id, owner, rights, state), pg_identify_object(class, id, 0) AS what)"""
_STATE: Final[LiteralString] = """
    SELECT type, identity, state FROM objects
    UNION ALL SELECT 'right', format('%%s of %%s on %%s', privilege_type,
        CASE grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(grantee) END, identity), ''
    FROM objects, aclexplode(rights) WHERE grantee <> owner
    UNION ALL SELECT 'row policy', identity, concat(polroles::regrole[], pg_get_expr(polqual, polrelid))
    FROM pg_policy, pg_identify_object('pg_policy'::regclass, oid, 0)
    UNION ALL SELECT 'role', rolname, '' FROM pg_roles WHERE rolname = ANY (%(roles)s)
    UNION ALL SELECT 'membership', format('%%s in %%s', pg_get_userbyid(member), pg_get_userbyid(roleid)), ''
    FROM pg_auth_members WHERE pg_get_userbyid(roleid) = ANY (%(roles)s)
    UNION ALL SELECT 'setting', format('%%s of %%s', setting, pg_get_userbyid(setrole)), ''
    FROM pg_db_role_setting JOIN pg_database ON pg_database.oid = setdatabase, unnest(setconfig) AS setting
    WHERE datname = current_database() AND pg_get_userbyid(setrole) = ANY (%(roles)s)"""
_OF_OTHERS: Final[LiteralString] = """
    SELECT format('ALTER %%s %%s OWNER TO %%I', type, identity, %(owner)s::text)
    FROM objects WHERE pg_get_userbyid(owner) <> %(owner)s"""


def set_up_log_database(apps: object, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Create what is missing, and update the rest: what the migration does in the log database."""
    connection = schema_editor.connection
    connection.ensure_connection()
    _ensure_all(connection.connection, settings.LOGS_GATE)


def _ensure_all(conn: Connection[Any], gate: Mapping[str, Any]) -> None:
    ensure_roles(conn, gate)
    ensure_log_functions(conn)
    ensure_guard_functions(conn)
    number_log_schema(conn)


def repair_rights(conn: Connection[Any], gate: Mapping[str, Any]) -> list[str]:
    """Do again what migrations and saved log sources do to roles, functions and rights; return in words what changed.

    Repeatable. `conn` is the owner's, on one server. Raises as `ensure_roles` does.
    """
    before = _read_state(conn, gate)
    with conn.transaction():
        _ensure_all(conn, gate)
        topology = read_topology(conn)
        found = "SELECT relname FROM pg_class WHERE relnamespace = 'logs'::regnamespace AND relkind = 'p'"
        for (name,) in conn.execute(found).fetchall():
            if not is_secured(conn, name, topology):
                for statement in secure_table(name, topology):
                    conn.execute(statement)
    return list(_differences(before, _read_state(conn, gate)))


def lost_rights(conn: Connection[Any], gate: Mapping[str, Any]) -> list[str]:
    """Return what `repair_rights` would change; everything is rolled back. Raises the same."""
    with conn.transaction(force_rollback=True):
        return repair_rights(conn, gate)


def plan_handing_back(conn: Connection[Any], roles: LogRoles) -> list[Step]:
    """Return a superuser's steps that the owner needs: to own what a superuser has restored, and to read catalogs."""
    found = conn.execute(f"{_OBJECTS} {_OF_OTHERS}", {"owner": roles.owner})
    statements = tuple(sql.Composed([sql.SQL(statement)]) for (statement,) in found)
    handed = [Step(f"given back to {roles.owner}: {len(statements)} objects", statements)] if statements else []
    return [*membership_steps(conn, roles), *handed]


def _read_state(conn: Connection[Any], gate: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    found = conn.execute(f"{_OBJECTS} {_STATE}", {"roles": [gate.get("user"), *READERS, *VIEW_OWNERS]})
    return {(kind, name): state for kind, name, state in found}


def _differences(before: Mapping[tuple[str, str], str], after: Mapping[tuple[str, str], str]) -> Iterator[str]:
    """Yield a line for each kind of thing: function restored: logs_private.tenant()."""
    changed = {key for key in before.keys() & after.keys() if before[key] != after[key]}
    lost = {"restored": after.keys() - before.keys(), "changed": changed, "removed": before.keys() - after.keys()}
    for verb, found in lost.items():
        for kind in sorted({kind for kind, _ in found}):
            names = sorted(name for of_kind, name in found if of_kind == kind)
            more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
            yield f"{kind} {verb}: {', '.join(names[:NAMES_SHOWN])}{more}"
