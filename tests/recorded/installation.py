"""What the recorded requests meet: log rows, endpoints, and an access token for each caller."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final
from uuid import UUID

from django.core.management import call_command

from endpoints.access.access_tokens import issue_access_token, revoke_access_tokens
from endpoints.access.secrets import NO_LIMIT, OwnLimits
from endpoints.defining.saving import save_endpoint
from endpoints.models import AccessToken, Endpoint
from endpoints.sql.parameters import DeclaredParameter, ParameterType
from tests.files import CASES, PROJECT
from tests.recorded.requests import UUID_OF_ROWS

HOST: Final = "logs.example.org"
ORIGIN: Final = "https://app.example.org"  # of pages that CORS_ALLOWED_ORIGINS allows
METRICS_TOKEN: Final = "token of the scraper"
# What fixtures/compat calls by the names that its clients know.
TABLES_OF_CLIENTS: Final = {
    "postgres_logs": "database_logs",
    "postgrest_logs": "rest_logs",
    "pgbouncer_logs": "pooler_logs",
}
# Where a row says whose it is, when that is no column of its own.
PROJECT_IN_METADATA: Final = {
    "function_edge_logs": "project_ref",
    "function_logs": "project_ref",
    "realtime_logs": "project",
    "storage_logs": "project",
}
TYPES: Final = """
SELECT 1::smallint AS small, 2147483648::bigint AS big, 1.10::numeric AS exact, 'NaN'::real AS nan,
    0.1::float8 AS float, true AS flag, NULL::text AS nothing, 'a"b,c' AS quoted, decode('00ff', 'hex') AS bytes,
    '{"a": [1, null]}'::jsonb AS json, ARRAY[1, NULL, 3] AS numbers, ARRAY[['a', 'b'], ['c', 'd']] AS texts,
    '2025-06-02 08:15:02+02'::timestamptz AS moment, '2025-06-02 08:15:02'::timestamp AS local,
    '2025-06-02'::date AS day, '08:15'::time AS time, 'infinity'::date AS never, '1 day 2 hours'::interval AS long,
    int4range(1, 5) AS range, ROW(1, 'a') AS record, '192.0.2.1'::inet AS address,
    '5a0c0de0-0000-4000-8000-000000000001'::uuid AS id
"""
ROWS: Final = """
SELECT @n::bigint AS n, @word AS word, @moment::timestamptz AS moment, @flag::boolean AS flag, @words::text[] AS words,
    @level AS level
"""
SLOW: Final = "SELECT count(*) FROM generate_series(1, 100000) AS a, generate_series(1, 100000) AS b"
INTEGER: Final = ParameterType.INTEGER
# Whose operations are recorded: those of the others differ from one of these by their names alone.
DESCRIBED: Final = ["logs.all", "recorded.bigquery", "recorded.rows", "recorded.stream", "recorded.types"]


def insert_log_rows(insert_rows: Callable[..., None]) -> None:
    for row in map(json.loads, (CASES / "bigquery" / "rows.jsonl").read_text("utf-8").splitlines()):
        table = TABLES_OF_CLIENTS.get(row["table"], row["table"])
        of_acme = {name: value for name, value in row.items() if name != "table"} | {"project": "acme"}
        if path := PROJECT_IN_METADATA.get(table):
            of_acme["metadata"] = [{**row["metadata"], path: of_acme.pop("project")}]
        insert_rows(table, [of_acme])


def issue_secrets() -> Mapping[str, str]:
    """Return the secret of each caller by the name that `Request.caller` has."""
    revoked = issue_access_token(name="revoked")
    revoke_access_tokens(AccessToken.objects.filter(pk=revoked.access_token.pk))
    one_call = OwnLimits(calls_a_minute=1)
    return {
        "everything": issue_access_token(name="everything", limits=OwnLimits(NO_LIMIT, NO_LIMIT, NO_LIMIT)).secret,
        "all rights": issue_access_token(
            name="all rights", endpoint_names=DESCRIBED, may_purge=True, may_load=True, may_issue=True
        ).secret,
        "logs.all": issue_access_token(name="some", endpoint_names=["logs.all"]).secret,
        "bound": issue_access_token(name="bound", bound_arguments={"project": "acme"}).secret,
        "revoked": revoked.secret,
        "purger": issue_access_token(name="purger", may_purge=True).secret,
        "shipper": issue_access_token(name="shipper", may_load=True, no_endpoints=True).secret,
        "shipper of one": issue_access_token(
            name="shipper of one", may_load=True, no_endpoints=True, load_sources=["auth_logs"], default_project="shop"
        ).secret,
        "issuer": issue_access_token(name="issuer", may_issue=True).secret,
        "one call a minute": issue_access_token(name="one call", limits=one_call).secret,
    }


def save_endpoints() -> None:
    parameters = [
        DeclaredParameter("n", type=INTEGER, minimum="-1000"),
        DeclaredParameter("word"),
        DeclaredParameter("moment", type=ParameterType.TIMESTAMP),
        DeclaredParameter("flag", type=ParameterType.BOOLEAN),
        DeclaredParameter("words", type=ParameterType.TEXT_LIST),
        DeclaredParameter("level", allowed_values=("low", "high"), default="low"),
    ]
    save_endpoint(Endpoint(id=UUID(UUID_OF_ROWS), name="recorded.rows", sql=ROWS), parameters)
    save_endpoint(Endpoint(name="recorded.types", sql=TYPES), [])
    save_endpoint(Endpoint(name="recorded.many", sql="SELECT n FROM generate_series(1, 20) AS n", max_rows=5), [])
    moment = "SELECT '2025-06-02 08:15:02.5Z'::timestamptz AS moment"
    save_endpoint(Endpoint(name="recorded.microseconds", sql=moment, timestamps_as="unix_microseconds"), [])
    number = [DeclaredParameter("n", type=INTEGER)]
    save_endpoint(Endpoint(name="recorded.fails", sql="SELECT 1 / @n::int AS x"), number)
    save_endpoint(Endpoint(name="recorded.slow", sql=SLOW, statement_timeout_seconds=1), [])
    save_endpoint(Endpoint(name="recorded.cached", sql="SELECT 'known' AS word", cache_seconds=3600), [])
    large = "SELECT n, repeat('x', 100) AS filling FROM generate_series(1, 200) AS n"
    save_endpoint(Endpoint(name="recorded.large", sql=large), [])
    streamed = "SELECT n, 10 / (@end - n) AS x, 'from 192.0.2.1' AS word FROM generate_series(1, 6) AS n"
    end = [DeclaredParameter("end", type=INTEGER, default="1000")]
    save_endpoint(Endpoint(name="recorded.stream", sql=streamed, stream_rows=5, max_rows=3), end)
    _save_compat_endpoint()


def _save_compat_endpoint() -> None:
    """Save the endpoint for BigQuery's clients under a name of its own."""
    stored = Endpoint.objects.get(name="logs.all")
    parameters = [one.declared() for one in stored.parameters.all()]
    call_command("import_endpoints", str(PROJECT / "fixtures" / "compat"), verbosity=0)
    compat = Endpoint.objects.get(name="logs.all")
    names = ("sql", "tenant_parameter", "sandboxing", "sandbox_dialect", "default_sandbox_table", "timestamps_as")
    own = Endpoint(name="recorded.bigquery", **{name: getattr(compat, name) for name in names})
    save_endpoint(own, [one.declared() for one in compat.parameters.all()])
    save_endpoint(stored, parameters)
