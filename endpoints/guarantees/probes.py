"""Probes of a live log database: each returns its findings in words; no finding means that the promise holds.

They ask PostgreSQL's own catalogs, as the owner, and try forbidden statements, as the gate.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, LiteralString

from django.db import connections
from psycopg import Connection, errors, sql

from logsources.function_rights import SETTING_FUNCTIONS, FunctionName, callable_functions, wanted_functions
from logsources.hardening import SANDBOX_FUNCTIONS
from logsources.log_functions import FUNCTION_SCHEMA, GUARD_FUNCTIONS, LOG_FUNCTIONS
from logsources.roles import (
    ALL_VIEWS,
    GATE_SETTINGS,
    QUERY_READER,
    READERS,
    SANDBOX_READER,
    TENANT_VIEWS,
    VIEW_OWNERS,
)
from logsources.tables import policy_names
from logsources.topology import Topology, read_topology

NAMES_SHOWN: Final = 4  # of many similar findings
UNLIMITED: Final = ("0", "-1")
SILENT: Final = ("fatal", "panic")  # no message of a failed statement is as serious
POWERS: Final[LiteralString] = "rolsuper OR rolbypassrls OR rolcreaterole OR rolcreatedb OR rolreplication"


@dataclass(frozen=True)
class LogDatabase:
    """The connections of the probes, and answers that several probes need, each queried once."""

    owner: Connection[Any]
    gate: Connection[Any]
    node: str = ""  # its `host:port`, for a worker of a cluster

    @property
    def gate_name(self) -> str:
        return self.gate.info.user

    def column(self, query: LiteralString, *arguments: object) -> list[str]:
        """Return the first column of a query run by the owner."""
        return [str(row[0]) for row in self.owner.execute(query, arguments)]

    @cached_property
    def topology(self) -> Topology:
        return read_topology(self.owner)

    @property
    def is_worker(self) -> bool:
        """Whether this is a worker of a cluster."""
        return bool(self.node)

    @property
    def usable_schemas(self) -> list[str]:
        """The schemas of the logs that sandbox_reader may use.

        The nodes of a cluster exchange the texts of queries, with the names of tables and functions that a view
        contains; row policies are the wall there.
        """
        if not self.topology.is_distributed:
            return []
        return ["logs", "logs_private"] if self.is_worker else ["logs_private"]

    @cached_property
    def wanted(self) -> dict[str, set[FunctionName]]:
        """The functions that each role should be able to call: PostgreSQL's by hardening, ours by migrations."""
        wanted = wanted_functions(self.owner, gate=self.gate_name, allowed_functions=SANDBOX_FUNCTIONS)
        ours = LOG_FUNCTIONS | GUARD_FUNCTIONS
        if self.topology.is_distributed:
            ours |= SETTING_FUNCTIONS
        return {role: names | ours if role in READERS else names for role, names in wanted.items()}

    @cached_property
    def callable_in_sandbox(self) -> set[FunctionName]:
        """The functions that sandbox queries can call."""
        return callable_functions(self.owner, SANDBOX_READER)


def _some(names: Iterable[object]) -> str:
    ordered = sorted(map(str, names))
    more = len(ordered) - NAMES_SHOWN
    return ", ".join(ordered[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _finding(role: str, may: str, names: Iterable[object]) -> list[str]:
    found = set(names)
    return [f"{role} {may} {_some(found)}"] if found else []


# --- Functions --------------------------------------------------------------------------------------------------------


def sandbox_functions(logs: LogDatabase) -> list[str]:
    return _finding(SANDBOX_READER, "may call", logs.callable_in_sandbox - logs.wanted[SANDBOX_READER])


def other_functions(logs: LogDatabase) -> list[str]:
    findings: list[str] = []
    for role in (logs.gate_name, QUERY_READER):
        # An operator granted functions of other schemas, on purpose.
        own = {name for name in callable_functions(logs.owner, role) if name.schema == "pg_catalog"}
        findings += _finding(role, "may call", own - logs.wanted[role])
    return findings


def missing_functions(logs: LogDatabase) -> list[str]:
    return _finding(SANDBOX_READER, "may not call", logs.wanted[SANDBOX_READER] - logs.callable_in_sandbox)


# --- Tables, views and schemas ----------------------------------------------------------------------------------------


def catalogs(logs: LogDatabase) -> list[str]:
    readable = logs.column(
        """SELECT c.oid::regclass FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname IN ('pg_catalog', 'information_schema') AND c.relkind IN ('r', 'v', 'm', 'p', 'f')
        AND has_any_column_privilege(%s, c.oid, 'SELECT, INSERT, UPDATE')""",
        SANDBOX_READER,
    )
    return _finding(SANDBOX_READER, "may read", readable)


def relations(logs: LogDatabase) -> list[str]:
    """Everything except catalogs: only views of sandbox schemas may be read, nothing may be written."""
    where: LiteralString = """
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
        AND c.relkind IN ('r', 'v', 'm', 'p', 'f', 'S')
        AND (n.nspname IN ('logs', 'logs_private') OR has_schema_privilege(%s, n.oid, 'USAGE')) AND """
    readable = logs.column(
        "SELECT c.oid::regclass" + where + "NOT (starts_with(n.nspname, 'sandbox_') AND c.relkind = 'v')"
        " AND NOT (%s AND n.nspname = 'logs' AND c.relkind = 'p' AND c.relrowsecurity)"
        + " AND CASE c.relkind WHEN 'S' THEN has_sequence_privilege(%s, c.oid, 'USAGE, SELECT, UPDATE')"
        " ELSE has_any_column_privilege(%s, c.oid, 'SELECT') END",
        SANDBOX_READER,
        logs.topology.is_distributed,
        *[SANDBOX_READER] * 2,
    )
    writable = logs.column(
        "SELECT c.oid::regclass"
        + where
        + "c.relkind <> 'S' AND has_table_privilege(%s, c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER')",
        *[SANDBOX_READER] * 2,
    )
    return [*_finding(SANDBOX_READER, "may read", readable), *_finding(SANDBOX_READER, "may write", writable)]


def log_schemas(logs: LogDatabase) -> list[str]:
    usable = logs.column(
        """SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg\\_temp\\_%%' AND (
            nspname IN ('logs', 'logs_private') AND nspname <> ALL (%s) AND has_schema_privilege(%s, oid, 'USAGE')
            OR has_schema_privilege(%s, oid, 'CREATE'))""",
        logs.usable_schemas,
        *[SANDBOX_READER] * 2,
    )
    return _finding(SANDBOX_READER, "may use or create in schema", usable)


def public_schema(logs: LogDatabase) -> list[str]:
    usable = logs.column(
        """SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg\\_temp\\_%%' AND nspname <> 'pg_catalog'
            AND NOT starts_with(nspname, 'sandbox_') AND nspname NOT IN ('logs', 'logs_private', %s)
            AND has_schema_privilege(%s, oid, 'USAGE')""",
        FUNCTION_SCHEMA,
        SANDBOX_READER,
    )
    return _finding(SANDBOX_READER, "may use schema", usable)


def database(logs: LogDatabase) -> list[str]:
    findings: list[str] = []
    for role in (*READERS, logs.gate_name):
        rights = logs.column(
            "SELECT p FROM unnest(ARRAY['TEMPORARY', 'CREATE']) AS p"
            " WHERE has_database_privilege(%s, current_database(), p)",
            role,
        )
        findings += _finding(role, "has on the database:", rights)
    return findings


def row_security(logs: LogDatabase) -> list[str]:
    bare = logs.column(
        "SELECT oid::regclass FROM pg_class WHERE relnamespace = 'logs'::regnamespace AND relkind IN ('r', 'p')"
        " AND NOT relrowsecurity"
    )
    wrong = logs.column(
        """SELECT c.oid::regclass FROM pg_class AS c LEFT JOIN pg_policies AS p
            ON p.schemaname = 'logs' AND p.tablename = c.relname
        WHERE c.relnamespace = 'logs'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
        GROUP BY c.oid HAVING NOT coalesce(array_agg(p.policyname::text ORDER BY p.policyname) = %s
            AND bool_and(p.cmd = 'SELECT' AND p.roles = ARRAY[replace(p.policyname, '_rows', '')::name])
            AND bool_and(p.policyname = %s OR p.qual LIKE %s), false)""",
        policy_names(logs.topology),
        f"{ALL_VIEWS}_rows",
        "%project = logs_private.tenant()%"
        if logs.topology.is_distributed
        else "%project = ( SELECT logs_private.tenant()%",
    )
    opened = logs.column(
        "SELECT polrelid::regclass FROM pg_policy JOIN pg_class ON pg_class.oid = polrelid"
        " WHERE relnamespace = 'logs'::regnamespace AND relispartition"
    )
    return [
        *_finding("row security", "is off on", bare),
        *_finding("row policies", "are not the expected ones on", wrong),
        *_finding("a partition", "has a row policy of its own:", opened),
    ]


def views(logs: LogDatabase) -> list[str]:
    strangers = logs.column(
        """SELECT c.oid::regclass FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE starts_with(n.nspname, 'sandbox_') AND (c.relkind <> 'v' OR c.relowner::regrole::text <> ALL (%s))
        AND has_any_column_privilege(%s, c.oid, 'SELECT')""",
        list(VIEW_OWNERS),
        SANDBOX_READER,
    )
    powerful = logs.column(
        sql.SQL("SELECT rolname FROM pg_roles WHERE rolname = ANY (%s) AND (rolcanlogin OR {})")
        .format(sql.SQL(POWERS))
        .as_string(logs.owner),
        list(VIEW_OWNERS),
    )
    # The row policies of a table do not bind its owner.
    owned = logs.column(
        "SELECT oid::regclass FROM pg_class WHERE relnamespace = 'logs'::regnamespace AND relowner::regrole::text ="
        " ANY (%s)",
        [*VIEW_OWNERS, *READERS],
    )
    return [
        *_finding("sandbox schemas", "contain something other than views of a view role:", strangers),
        *_finding("a view role", "can log in or has powers:", powerful),
        *_finding("a view role or reader", "owns", owned),
    ]


def views_told_apart(logs: LogDatabase) -> list[str]:
    # The functions that a view's query calls are among the dependencies of its rule.
    shown_to_all = logs.column(
        """SELECT c.oid::regclass FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE starts_with(n.nspname, 'sandbox_') AND c.relkind = 'v'
        AND has_any_column_privilege(%s, c.oid, 'SELECT') AND NOT EXISTS (
            SELECT 1 FROM pg_rewrite AS r JOIN pg_depend AS d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
            WHERE r.ev_class = c.oid AND d.refclassid = 'pg_proc'::regclass
            AND d.refobjid = to_regprocedure('logs_private.armed_for(text)'))""",
        SANDBOX_READER,
    )
    return _finding("sandbox schemas", "contain views that do not check for an armed session:", shown_to_all)


def view_owners(logs: LogDatabase) -> list[str]:
    findings: list[str] = []
    for role in (TENANT_VIEWS, ALL_VIEWS, QUERY_READER):
        readable = logs.column(
            """SELECT c.oid::regclass FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
            WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') AND c.relkind IN ('r', 'm', 'p')
            AND (n.nspname <> 'logs' OR c.relispartition) AND has_any_column_privilege(%s, c.oid, 'SELECT')""",
            role,
        )
        findings += _finding(role, "may read tables other than log tables:", readable)
    return findings


# --- Roles and limits -------------------------------------------------------------------------------------------------


def readers(logs: LogDatabase) -> list[str]:
    # Citus logs in on a worker as the reader of a query.
    powerful = logs.column(
        sql.SQL("SELECT rolname FROM pg_roles WHERE rolname = ANY (%s) AND (rolcanlogin AND NOT %s OR {})")
        .format(sql.SQL(POWERS))
        .as_string(logs.owner),
        list(READERS),
        logs.is_worker,
    )
    memberships = logs.column(
        "SELECT format('%%s of %%s', member::regrole, roleid::regrole) FROM pg_auth_members"
        " WHERE member::regrole::text = ANY (%s)",
        [*READERS, *VIEW_OWNERS],
    )
    return [
        *_finding("a reader", "can log in or has powers:", powerful),
        *_finding("a reader or view role", "is a member:", memberships),
    ]


def gate(logs: LogDatabase) -> list[str]:
    powers = logs.column(
        sql.SQL("SELECT rolname FROM pg_roles WHERE rolname = %s AND ({} OR rolinherit)")
        .format(sql.SQL(POWERS))
        .as_string(logs.owner),
        logs.gate_name,
    )
    owned = logs.column(
        "SELECT classid::regclass FROM pg_shdepend WHERE deptype = 'o' AND refclassid = 'pg_authid'::regclass"
        " AND refobjid = quote_ident(%s)::regrole",
        logs.gate_name,
    )
    becomes = logs.column(
        "SELECT rolname FROM pg_roles WHERE pg_has_role(%s, oid, 'MEMBER') AND rolname <> ALL (%s)",
        logs.gate_name,
        [*READERS, logs.gate_name],
    )
    return [
        *_finding("the gate login", "inherits rights or has powers:", powers),
        *_finding("the gate login", "owns objects listed in", owned),
        *_finding("the gate login", "may become", becomes),
    ]


def service_database(logs: LogDatabase) -> list[str]:
    with connections["default"].cursor() as cursor:
        cursor.execute(
            "SELECT current_database() FROM pg_roles WHERE rolname = %s"
            " AND has_database_privilege(rolname, current_database(), 'CONNECT')",
            [logs.gate_name],
        )
        return _finding("the gate login", "may connect to the database", (row[0] for row in cursor.fetchall()))


def _shown(logs: LogDatabase, name: str) -> str:
    # SHOW needs no function; the gate may call none.
    row = logs.gate.execute(sql.SQL("SHOW {}").format(sql.Identifier(name))).fetchone()
    return str(row[0]) if row else ""


def text_settings(logs: LogDatabase) -> list[str]:
    wanted = {"standard_conforming_strings": "on", "server_encoding": "UTF8", "default_transaction_read_only": "on"}
    shown = {name: _shown(logs, name) for name in wanted}
    return [f"the gate's {name} is {shown[name]}" for name, value in wanted.items() if shown[name] != value]


def time_limits(logs: LogDatabase) -> list[str]:
    names = [name for name in GATE_SETTINGS if name.endswith("_timeout")]
    return [f"the gate's {name} is off" for name in names if _shown(logs, name) in UNLIMITED]


def space_limits(logs: LogDatabase) -> list[str]:
    return ["the gate's temp_file_limit is off"] if _shown(logs, "temp_file_limit") in UNLIMITED else []


def server_log(logs: LogDatabase) -> list[str]:
    shown = {name: _shown(logs, name) for name in ("log_min_messages", "log_min_error_statement")}
    return [f"the gate's {name} is {value}" for name, value in shown.items() if value not in SILENT]


# --- Tried out --------------------------------------------------------------------------------------------------------


def log_tables_tried(logs: LogDatabase) -> list[str]:
    names = logs.column(
        "SELECT format('SELECT 1 FROM %%I.%%I', 'logs', relname) FROM pg_class"
        " WHERE relnamespace = 'logs'::regnamespace AND relkind = 'p' ORDER BY relname LIMIT 3"
    )
    functions = ["SELECT logs_private.argument('project')", "SELECT logs_private.tenant()"]
    return _succeed(logs, names if logs.topology.is_distributed else [*names, *functions])


def catalogs_tried(logs: LogDatabase) -> list[str]:
    return _succeed(
        logs,
        [
            "SELECT set_config('logs.tenant', '=', true)",
            "SELECT current_setting('logs.tenant', true)",
            "SELECT 1 FROM pg_class",
            "SELECT 1 FROM information_schema.tables",
            "SELECT query_to_xml('SELECT 1', true, true, '')",
            "SELECT pg_advisory_xact_lock(0)",
            "SELECT pg_notify('sandbox', '')",
            "SELECT lo_creat(-1)",
        ],
    )


def _succeed(logs: LogDatabase, statements: Iterable[str]) -> list[str]:
    """Return the statements that PostgreSQL does not refuse to sandbox_reader for lack of a privilege."""
    succeeded: list[str] = []
    for statement in statements:
        try:
            with logs.gate.transaction(force_rollback=True):
                logs.gate.execute("SELECT set_config('role', %s, true)", [SANDBOX_READER])
                logs.gate.execute(statement.encode())
        except errors.InsufficientPrivilege:
            continue
        except errors.DatabaseError as error:
            succeeded.append(f"{statement} ({error.sqlstate})")
        else:
            succeeded.append(statement)
    return [f"{SANDBOX_READER} may run: {statement}" for statement in succeeded]
