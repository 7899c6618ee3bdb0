"""A new log database on a Citus cluster, gone again at the end: `make test-citus` runs the suite's answers on it.

CITUS_COORDINATOR_URL names a superuser in a database of the coordinator that knows the workers; the same superuser must
reach them. The cluster is one for tests: its logins of the log database are made there, or get new passwords.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import psycopg
import pytest
from psycopg import Connection, sql
from psycopg.conninfo import make_conninfo

from config.embedded.running import prepare_logins
from config.embedded.state import LOGS_DATABASE, LOGS_GATE, LOGS_OWNER, Secrets, database_urls
from logsources.distribution import share_roles
from logsources.roles import READERS, VIEW_OWNERS

VARIABLE: Final = "CITUS_COORDINATOR_URL"
SHARDS: Final = 4  # more take the suite longer, and show nothing else
_NODES: Final = "SELECT nodename, nodeport FROM pg_dist_node WHERE noderole = 'primary' AND isactive ORDER BY groupid"
_UNPROPAGATED: Final = "SET citus.enable_ddl_propagation = off; SET citus.enable_create_database_propagation = off"


@contextmanager
def citus_database(coordinator_url: str) -> Iterator[dict[str, str]]:
    """Make the database on every node and join them in it; yield the variables that name it."""
    name = f"logs_of_tests_{secrets.token_hex(4)}"
    with ExitStack() as stack:
        nodes = _connect_to_nodes(stack, coordinator_url)
        for node in nodes:
            stack.callback(_drop_database, node, name)
            node.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8'").format(sql.Identifier(name)))
        passwords = Secrets()
        url = _join(nodes, coordinator_url, name, passwords)
        host, port = nodes[0].info.host, nodes[0].info.port
        servers = database_urls(passwords, host=host, port=port)
        assert servers.logs_database_url
        assert servers.logs_gate_url
        yield {
            "LOGS_DATABASE_URL": servers.logs_database_url.removesuffix(LOGS_DATABASE) + name,
            "LOGS_GATE_URL": servers.logs_gate_url.removesuffix(LOGS_DATABASE) + name,
            "LOGS_SUPERUSER_URL": url,
        }


def _connect_to_nodes(stack: ExitStack, url: str) -> list[Connection[Any]]:
    first = stack.enter_context(psycopg.connect(url, autocommit=True))
    found = first.execute(_NODES).fetchall()
    if len(found) < 2:
        raise pytest.UsageError(f"{VARIABLE} names a database that knows {len(found)} nodes; it needs workers.")
    nodes = [stack.enter_context(psycopg.connect(url, host=host, port=port, autocommit=True)) for host, port in found]
    for node in nodes:
        node.execute(_UNPROPAGATED)
    return nodes


def _join(nodes: list[Connection[Any]], url: str, name: str, passwords: Secrets) -> str:
    """Join the nodes in the new database, make the owner's login and the gate's, and return the superuser's URL."""
    with ExitStack() as stack:
        inside = [
            stack.enter_context(
                psycopg.connect(url, host=node.info.host, port=node.info.port, dbname=name, autocommit=True)
            )
            for node in nodes
        ]
        for connection in inside:
            connection.execute("CREATE EXTENSION citus")
            fewer = sql.SQL("ALTER DATABASE {} SET citus.shard_count = {}").format(sql.Identifier(name), SHARDS)
            connection.execute(fewer)
        first = inside[0]
        first.execute("SELECT citus_set_coordinator_host(%s, %s)", [first.info.host, first.info.port])
        for worker in inside[1:]:
            first.execute("SELECT citus_add_node(%s, %s)", [worker.info.host, worker.info.port])
        prepare_logins(first, passwords)
        share_roles(first, (LOGS_OWNER, LOGS_GATE, *READERS, *VIEW_OWNERS))
        for connection in inside:
            connection.execute(_UNPROPAGATED)
            connection.execute(
                sql.SQL("ALTER DATABASE {} OWNER TO {}").format(sql.Identifier(name), sql.Identifier(LOGS_OWNER))
            )
        first.execute(
            sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(sql.Identifier(name), sql.Identifier(LOGS_GATE))
        )
    return make_conninfo(url, host=nodes[0].info.host, port=nodes[0].info.port, dbname=name)


def _drop_database(node: Connection[Any], name: str) -> None:
    node.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
