"""The catalogue of the log database as migrations, hardening and the shipped log sources make it, a fact a line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, LiteralString

import psycopg
import pytest

from tests.recorded.recordings import FOLDER, RECORDING, assert_recorded

pytestmark = [pytest.mark.django_db, pytest.mark.sql, pytest.mark.one_server("roles, rights and tables of one server")]
Connection = psycopg.Connection[Any]
# Roles belong to the whole server, so that of others nothing is said.
_ROLES: Final[LiteralString] = """'{
    all_views, catalog_users, logs_gate, logs_owner, query_reader, sandbox_reader, tenant_views
}'::text[]"""
# Schemas of sandboxes come with endpoints, partitions with days, tables of other log sources with tests.
_OF_SCHEMA: Final[LiteralString] = """
    FROM pg_namespace AS n
    WHERE n.nspname !~ '^(pg_|information_schema$|sandbox_)'"""
_OF_TABLE: Final[LiteralString] = """
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname !~ '^(pg_|information_schema$|sandbox_)' AND NOT c.relispartition"""
_TABLE_OF: Final[LiteralString] = """
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace JOIN
    """
_WHERE: Final[LiteralString] = """
    WHERE n.nspname !~ '^(pg_|information_schema$|sandbox_)' AND NOT c.relispartition"""
FACTS: Final[tuple[LiteralString, ...]] = (
    # Roles, what they are members of, and what holds for their sessions.
    f"""SELECT format('role %s: %s', rolname, concat_ws(', ', CASE WHEN rolcanlogin THEN 'login' ELSE 'no login' END,
        CASE WHEN rolinherit THEN 'inherits' ELSE 'does not inherit' END, CASE WHEN rolsuper THEN 'superuser' END,
        CASE WHEN rolcreaterole THEN 'creates roles' END, CASE WHEN rolbypassrls THEN 'bypasses row security' END,
        CASE WHEN rolreplication THEN 'replicates' END, 'connections ' || rolconnlimit))
        FROM pg_roles WHERE rolname = ANY ({_ROLES})""",
    f"""SELECT format('membership: %s in %s%s', m.member::regrole, m.roleid::regrole,
        CASE WHEN m.admin_option THEN ', may grant it' END)
        FROM pg_auth_members AS m JOIN pg_roles AS r ON r.oid = m.roleid JOIN pg_roles AS w ON w.oid = m.member
        WHERE (r.rolname = ANY ({_ROLES}) OR w.rolname = ANY ({_ROLES}))
            AND NOT (m.admin_option AND m.grantor = 10) -- newer versions give it to whoever creates a role
            AND w.rolname = ANY ({_ROLES} || '{{pg_monitor,pg_read_all_data}}'::text[])""",
    f"""SELECT format('setting of %s: %s', s.setrole::regrole, setting)
        FROM pg_db_role_setting AS s, unnest(s.setconfig) AS setting
        WHERE s.setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
            OR s.setrole::regrole::text = ANY ({_ROLES}) AND s.setdatabase = 0""",
    # The database and its schemas.
    """SELECT format('database: %s to %s', a.privilege_type, coalesce(nullif(a.grantee, 0)::regrole::text, 'PUBLIC'))
        FROM pg_database AS d, aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) AS a
        WHERE d.datname = current_database()""",
    "SELECT format('extension %s', extname) FROM pg_extension",
    "SELECT format('schema %s: owner %s', n.nspname, n.nspowner::regrole)" + _OF_SCHEMA,
    """SELECT format('schema %s says of itself: %s', n.nspname, d.description)
        FROM pg_namespace AS n JOIN pg_description AS d ON d.objoid = n.oid AND d.classoid = 'pg_namespace'::regclass
        WHERE n.nspname !~ '^(pg_|information_schema$|public$|sandbox_)'""",
    """SELECT format('schema %s: %s to %s%s', n.nspname, a.privilege_type,
        coalesce(nullif(a.grantee, 0)::regrole::text, 'PUBLIC'), CASE WHEN a.is_grantable THEN ', may grant it' END)
        FROM pg_namespace AS n, aclexplode(n.nspacl) AS a WHERE n.nspname !~ '^(pg_|information_schema$|sandbox_)'""",
    """SELECT format('default rights of %s on %s in %s: %s', d.defaclrole::regrole, d.defaclobjtype,
        coalesce(nullif(d.defaclnamespace, 0)::regnamespace::text, 'every schema'), d.defaclacl)
        FROM pg_default_acl AS d""",
    # Tables, views and sequences.
    """SELECT format('%s %s.%s: owner %s%s%s%s',
        CASE c.relkind WHEN 'r' THEN 'table' WHEN 'p' THEN 'table' WHEN 'v' THEN 'view' WHEN 'S' THEN 'sequence'
            ELSE 'relation ' || c.relkind::text END,
        n.nspname, c.relname, c.relowner::regrole, ', partitioned by ' || pg_get_partkeydef(c.oid),
        CASE WHEN c.relrowsecurity THEN ', row security' END, CASE WHEN c.relforcerowsecurity THEN ', also of the owner'
        END)"""
    + _OF_TABLE
    + " AND c.relkind NOT IN ('i', 'I', 'c')",
    """SELECT format('column %s.%s.%s: %s %s%s%s', n.nspname, c.relname, lpad(a.attnum::text, 2, '0'), a.attname,
        format_type(a.atttypid, a.atttypmod), CASE WHEN a.attnotnull THEN ', not null' END,
        ', ' || CASE a.attgenerated WHEN 's' THEN 'always ' ELSE 'default ' END || pg_get_expr(d.adbin, d.adrelid))"""
    + _TABLE_OF
    + "pg_attribute AS a ON a.attrelid = c.oid LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum"
    + _WHERE
    + " AND a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'p', 'v')",
    """SELECT format('rights on %s.%s: %s to %s', n.nspname, c.relname, a.privilege_type,
        coalesce(nullif(a.grantee, 0)::regrole::text, 'PUBLIC'))
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace, aclexplode(c.relacl) AS a"""
    + _WHERE
    # Of a table's owner every version has all rights, under other names.
    + " AND a.grantee <> c.relowner",
    """SELECT format('policy %s on %s.%s: %s %s to %s using %s with check %s', p.polname, n.nspname, c.relname,
        CASE WHEN p.polpermissive THEN 'permissive' ELSE 'restrictive' END, p.polcmd,
        array(SELECT coalesce(nullif(role, 0)::regrole::text, 'PUBLIC') FROM unnest(p.polroles) AS role
            ORDER BY 1),
        pg_get_expr(p.polqual, p.polrelid), coalesce(pg_get_expr(p.polwithcheck, p.polrelid), 'nothing'))"""
    + _TABLE_OF
    + "pg_policy AS p ON p.polrelid = c.oid"
    + _WHERE,
    "SELECT format('index: %s', pg_get_indexdef(i.indexrelid))"
    + _TABLE_OF
    + "pg_index AS i ON i.indrelid = c.oid"
    + _WHERE,
    "SELECT format('constraint on %s.%s: %s %s', n.nspname, c.relname, o.conname, pg_get_constraintdef(o.oid))"
    + _TABLE_OF
    + "pg_constraint AS o ON o.conrelid = c.oid"
    + _WHERE
    + " AND o.contype <> 'n'",  # newer versions have a constraint for each NOT NULL, which columns have above
    "SELECT format('trigger on %s.%s: %s', n.nspname, c.relname, pg_get_triggerdef(t.oid))"
    + _TABLE_OF
    + "pg_trigger AS t ON t.tgrelid = c.oid"
    + _WHERE
    + " AND NOT t.tgisinternal",
    # Functions and operators.
    """SELECT format('function %s.%s(%s) -> %s: %s%s', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid),
        pg_get_function_result(p.oid), concat_ws(', ', l.lanname,
        CASE p.provolatile WHEN 'i' THEN 'immutable' WHEN 's' THEN 'stable' ELSE 'volatile' END,
        CASE p.proparallel WHEN 's' THEN 'parallel safe' WHEN 'r' THEN 'parallel restricted' END,
        CASE WHEN p.proisstrict THEN 'strict' END, CASE WHEN p.prosecdef THEN 'security definer' END,
        CASE WHEN p.proleakproof THEN 'leakproof' END, 'owner ' || p.proowner::regrole,
        'set ' || array_to_string(p.proconfig, ', set ')),
        (SELECT string_agg(', ' || coalesce(nullif(a.grantee, 0)::regrole::text, 'PUBLIC') || ' may call it', ''
            ORDER BY a.grantee::regrole::text COLLATE "C")
         FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a WHERE a.grantee <> p.proowner))
        FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace JOIN pg_language AS l ON l.oid = p.prolang
        WHERE n.nspname !~ '^(pg_|information_schema$|sandbox_)'
            AND NOT EXISTS (SELECT FROM pg_depend AS e WHERE e.objid = p.oid AND e.deptype = 'e')""",
    """SELECT format('operator %s.%s (%s, %s) -> %s: %s', n.nspname, o.oprname,
        coalesce(nullif(o.oprleft, 0)::regtype::text, 'none'), o.oprright::regtype, o.oprresult::regtype, o.oprcode)
        FROM pg_operator AS o JOIN pg_namespace AS n ON n.oid = o.oprnamespace
        WHERE n.nspname !~ '^(pg_|information_schema$|sandbox_)'""",
    """SELECT format('type %s.%s: %s', n.nspname, t.typname, t.typtype)
        FROM pg_type AS t JOIN pg_namespace AS n ON n.oid = t.typnamespace
        WHERE n.nspname !~ '^(pg_|information_schema$|sandbox_)' AND t.typrelid = 0 AND t.typelem = 0""",
)
# Of PostgreSQL's own functions, which are others in each version: what sandboxes may call, and what stored queries may
# not. A line has all functions of one name.
OWN_FUNCTIONS: Final[LiteralString] = """
    SELECT format('%s %s: %s', who, name, string_agg(arguments, ' ' ORDER BY arguments COLLATE "C"))
    FROM (
        SELECT reader.oid::regrole || CASE has_function_privilege(reader.oid, p.oid, 'EXECUTE')
            WHEN true THEN ' may call' ELSE ' may not call' END AS who, n.nspname || '.' || p.proname AS name,
            format('(%s)', pg_get_function_identity_arguments(p.oid)) AS arguments
        FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace,
            (VALUES ('logs_gate', true), ('sandbox_reader', true), ('query_reader', false)) AS told (name, callable)
            JOIN pg_roles AS reader ON reader.rolname = told.name
        WHERE n.nspname IN ('pg_catalog', 'information_schema', 'public')
            AND has_function_privilege(reader.oid, p.oid, 'EXECUTE') = told.callable
    ) AS told
    GROUP BY who, name"""


def read(connection: Connection, facts: LiteralString) -> Iterator[str]:
    for (line,) in connection.execute(facts):
        yield " ".join(line.split())


def test_the_catalogue_is_as_recorded(superuser: Connection) -> None:
    superuser.execute("SET search_path = ''")
    lines = sorted({line for facts in FACTS for line in read(superuser, facts)})
    assert_recorded("catalogue.txt", lines)


def test_readers_may_call_the_recorded_functions_of_postgresql(superuser: Connection) -> None:
    """There is a recording of the oldest and the newest version, on which a change must pass (`.ci/run`)."""
    superuser.execute("SET search_path = ''")
    lines = sorted(read(superuser, OWN_FUNCTIONS))
    name = f"callable_functions_{superuser.info.server_version // 10_000}.txt"
    if RECORDING or (FOLDER / name).exists():
        assert_recorded(name, lines)
    assert any(line.startswith("sandbox_reader may call pg_catalog.abs: ") for line in lines)
    assert any(line.startswith("query_reader may not call pg_catalog.set_config: ") for line in lines)
