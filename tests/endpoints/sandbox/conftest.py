"""A log database with something to steal, and sandbox_reader in it as the service runs it, without the checker."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.db import connections
from psycopg import Connection, sql
from psycopg.pq import ExecStatus

from endpoints.log_database.publishing import publish_draft
from endpoints.log_database.sessions import ReaderSession, session_settings_statement
from endpoints.models import Endpoint
from logsources.roles import SANDBOX_READER
from logsources.topology import Topology, read_topology

OURS, THEIRS, EARLIER, SECRET = "marker_ours", "marker_theirs", "marker_earlier", "marker_secret"
ROWS = """
    INSERT INTO logs.{table} (id, project, timestamp, event_message, metadata)
    SELECT md5({table_name} || project || marker || n)::uuid, project, moment + n * interval '7 minutes',
        (array['GET /rest 200 user17', 'PUT /auth 404 x', 'GET /x 500 y'])[1 + n % 3] || ' ' || marker,
        jsonb_build_array(jsonb_build_object(
            'marker', marker, 'project', project, 'project_ref', project,
            'level', (array['info', 'error'])[1 + n % 2], 'execution_time_ms', n * 3 % 40,
            'request', jsonb_build_array(jsonb_build_object('path', '/p' || n % 4, 'method', 'GET',
                'headers', jsonb_build_array(jsonb_build_object('x_real_ip', '10.0.0.' || n % 3)))),
            'response', jsonb_build_array(jsonb_build_object(
                'status_code', 200 + n % 3 * 102, 'origin_time', n * 5 % 17))))
    FROM generate_series(1, 12) AS n, (VALUES ('acme', timestamptz '2025-06-10', 'marker_ours'),
        ('acme', timestamptz '2025-05-01', 'marker_earlier'), ('globex', timestamptz '2025-06-10', 'marker_theirs')
    ) AS kind (project, moment, marker)"""
# Tables, a view, a function, a sequence and a large object outside the sandbox; what was left open to PUBLIC on purpose
# is what an operator might forget.
SECRETS = """
    CREATE TABLE public.auth_user (id int, username text, password text, is_superuser boolean);
    INSERT INTO public.auth_user VALUES (1, 'marker_secret', 'marker_secret', true);
    CREATE TABLE public.django_session (session_key text, session_data text);
    INSERT INTO public.django_session VALUES ('marker_secret', 'marker_secret');
    CREATE TABLE public.log_edge (id int, project text, event_message text);
    INSERT INTO public.log_edge VALUES (1, 'globex', 'marker_secret');
    CREATE VIEW public.leak_users AS SELECT * FROM public.auth_user;
    CREATE SEQUENCE public.auth_user_id_seq;
    CREATE FUNCTION public.leak(text) RETURNS text LANGUAGE sql SECURITY DEFINER
        AS 'SELECT password FROM public.auth_user LIMIT 1';
    CREATE FUNCTION public.leak() RETURNS text LANGUAGE sql SECURITY DEFINER
        AS 'SELECT password FROM public.auth_user LIMIT 1';
    GRANT SELECT ON public.auth_user, public.leak_users TO PUBLIC;
    SELECT lo_from_bytea(424242, 'marker_secret');
    GRANT SELECT ON LARGE OBJECT 424242 TO PUBLIC;"""
NO_SECRETS = """
    DROP TABLE IF EXISTS public.auth_user, public.django_session, public.log_edge CASCADE;
    DROP SEQUENCE IF EXISTS public.auth_user_id_seq;
    DROP FUNCTION IF EXISTS public.leak(text), public.leak();
    SELECT lo_unlink(oid) FROM pg_largeobject_metadata WHERE oid = 424242;"""


@dataclass(frozen=True, slots=True)
class Walled:
    """The sandbox of logs.all for project acme from June on; `gate` is the service's login, `superuser` sees all."""

    schema: str
    tables: list[str]
    gate: Connection[Any]
    superuser: Connection[Any]
    topology: Topology

    def arm(self, connection: Connection[Any], sql: str, *, role: str = SANDBOX_READER) -> None:
        """Arm the connection's transaction as the service does for a consumer's text; `role` instead of the reader."""
        session = ReaderSession(
            role=SANDBOX_READER,
            search_path=self.schema,
            statement_timeout_seconds=0.3,
            tenant="acme",
            arguments={"project": "acme", "iso_timestamp_start": "2025-06-01"},
        )
        arming, bound = session_settings_statement(session, sql, topology=self.topology)
        result = connection.pgconn.exec_params(arming.encode(), [*bound[:-1], role.encode()])
        assert result.status == ExecStatus.TUPLES_OK, result.error_message


@pytest.fixture(scope="module")
def walled(django_db_setup: None, django_db_blocker: Any) -> Iterator[Walled]:
    database = connections["logs"].settings_dict["NAME"]
    with (
        django_db_blocker.unblock(),
        psycopg.connect(os.environ["LOGS_SUPERUSER_URL"], dbname=database, autocommit=True) as superuser,
        psycopg.connect(**settings.LOGS_GATE, autocommit=True) as gate,
    ):
        endpoint = Endpoint.objects.get(name="logs.all")
        gate.prepare_threshold = superuser.prepare_threshold = None  # a test may discard what a session has
        superuser.execute("SET citus.propagate_set_commands = 'local'")  # as the gate has it on a cluster
        superuser.execute(NO_SECRETS)
        superuser.execute(SECRETS)
        schema, published = publish_draft(endpoint, endpoint.parameters_of_version)
        tables = [table.name for table in published]
        try:
            _fill(superuser, tables)
            yield Walled(schema, tables, gate, superuser, read_topology(gate))
        finally:
            _empty(superuser, tables)
            superuser.execute(NO_SECRETS)
    connections.close_all()


def _fill(superuser: Connection[Any], tables: list[str]) -> None:
    _empty(superuser, tables)
    for table in tables:
        parts = {"table": sql.Identifier(table), "table_name": sql.Literal(table)}
        superuser.execute(sql.SQL(ROWS).format(**parts))


def _empty(superuser: Connection[Any], tables: list[str]) -> None:
    superuser.execute(
        sql.SQL("TRUNCATE {}").format(sql.SQL(", ").join(sql.Identifier("logs", table) for table in tables))
    )
