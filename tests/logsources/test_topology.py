"""What the log database is, and what is therefore written differently."""

from __future__ import annotations

from typing import Any

import pytest
from psycopg import Connection, sql

from endpoints.sql.parameters import ParameterType
from logsources.roles import ensure_roles
from logsources.tables import policy_names
from logsources.topology import CLUSTER, ONE_SERVER, read_topology, set_topology

pytestmark = pytest.mark.sql

CALL = sql.SQL("logs_private.tenant()")


@pytest.mark.django_db(databases=["default", "logs"])
class TestReadTopology:
    def test_a_log_database_is_one_server_until_it_says_otherwise(self, logs: Connection[Any]) -> None:
        with logs.transaction(force_rollback=True):
            assert read_topology(logs) is ONE_SERVER
            logs.execute(set_topology(CLUSTER))
            assert read_topology(logs) is CLUSTER

    def test_one_that_is_not_migrated_yet_is_one_server(self, logs: Connection[Any]) -> None:
        with logs.transaction(force_rollback=True):
            logs.execute("DROP FUNCTION logs_private.topology()")
            assert read_topology(logs) is ONE_SERVER
            assert logs.execute("SELECT 1").fetchone() == (1,)  # the transaction goes on

    def test_a_name_from_a_later_version_is_refused(self, logs: Connection[Any]) -> None:
        with logs.transaction(force_rollback=True):
            logs.execute("CREATE OR REPLACE FUNCTION logs_private.topology() RETURNS text RETURN 'a ring'::text")
            with pytest.raises(KeyError, match="a ring"):
                read_topology(logs)

    def test_a_migration_keeps_it(self, logs: Connection[Any], settings: Any) -> None:
        with logs.transaction(force_rollback=True):
            logs.execute(set_topology(CLUSTER))
            ensure_roles(logs, settings.LOGS_GATE)
            assert read_topology(logs) is CLUSTER
            volatility = "SELECT provolatile FROM pg_proc WHERE oid = 'logs_private.tenant()'::regprocedure"
            assert logs.execute(volatility).fetchone() == ("i",)


@pytest.mark.parametrize("type_", ParameterType)
@pytest.mark.django_db(databases=["default", "logs"])
def test_every_type_of_a_parameter_has_a_function_of_a_cluster(
    logs: Connection[Any], settings: Any, type_: ParameterType
) -> None:
    with logs.transaction(force_rollback=True):
        logs.execute(set_topology(CLUSTER))
        ensure_roles(logs, settings.LOGS_GATE)
        argument = CLUSTER.argument("since", type_.postgresql_type)
        query = f"SELECT pg_typeof({argument})::text, {argument} IS NULL"
        wanted = logs.execute(f"SELECT '{type_.postgresql_type}'::regtype::text").fetchone()
        assert logs.execute(query.encode()).fetchone() == (*(wanted or ()), True)


def test_a_setting_is_read_once_in_a_query() -> None:
    assert ONE_SERVER.once(CALL).as_string() == "(SELECT logs_private.tenant())"
    assert CLUSTER.once(CALL).as_string() == "logs_private.tenant()"


def test_only_one_server_keeps_statements() -> None:
    assert ONE_SERVER.keeps_statements
    assert not CLUSTER.keeps_statements


def test_the_workers_of_a_cluster_check_the_reader_of_a_view_themselves() -> None:
    assert set(policy_names(CLUSTER)) - set(policy_names(ONE_SERVER)) == {"sandbox_reader_rows"}
