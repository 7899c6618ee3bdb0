"""The promises of the log database about the sandbox: each guarantee, and what an attacker gets if it fails.

The list is complete for a query that gets past the checker: the only thing that such a query can still do is to read
PostgreSQL's own answer to constants, such as whether 'x'::regclass or 1259::regclass names a relation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from psycopg import errors

from endpoints.guarantees import probes
from endpoints.guarantees.probes import LogDatabase
from logsources.roles import SANDBOX_READER

# --- Limit probes -----------------------------------------------------------------------------------------------------
# Tests whether a server process of the log database has a memory limit: it tries, because no setting shows it.
#
# It is a limit of the operating system (docs/production.md, "Memory of PostgreSQL"). If there is none, the test takes
# over a gigabyte for a moment, so the service itself never runs it; `check_sandbox` does.
# format() asks for a gigabyte at once, would fill so much of it and copy that: 1.6 GiB. A limit of 1 GiB refuses this
# before a byte is written. The text does not go through the checker, which refuses such widths.
TRIED_CHARACTERS: Final = 600_000_000
MISSING: Final = (
    "a query of 40 characters got over a gigabyte of memory; set a limit for one server process where PostgreSQL is"
    " started: LimitDATA=1G in its systemd unit, `ulimits: data` in docker-compose.yml, or `ulimit -d 1048576` in the"
    " shell"
)


def memory_limit(logs: LogDatabase) -> list[str]:
    """Return the findings after sandbox_reader asked for far more memory than a query needs."""
    try:
        with logs.gate.transaction(force_rollback=True):
            logs.gate.execute("SELECT set_config('role', %s, true)", [SANDBOX_READER])
            logs.gate.execute("SELECT pg_catalog.length(pg_catalog.format(%s, ''))", [f"%{TRIED_CHARACTERS}s"])
    except errors.OutOfMemory:
        return []
    return [MISSING]


# --- Catalogue --------------------------------------------------------------------------------------------------------
class SandboxLevel(IntEnum):
    """The guarantees that must hold before sandbox queries are served; a level needs all guarantees up to it."""

    ROW_SECURITY = 1  # roles, views and row policies: without a superuser (managed PostgreSQL)
    FULL = 2  # the catalogs and PostgreSQL's functions are closed too: harden_logs has run
    ADVICE = 3  # reported, never needed


@dataclass(frozen=True, slots=True)
class Guarantee:
    """A promise, and what an attacker who got past the checker can do if it does not hold."""

    name: str
    promise: str
    consequence: str
    level: SandboxLevel
    probe: Callable[[LogDatabase], list[str]]
    is_costly: bool = False  # tried only by the operator's command
    is_of_every_node: bool = False  # the workers of a cluster must keep it too


_ROWS, _FULL, _ADVICE = SandboxLevel.ROW_SECURITY, SandboxLevel.FULL, SandboxLevel.ADVICE

GUARANTEES: Final = (
    Guarantee(
        "log tables closed",
        "sandbox_reader reads views of sandbox schemas and nothing else, and writes nothing",
        "reads log rows of every project, or changes them",
        _ROWS,
        probes.relations,
        is_of_every_node=True,
    ),
    Guarantee(
        "schemas closed",
        "sandbox_reader may not use the schemas logs and logs_private, and may not create in any schema",
        "reads other arguments, and puts own functions where PostgreSQL finds them first",
        _ROWS,
        probes.log_schemas,
        is_of_every_node=True,
    ),
    Guarantee(
        "row security on",
        "every log table has row security and exactly the policies of the readers; partitions have none",
        "reads log rows of other projects",
        _ROWS,
        probes.row_security,
        is_of_every_node=True,
    ),
    Guarantee(
        "views under row security",
        "views of sandbox schemas belong to tenant_views or all_views, which own no table and pass no row policy",
        "reads log rows of other projects through a view",
        _ROWS,
        probes.views,
    ),
    Guarantee(
        "views told apart",
        "a view shows rows only to sessions that were armed for its own schema",
        "reads the views of another endpoint, which may show every project",
        _ROWS,
        probes.views_told_apart,
    ),
    Guarantee(
        "view owners confined",
        "tenant_views, all_views and query_reader read log tables and nothing else",
        "reads every table that a stored query can be made to name",
        _ROWS,
        probes.view_owners,
    ),
    Guarantee(
        "readers powerless",
        "readers and view roles cannot log in, have no powers and are members of no role",
        "acts with the rights of another role",
        _ROWS,
        probes.readers,
        is_of_every_node=True,
    ),
    Guarantee(
        "gate powerless",
        "the gate login has no powers, owns nothing and can become only the readers",
        "leaves sandbox_reader and acts as another role",
        _ROWS,
        probes.gate,
    ),
    Guarantee(
        "nothing created",
        "the readers and the gate cannot create temporary tables or schemas",
        "fills the disk, or shadows names for the next query of the connection",
        _ROWS,
        probes.database,
        is_of_every_node=True,
    ),
    Guarantee(
        "text read as checked",
        "strings and encodings mean what the checker takes them for, and transactions are read-only",
        "hides code in what the checker takes for a literal",
        _ROWS,
        probes.text_settings,
    ),
    Guarantee(
        "time limits",
        "the gate's statements, locks and idle transactions end by themselves",
        "holds connections and locks for as long as it likes",
        _ROWS,
        probes.time_limits,
    ),
    Guarantee(
        "refused when tried: rows",
        "PostgreSQL refuses log tables and the argument functions to sandbox_reader",
        "reads log rows of every project",
        _ROWS,
        probes.log_tables_tried,
    ),
    Guarantee(
        "functions closed",
        "sandbox_reader can call only the allowed functions and those behind operators and casts",
        "becomes another project by set_config(), holds advisory locks, notifies, runs SQL given as text",
        _FULL,
        probes.sandbox_functions,
        is_of_every_node=True,
    ),
    Guarantee(
        "functions of the others",
        "the gate calls set_config() alone, query_reader only what computes",
        "a stored query that passes an argument on does what a sandbox query may not",
        _FULL,
        probes.other_functions,
    ),
    Guarantee(
        "catalogs closed",
        "sandbox_reader reads no catalog",
        "reads names of tables, roles and endpoints, the text of views, settings and other sessions' queries",
        _FULL,
        probes.catalogs,
        is_of_every_node=True,
    ),
    Guarantee(
        "other schemas closed",
        "sandbox_reader may use no schema but sandbox schemas, log_functions and pg_catalog",
        "calls functions of extensions, such as dblink",
        _FULL,
        probes.public_schema,
        is_of_every_node=True,
    ),
    Guarantee(
        "space limit",
        "the gate's temporary files are limited",
        "fills the disk by one sort",
        _FULL,
        probes.space_limits,
    ),
    Guarantee(
        "server log silent",
        "failed statements of the gate leave no message and no text in PostgreSQL's own log",
        "writes values of rows into a log that others read and backups keep",
        _FULL,
        probes.server_log,
    ),
    Guarantee(
        "refused when tried: functions",
        "PostgreSQL refuses set_config(), catalogs, locks, notifications and large objects to sandbox_reader",
        "becomes another project, or leaves something behind",
        _FULL,
        probes.catalogs_tried,
    ),
    Guarantee(
        "service database closed",
        "the gate login cannot connect to the service's own database",
        "with the gate's password: reaches the database of users, endpoints and access tokens",
        _ADVICE,
        probes.service_database,
    ),
    Guarantee(
        "memory limit",
        "one server process gets no gigabyte for a value: PostgreSQL answers out of memory",
        "takes the machine's memory by one query, and with it every session and process there",
        _ADVICE,
        memory_limit,
        is_costly=True,
    ),
    Guarantee(
        "allowed functions callable",
        "sandbox_reader may call every allowed function",
        "nothing; sandbox queries that use these fail until harden_logs runs again",
        _ADVICE,
        probes.missing_functions,
        is_of_every_node=True,
    ),
)
