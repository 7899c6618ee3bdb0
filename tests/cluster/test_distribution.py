"""`distribute_logs` on a cluster: what it makes, that it can be repeated, and who is shut out while it runs."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError

from endpoints.definition import Definition
from endpoints.guarantees import verify_guarantees
from endpoints.log_database.publishing import publish_draft
from endpoints.log_database.servers import close_log_servers
from logsources import distribution
from logsources.databases import owner_connection
from logsources.distribution import worker_addresses
from logsources.roles import SANDBOX_READER
from logsources.rolling import RolledSource
from logsources.table_changes import drop_table, fit_table
from logsources.tables import ColumnType, ExtractedColumnShape, TableShape
from logsources.topology import CLUSTER, read_topology

pytestmark = pytest.mark.django_db
GRANTED = "FUNCTION pg_catalog.set_config(text, text, boolean)"


@pytest.fixture
def worker() -> Iterator[psycopg.Connection[Any]]:
    """The first worker, as its superuser, whose changes stay there."""
    with owner_connection() as owner:
        host, port = worker_addresses(owner)[0]
    superuser = os.environ["LOGS_SUPERUSER_URL"]
    with psycopg.connect(superuser, host=host, port=port, autocommit=True) as connection:
        connection.execute("SET citus.enable_ddl_propagation = off")
        yield connection


def findings() -> list[str]:
    return [finding for verdict in verify_guarantees() for finding in verdict.findings if verdict.is_needed]


def distribute(**options: Any) -> str:
    said = io.StringIO()
    call_command("distribute_logs", stdout=said, **options)
    return said.getvalue()


def test_the_log_database_tells_owner_and_gate_that_it_is_a_cluster() -> None:
    with owner_connection() as owner, psycopg.connect(**settings.LOGS_GATE, autocommit=True) as gate:
        assert (read_topology(owner), read_topology(gate)) == (CLUSTER, CLUSTER)


def test_every_log_table_is_distributed_by_project_and_together() -> None:
    with owner_connection() as owner:
        placed = owner.execute(
            "SELECT c.relname, d.partkey IS NOT NULL, d.colocationid FROM pg_class AS c"
            " LEFT JOIN pg_dist_partition AS d ON d.logicalrelid = c.oid"
            " WHERE c.relnamespace = 'logs'::regnamespace AND c.relkind = 'p'"
        ).fetchall()
    assert len(placed) > 5
    assert all(is_distributed for _, is_distributed, _ in placed)
    assert len({colocation for *_, colocation in placed}) == 1


def test_every_guarantee_holds_on_every_node() -> None:
    assert findings() == []


def test_a_worker_that_was_opened_is_found_by_its_address(worker: psycopg.Connection[Any]) -> None:
    worker.execute(f"GRANT EXECUTE ON {GRANTED} TO {SANDBOX_READER}")
    try:
        (finding,) = findings()
    finally:
        distribute()
    assert finding.startswith(f"{worker.info.host}:{worker.info.port}: ")
    assert "set_config" in finding
    assert findings() == []


def test_a_dry_run_changes_nothing() -> None:
    said = distribute(dry_run=True)
    assert "would do: " in said
    assert said.endswith("Nothing was changed.\n")
    assert "gate is closed" not in said  # it is distributed already


def test_an_interrupted_distribution_leaves_the_gate_closed_and_the_next_one_opens_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with owner_connection() as owner:
        owner.execute("CREATE OR REPLACE FUNCTION logs_private.topology() RETURNS text RETURN 'one server'::text")
    with monkeypatch.context() as broken:
        broken.setattr(distribution, "secure_table", refuse)
        with pytest.raises(CommandError, match="as told"):
            distribute()
    with pytest.raises(psycopg.OperationalError, match="not permitted to log in"):
        psycopg.connect(**settings.LOGS_GATE)
    distribute()
    close_log_servers()
    with psycopg.connect(**settings.LOGS_GATE, autocommit=True) as gate:
        assert read_topology(gate) is CLUSTER


def refuse(*arguments: Any) -> Any:
    raise psycopg.errors.RaiseException("as told")


def test_tables_made_and_changed_while_a_draft_is_open_reach_the_workers(
    log_database: psycopg.Connection[Any],
) -> None:
    """The views of the draft are dropped before, at the coordinator alone."""
    draft = Definition(sql="WITH edges AS (SELECT id FROM edge_logs) SELECT id FROM edges")
    level = ExtractedColumnShape("level", "level", ColumnType.TEXT)
    try:
        for columns in ((), (level,)):
            publish_draft(draft, [])
            fit_table(log_database, RolledSource(TableShape("changed", None, columns), None))
        log_database.execute(
            "INSERT INTO logs.changed (id, project, timestamp, event_message, metadata)"
            """ VALUES ('1', 'acme', now(), '', '[{"level": "info"}]')"""
        )
        assert log_database.execute("SELECT level FROM logs.changed").fetchall() == [("info",)]
    finally:
        drop_table(log_database, "changed")
