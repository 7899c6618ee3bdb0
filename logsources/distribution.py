"""Distributes the log tables over a Citus cluster by project, and hardens every node of it.

The gate is closed from the first change to the last: for calls in between, rows would be missing, and a plan that a
connection has kept would have another project's constants. Every step is repeatable; an interrupted distribution leaves
the gate closed, and the next one goes on from there.

A superuser's connections to every node are needed, by the address that Citus knows for it. The steps on a node concern
this node alone: Citus is told not to pass them on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, LiteralString

import psycopg
from psycopg import Connection, sql

from logsources import rolling
from logsources.hardening import LogRoles, harden
from logsources.log_functions import FUNCTION_SCHEMA, ensure_guard_functions, ensure_log_functions
from logsources.roles import (
    GATE_SETTINGS,
    GATE_SUPERUSER_SETTINGS,
    LOGS_SCHEMA,
    PRIVATE_SCHEMA,
    READERS,
    SANDBOX_READER,
    SANDBOX_SCHEMAS,
    VIEW_OWNERS,
    ensure_roles,
)
from logsources.table_changes import drop_sandbox_schemas
from logsources.tables import distribute_table, secure_table
from logsources.topology import CLUSTER, read_topology, set_topology

LEAST_CITUS: Final = 14
_UNPROPAGATED: Final = (
    "enable_ddl_propagation",
    "enable_create_role_propagation",
    "enable_alter_role_propagation",
    "enable_alter_role_set_propagation",
)
_LOG_TABLES: Final[LiteralString] = """
    SELECT c.relname, EXISTS (SELECT 1 FROM pg_dist_partition AS d WHERE d.logicalrelid = c.oid)
    FROM pg_class AS c WHERE c.relnamespace = to_regnamespace('logs') AND c.relkind = 'p' ORDER BY c.relname"""


class DistributionError(Exception):
    """The log database cannot be distributed; the message tells the operator what to do."""


@dataclass(frozen=True, slots=True)
class Step:
    """One change: what it does in words, and the function that does it."""

    summary: str
    take: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the cluster, with a superuser's connection that changes this node alone."""

    name: str
    is_coordinator: bool
    connection: Connection[Any]


@dataclass(frozen=True)
class Cluster:
    """The nodes, the coordinator first, and the owner's connection to the coordinator."""

    nodes: Sequence[Node]
    owner: Connection[Any]
    roles: LogRoles
    gate: Mapping[str, Any]

    @property
    def coordinator(self) -> Node:
        return self.nodes[0]

    @property
    def workers(self) -> Sequence[Node]:
        return self.nodes[1:]


# --- The nodes --------------------------------------------------------------------------------------------------------
@contextmanager
def open_cluster(superuser: str, owner: Connection[Any], roles: LogRoles, gate: Mapping[str, Any]) -> Iterator[Cluster]:
    """Connect to every node as the superuser of this URL, which names the coordinator and the log database.

    Raises DistributionError if the database is no coordinator with workers, and psycopg.Error.
    """
    with ExitStack() as stack:
        first = stack.enter_context(psycopg.connect(superuser, autocommit=True))
        _require_citus(first)
        found = first.execute(
            "SELECT nodename, nodeport, groupid = 0, shouldhaveshards FROM pg_dist_node"
            " WHERE noderole = 'primary' AND isactive ORDER BY groupid, nodeid"
        ).fetchall()
        _require_workers(found)
        nodes = []
        for host, port, is_coordinator, _ in found:
            connection = first
            if not is_coordinator:
                connection = stack.enter_context(psycopg.connect(superuser, host=host, port=port, autocommit=True))
            for name in _UNPROPAGATED:
                connection.execute(sql.SQL("SET {} = off").format(sql.Identifier("citus", name)))
            nodes.append(Node(f"{host}:{port}", is_coordinator, connection))
        yield Cluster(nodes, owner, roles, gate)


def _require_citus(conn: Connection[Any]) -> None:
    row = conn.execute("SELECT extversion FROM pg_extension WHERE extname = 'citus'").fetchone()
    if row is None:
        raise DistributionError(
            "The log database has no extension citus: install Citus on every node, and follow docs/scaling.md."
        )
    version = int(str(row[0]).partition(".")[0])
    if version < LEAST_CITUS:
        raise DistributionError(f"The log database has Citus {row[0]}; {LEAST_CITUS} or newer is needed.")


def _require_workers(nodes: Sequence[tuple[Any, ...]]) -> None:
    coordinators = [node for node in nodes if node[2]]
    if len(nodes) - len(coordinators) < 1:
        raise DistributionError("The cluster has no workers: SELECT citus_add_node('host', 5432) adds one.")
    if not coordinators:
        raise DistributionError(
            "The coordinator is not in its own list of nodes: SELECT citus_set_coordinator_host('host', 5432) adds it."
        )
    if coordinators[0][3]:
        raise DistributionError(
            "The coordinator may get shards, whose plans it would keep with one project's constants: SELECT"
            " citus_set_node_property('host', 5432, 'shouldhaveshards', false) keeps them away."
        )


def worker_addresses(conn: Connection[Any]) -> list[tuple[str, int]]:
    """Return host and port of each worker, as the coordinator of this connection knows them."""
    found = conn.execute(
        "SELECT nodename, nodeport FROM pg_dist_node WHERE noderole = 'primary' AND isactive AND groupid <> 0"
        " ORDER BY groupid"
    )
    return [(str(host), int(port)) for host, port in found]


# --- The plan ---------------------------------------------------------------------------------------------------------
def plan_distribution(cluster: Cluster) -> list[Step]:
    """Return the steps that remain; those of a cluster that is distributed already only add what is missing.

    Raises psycopg.Error.
    """
    owner, coordinator = cluster.owner, cluster.coordinator
    is_first = not read_topology(owner).is_distributed
    tables = owner.execute(_LOG_TABLES).fetchall()
    local = [name for name, is_distributed in tables if not is_distributed]
    steps: list[Step] = []
    names = (cluster.roles.owner, cluster.roles.gate, *READERS, *VIEW_OWNERS)
    steps.append(Step("every node knows the roles", partial(share_roles, coordinator.connection, names)))
    if is_first:
        steps.append(Step("the gate is closed: calls get 503 until the end", partial(_close_gate, cluster)))
        steps.append(Step("functions that read the session's settings, for a cluster", partial(_change_form, cluster)))
    for node in cluster.nodes:
        steps.append(Step(f"{node.name}: settings of the logins", partial(_set_logins, node, cluster)))
    if local or is_first:
        steps.append(Step("sandbox schemas are dropped; calls publish them anew", partial(_drop_sandboxes, owner)))
    for name, _ in tables:
        summary = f"{name}: distributed by project" if name in local else f"{name}: row policies"
        steps.append(Step(summary, partial(_distribute, owner, name, is_local=name in local)))
    for node in cluster.nodes:
        steps.append(Step(f"{node.name}: hardened, with the rights of the readers", partial(_harden, node, cluster)))
    steps.append(Step("the gate is open", partial(_set_gate_login, coordinator, cluster, "LOGIN")))
    return steps


def share_roles(conn: Connection[Any], names: Iterable[str]) -> None:
    """Make roles of this server known to every node, with their passwords: a superuser's `conn` at the coordinator.

    Citus does that for the owner of what it distributes, but a role that is no superuser could not have it done.
    """
    found = conn.execute("SELECT rolname FROM pg_roles WHERE rolname = ANY (%s)", [list(names)]).fetchall()
    roles = sql.SQL(", ").join(sql.Identifier(name) for (name,) in found)
    # With a function, Citus passes on the roles that may call it, and remembers that it has.
    with conn.transaction():
        for name in _UNPROPAGATED:
            conn.execute(sql.SQL("SET LOCAL {} = on").format(sql.Identifier("citus", name)))
        conn.execute("CREATE SCHEMA shares_roles")
        conn.execute("CREATE FUNCTION shares_roles.nothing() RETURNS int LANGUAGE sql RETURN 1")
        conn.execute(sql.SQL("GRANT EXECUTE ON FUNCTION shares_roles.nothing() TO {}").format(roles))
        conn.execute("DROP SCHEMA shares_roles CASCADE")


# --- Single steps -----------------------------------------------------------------------------------------------------
def _set_gate_login(node: Node, cluster: Cluster, word: LiteralString) -> None:
    gate = sql.Identifier(cluster.roles.gate)
    node.connection.execute(sql.SQL("ALTER ROLE {} {}").format(gate, sql.SQL(word)))


def _close_gate(cluster: Cluster) -> None:
    _set_gate_login(cluster.coordinator, cluster, "NOLOGIN")
    cluster.coordinator.connection.execute(
        # Loads keep their connections too, and with them the ways of one server; a load that is cut off is sent again.
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE usename = ANY (%s) AND datname = current_database() AND pid <> %s",
        [[cluster.roles.owner, cluster.roles.gate], cluster.owner.info.backend_pid],
    )


def _change_form(cluster: Cluster) -> None:
    # Schemas that are older than the extension: Citus takes them to the workers over connections of its own, for which
    # a transaction that goes on with their functions would wait in vain.
    for name in (LOGS_SCHEMA, PRIVATE_SCHEMA, FUNCTION_SCHEMA):
        cluster.owner.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(name)))
    with cluster.owner.transaction():
        cluster.owner.execute(set_topology(CLUSTER))
        ensure_roles(cluster.owner, cluster.gate)


def _set_logins(node: Node, cluster: Cluster) -> None:
    """Let settings reach the workers, and give sessions that Citus opens there as a reader the limits of the gate."""
    database = _database(node)
    if node.is_coordinator:
        # There alone: a worker would pass on to all nodes what the coordinator has passed on to it, and so on.
        roles, values = (cluster.roles.owner, cluster.roles.gate), {"citus.propagate_set_commands": "local"}
    else:
        roles, values = READERS, {**GATE_SETTINGS, **GATE_SUPERUSER_SETTINGS}
    for role in roles:
        for name, value in values.items():
            node.connection.execute(
                sql.SQL("ALTER ROLE {} IN DATABASE {} SET {} = {}").format(
                    sql.Identifier(role), database, sql.Identifier(*name.split(".")), sql.Literal(value)
                )
            )


def _drop_sandboxes(owner: Connection[Any]) -> None:
    with owner.transaction():
        drop_sandbox_schemas(owner, SANDBOX_SCHEMAS)


def _distribute(owner: Connection[Any], name: str, *, is_local: bool) -> None:
    with owner.transaction():
        rolling.change_shard_after_shard(owner)
        for statement in secure_table(name, CLUSTER):
            owner.execute(statement)
        for statement in distribute_table(name, CLUSTER) if is_local else ():
            owner.execute(statement)


def _harden(node: Node, cluster: Cluster) -> None:
    _grant_readers(node, cluster)
    harden(node.connection, cluster.roles, report=lambda summary, seconds: None)


def _grant_readers(node: Node, cluster: Cluster) -> None:
    """Let the readers in on a worker, where Citus logs in as the reader of a query, and let views call our functions.

    The operators of the sandbox do not reach the workers by themselves, nor do functions older than the extension.
    """
    conn = node.connection
    reader = sql.Identifier(SANDBOX_READER)
    conn.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(sql.Identifier(PRIVATE_SCHEMA), reader))
    if node.is_coordinator:
        return
    conn.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(sql.Identifier(LOGS_SCHEMA), reader))
    readers = sql.SQL(", ").join(map(sql.Identifier, READERS))
    conn.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(_database(node), readers))
    for name in READERS:
        conn.execute(sql.SQL("ALTER ROLE {} LOGIN").format(sql.Identifier(name)))
    with conn.transaction():
        conn.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(cluster.roles.owner)))
        ensure_log_functions(conn)
        ensure_guard_functions(conn)


def _database(node: Node) -> sql.Identifier:
    return sql.Identifier(node.connection.info.dbname)
