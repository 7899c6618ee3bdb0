"""Some hundred requests get the answers that were recorded, byte for byte; what is plain gets them before Django too.

A change that is meant to change none of them runs this before and after. `RECORD_ANSWERS=1 make test ARGS='-k
recorded_answers'` writes the answers anew: look at the difference in git before you commit it.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from uuid import UUID

import pytest
from django.core.handlers.wsgi import WSGIHandler
from django.core.management import call_command
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from django.test import RequestFactory

from endpoints.access.access_tokens import issue_access_token, revoke_access_tokens
from endpoints.access.secrets import NO_LIMIT, OwnLimits
from endpoints.api import fast_path as fast_path
from endpoints.api.fast_path import FastPath
from endpoints.defining.saving import save_endpoint
from endpoints.models import AccessToken, Endpoint
from endpoints.sql.parameters import DeclaredParameter, ParameterType
from tests.endpoints.api.recorded_requests import CASES, UUID_OF_ROWS, Request, query_string, recorded_requests
from tests.files import PROJECT

pytestmark = pytest.mark.django_db
RECORDED = CASES / "recorded_answers.jsonl"
REQUESTS = list(recorded_requests())
HOST = "logs.example.org"
# What is another one each time.
VARYING_HEADERS = {"server-timing", "age", "x-request-id"}
NO_PROMISE = "x-log-position"  # neither it nor its word in Vary is recorded
# What fixtures/compat calls by the names that its clients know.
TABLES_OF_CLIENTS = {"postgres_logs": "database_logs", "postgrest_logs": "rest_logs", "pgbouncer_logs": "pooler_logs"}
# Where a row says whose it is, when that is no column of its own.
PROJECT_IN_METADATA = {
    "function_edge_logs": "project_ref",
    "function_logs": "project_ref",
    "realtime_logs": "project",
    "storage_logs": "project",
}
TYPES = """
SELECT 1::smallint AS small, 2147483648::bigint AS big, 1.10::numeric AS exact, 'NaN'::real AS nan,
    0.1::float8 AS float, true AS flag, NULL::text AS nothing, 'a"b,c' AS quoted, decode('00ff', 'hex') AS bytes,
    '{"a": [1, null]}'::jsonb AS json, ARRAY[1, NULL, 3] AS numbers, ARRAY[['a', 'b'], ['c', 'd']] AS texts,
    '2025-06-02 08:15:02+02'::timestamptz AS moment, '2025-06-02 08:15:02'::timestamp AS local,
    '2025-06-02'::date AS day, '08:15'::time AS time, 'infinity'::date AS never, '1 day 2 hours'::interval AS long,
    int4range(1, 5) AS range, ROW(1, 'a') AS record, '192.0.2.1'::inet AS address,
    '5a0c0de0-0000-4000-8000-000000000001'::uuid AS id
"""
ROWS = """
SELECT @n::bigint AS n, @word AS word, @moment::timestamptz AS moment, @flag::boolean AS flag, @words::text[] AS words,
    @level AS level
"""


@pytest.fixture(autouse=True)
def own_settings(settings: Any) -> Iterator[None]:
    settings.ALLOWED_HOSTS = [HOST]
    fast_path._is_allowed_host.cache_clear()
    # Django's handler ends the database connection of a request; here it is the test's, inside its transaction.
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)
    fast_path._is_allowed_host.cache_clear()


@pytest.fixture
def secrets(insert_rows: Callable[..., None]) -> Mapping[str, str]:
    """Log rows, endpoints, and an access token for each caller."""
    for row in map(json.loads, (CASES / "bigquery" / "rows.jsonl").read_text("utf-8").splitlines()):
        table = TABLES_OF_CLIENTS.get(row["table"], row["table"])
        of_acme = {name: value for name, value in row.items() if name != "table"} | {"project": "acme"}
        if path := PROJECT_IN_METADATA.get(table):
            of_acme["metadata"] = [{**row["metadata"], path: of_acme.pop("project")}]
        insert_rows(table, [of_acme])
    _save_endpoints()
    revoked = issue_access_token(name="revoked")
    revoke_access_tokens(AccessToken.objects.filter(pk=revoked.access_token.pk))
    one_call = OwnLimits(calls_a_minute=1)
    return {
        "everything": issue_access_token(name="everything", limits=OwnLimits(NO_LIMIT, NO_LIMIT, NO_LIMIT)).secret,
        "logs.all": issue_access_token(name="some", endpoint_names=["logs.all"]).secret,
        "bound": issue_access_token(name="bound", bound_arguments={"project": "acme"}).secret,
        "revoked": revoked.secret,
        "purger": issue_access_token(name="purger", may_purge=True).secret,
        "shipper": issue_access_token(name="shipper", may_load=True, no_endpoints=True).secret,
        "one call a minute": issue_access_token(name="one call", limits=one_call).secret,
    }


def _save_endpoints() -> None:
    parameters = [
        DeclaredParameter("n", type=ParameterType.INTEGER, minimum="-1000"),
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
    number = [DeclaredParameter("n", type=ParameterType.INTEGER)]
    save_endpoint(Endpoint(name="recorded.fails", sql="SELECT 1 / @n::int AS x"), number)
    slow = "SELECT count(*) FROM generate_series(1, 100000) AS a, generate_series(1, 100000) AS b"
    save_endpoint(Endpoint(name="recorded.slow", sql=slow, statement_timeout_seconds=1), [])
    save_endpoint(Endpoint(name="recorded.cached", sql="SELECT 'known' AS word", cache_seconds=3600), [])
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


def environ(request: Request, secrets: Mapping[str, str]) -> dict[str, Any]:
    made = RequestFactory().generic(request.method, request.path.partition("?")[0]).environ
    made |= {"QUERY_STRING": query_string(request), "HTTP_HOST": HOST, "HTTP_X_REQUEST_ID": "recorded"}
    made |= {"wsgi.input": io.BytesIO(request.body), "CONTENT_LENGTH": str(len(request.body)) if request.body else ""}
    made |= {"CONTENT_TYPE": request.content_type}
    made |= {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in request.headers.items()}
    return {**made, "HTTP_X_API_KEY": secrets[request.caller]} if request.caller else made


def answer_of(application: Callable[..., Any], environ: dict[str, Any]) -> dict[str, Any]:
    """Return status, headers and body, without what differs from call to call."""
    begun: dict[str, Any] = {}

    def start_response(status: str, headers: list[tuple[str, str]], error: object = None) -> None:
        begun["status"] = status[:3]  # the words behind it are those of the version of Python
        begun["headers"] = {
            name.lower(): value for name, value in headers if name.lower() not in VARYING_HEADERS | {NO_PROMISE}
        }

    body = b"".join(application(environ, start_response))
    headers = begun["headers"]
    varies = {part.strip().lower() for part in headers.get("vary", "").split(",")}
    headers["vary"] = ", ".join(sorted(varies - {"", NO_PROMISE}))
    if begun["status"].startswith("304"):
        headers.pop("content-length", None)  # Django says 0, and need not
    if "etag" in headers:  # made of the endpoint's id, among others
        headers["etag"] = "an entity tag"
    # Who asked first has had the miss; a plain GET is asked twice.
    if headers.get("x-cache") in ("miss", "hit"):
        headers["x-cache"] = "miss or hit"
    if "cache-control" in headers and "max-age" in headers["cache-control"]:
        headers["cache-control"] = "max-age of what is left"
    return {**begun, "headers": dict(sorted(headers.items())), "body": body.decode()}


def test_every_request_gets_the_recorded_answer(secrets: Mapping[str, str]) -> None:
    django = get_wsgi_application()
    answers = {request.name: answer_of(django, environ(request, secrets)) for request in REQUESTS}
    assert len(answers) == len(REQUESTS), "two requests of one name"
    if os.environ.get("RECORD_ANSWERS"):
        lines = (json.dumps({"name": name, **answer}, ensure_ascii=False) for name, answer in answers.items())
        RECORDED.write_text("\n".join(lines) + "\n", "utf-8")
    assert answers == recorded()


def test_what_is_plain_gets_it_before_django(secrets: Mapping[str, str]) -> None:
    passed_on = []

    class Django(WSGIHandler):
        def __call__(self, environ: Any, start_response: Any) -> Any:
            passed_on.append(environ["PATH_INFO"])
            return super().__call__(environ, start_response)

    application = FastPath(Django())
    expected = recorded()
    differing = {}
    for request in REQUESTS:
        answer = answer_of(application, environ(request, secrets))
        if answer != expected[request.name]:
            differing[request.name] = (answer, expected[request.name])
    assert differing == {}
    assert len(REQUESTS) - len(passed_on) > 200, "so many are plain"


def recorded() -> dict[str, Any]:
    answers = map(json.loads, RECORDED.read_text("utf-8").splitlines())
    return {answer.pop("name"): answer for answer in answers}
