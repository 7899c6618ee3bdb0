"""The OpenAPI document: an operation per endpoint, true to what the service does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from django.test import Client
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import status_code_conformance

from endpoints.access.access_tokens import issue_access_token
from endpoints.calling import calls
from endpoints.defining.saving import save_endpoint
from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter, ParameterType
from tests.conftest import ApiClient
from tests.endpoints.api.documents import DOCUMENT, document, operations_of, validate, validator

# A thread of a connection pool takes a random number while hypothesis draws a case: what is drawn is the same.
RANDOM = "ignore:Do not use the `random` module:hypothesis.errors.HypothesisDeprecationWarning"

pytestmark = [pytest.mark.django_db, pytest.mark.filterwarnings(RANDOM)]
ADDRESSES = ("logs.all", "name/logs.all", "usage.api-counts", "name/usage.api-counts")
CANCEL = "/api/calls/{request_id}"


def test_describes_one_operation_per_endpoint_with_parameters_types_and_columns(api: ApiClient) -> None:
    described = document(api)
    assert described["openapi"].startswith("3.1.")
    assert described["servers"][0]["url"] == "/"
    assert set(described["paths"]) == {*(f"/api/endpoints/query/{each}" for each in ADDRESSES), CANCEL}
    operation = described["paths"]["/api/endpoints/query/usage.api-counts"]["get"]
    parameters = {parameter["name"]: parameter for parameter in operation["parameters"]}
    assert parameters["interval"]["required"] is True
    schemas = described["components"]["schemas"]
    assert parameters["interval"]["schema"] == {"$ref": "#/components/schemas/IntervalOfUsageApiCounts"}
    assert schemas["IntervalOfUsageApiCounts"] == {"type": "string", "enum": ["minutely", "hourly", "daily"]}
    document_schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
    assert document_schema == {"$ref": "#/components/schemas/UsageApiCountsRows"}
    row = schemas["UsageApiCountsRow"]
    columns = ["timestamp", *(f"total_{area}_requests" for area in ("rest", "storage", "auth", "realtime"))]
    assert list(row["properties"]) == row["required"] == columns
    assert row["properties"]["timestamp"] == {"type": ["string", "null"], "format": "date-time"}
    assert row["properties"]["total_rest_requests"]["type"] == ["integer", "null"]


def test_names_only_the_endpoints_the_access_token_may_call() -> None:
    limited = ApiClient(issue_access_token(name="limited", endpoint_names=["logs.all"]).secret)
    described = document(limited)
    assert set(described["paths"]) == {*(f"/api/endpoints/query/{each}" for each in ADDRESSES[:2]), CANCEL}
    assert not [name for name in described["components"]["schemas"] if name.startswith("UsageApiCounts")]


def test_describes_loading_to_callers_that_may_load() -> None:
    limited = ApiClient(issue_access_token(name="shipper", may_load=True, no_endpoints=True).secret)
    paths = document(limited)["paths"]
    assert set(paths) == {"/api/logs", "/v1/logs"}
    for path, name in (("/api/logs", "load_rows"), ("/v1/logs", "export_logs")):
        assert paths[path]["post"]["operationId"] == name
        assert {"source", "source_name"} <= {each["name"] for each in paths[path]["post"]["parameters"]}
    assert set(paths["/v1/logs"]["post"]["requestBody"]["content"]) == {"application/json", "application/x-protobuf"}


def test_is_public_only_where_the_setting_says_so(settings: Any) -> None:
    assert Client().get(DOCUMENT).status_code == 401
    settings.ENDPOINTS_PUBLIC_SCHEMA = True
    assert "/api/endpoints/query/logs.all" in document(Client())["paths"]


def test_the_staff_of_the_admin_read_it_with_their_session(admin_client: Client, django_user_model: Any) -> None:
    assert "/api/endpoints/query/logs.all" in document(admin_client)["paths"]
    nobody = Client()
    nobody.force_login(django_user_model.objects.create_user("nobody"))
    assert nobody.get(DOCUMENT).status_code == 401


def test_the_page_loads_nothing_from_elsewhere() -> None:
    response = Client().get("/api/docs")
    assert response.status_code == 200
    page = response.content.decode()
    sources = re.findall(r"""(?:src|href)=["']([^"']+)["']""", page)
    assert sources
    assert not [source for source in sources if source.startswith(("http:", "https:", "//"))]
    for source in (each for each in sources if each.startswith("/static/")):
        file = Client().get(source)
        assert file.status_code == 200, source
        file.close()


# --- For generators of clients ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "options",
    [
        {"may_purge": True, "may_load": True, "may_issue": True},
        {},
        {"bound_arguments": {"project": "acme"}},
        {"no_endpoints": True, "may_load": True},
    ],
)
def test_is_a_valid_document_to_every_caller(every_parameter_type: Endpoint, options: dict[str, Any]) -> None:
    validate(document(ApiClient(issue_access_token(name="one", **options).secret)))


def test_is_valid_without_a_caller_and_has_every_operation(every_parameter_type: Endpoint, settings: Any) -> None:
    settings.ENDPOINTS_PUBLIC_SCHEMA = True
    described = document(Client())
    validate(described)
    assert {operation["tags"][0] for operation in operations_of(described)} == {
        "endpoints", "sandbox", "calls", "cache", "loading", "tokens",
    }  # fmt: skip


def test_names_are_readable_and_the_same_for_get_and_post(api: ApiClient) -> None:
    save_endpoint(Endpoint(name="errors.by-path", sql="SELECT @min_status::bigint AS n"), ())
    described = document(api)
    item = described["paths"]["/api/endpoints/query/errors.by-path"]
    assert [item[method]["operationId"] for method in item] == ["get_errors_by_path", "post_errors_by_path"]
    for operation in item.values():
        schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
        assert schema == {"$ref": "#/components/schemas/ErrorsByPathRows"}
    rows = described["components"]["schemas"]["ErrorsByPathRows"]
    assert rows["properties"]["result"]["items"] == {"$ref": "#/components/schemas/ErrorsByPathRow"}
    assert rows["required"] == ["result"]


@pytest.mark.parametrize("names", [("a.b", "a_b"), ("a.b", "AB"), ("sandbox", "x"), ("sand.box", "S-andbox")])
def test_names_that_generators_take_for_the_same_are_told_apart(api: ApiClient, names: tuple[str, str]) -> None:
    for name in names:
        save_endpoint(Endpoint(name=name, sql="SELECT 1 AS n", sandboxing=False), ())
    described = document(api)
    validate(described)
    schemas = {name.lower() for name in described["components"]["schemas"]}
    assert len(schemas) == len(described["components"]["schemas"])


def test_rows_of_the_sandbox_are_open_and_those_of_the_stored_query_are_not_weakened(api: ApiClient) -> None:
    described = document(api)
    stored = described["paths"]["/api/endpoints/query/logs.all"]["get"]
    sandbox = described["paths"]["/api/endpoints/query/name/logs.all"]
    assert not {"sql", "lql"} & {each["name"] for each in stored["parameters"]}
    assert {"sql", "lql"} < {each["name"] for each in sandbox["get"]["parameters"]}
    body = described["components"]["schemas"]["LogsAllQuery"]
    assert {"sql", "lql", "project"} < set(body["properties"])
    assert body["required"] == ["project"]
    assert described["components"]["schemas"]["SandboxRow"]["additionalProperties"] is True
    row = api.query("name/logs.all", {"project": "acme", "sql": "select count(*) as n from edge_logs"}).json()
    validator(described, "SandboxRows").validate(row)
    assert not validator(described, "LogsAllRows").is_valid(row)


@pytest.mark.parametrize(("bound", "required"), [({}, ["interval", "project"]), ({"project": "acme"}, ["interval"])])
def test_arguments_that_must_be_sent_are_required_by_get_and_by_post(
    bound: dict[str, str], required: list[str]
) -> None:
    described = document(ApiClient(issue_access_token(name="one", bound_arguments=bound).secret))
    item = described["paths"]["/api/endpoints/query/usage.api-counts"]
    assert [each["name"] for each in item["get"]["parameters"] if each["required"]] == required
    assert item["post"]["requestBody"]["required"] is True
    for media_type in ("application/json", "application/x-www-form-urlencoded"):
        name = item["post"]["requestBody"]["content"][media_type]["schema"]["$ref"].rpartition("/")[2]
        assert described["components"]["schemas"][name]["required"] == required
    logs = described["paths"]["/api/endpoints/query/logs.all"]["post"]
    assert logs["requestBody"]["required"] is not bool(bound)


def test_what_an_access_token_is_bound_to_is_not_told() -> None:
    secret = issue_access_token(name="one", bound_arguments={"project": "a-project-of-somebody"}).secret
    assert "a-project-of-somebody" not in json.dumps(document(ApiClient(secret)))


def test_neither_is_the_sql_of_an_endpoint_nor_an_endpoint_of_others(api: ApiClient) -> None:
    save_endpoint(Endpoint(name="hidden.one", sql="SELECT 'in-the-text' AS hidden_column"), ())
    limited = issue_access_token(name="limited", endpoint_names=["logs.all"]).secret
    text = json.dumps(document(ApiClient(limited)))
    assert not [word for word in ("hidden", "Hidden", "in-the-text", "edge_logs") if word in text]
    assert "in-the-text" not in json.dumps(document(api))


@pytest.mark.parametrize(("may_purge", "expected"), [(True, {"delete"}), (False, set())])
def test_purging_is_described_to_who_may_purge(may_purge: bool, expected: set[str]) -> None:
    client = ApiClient(issue_access_token(name="one", may_purge=may_purge).secret)
    described = document(client)
    assert set(described["paths"].get("/api/endpoints/cache/logs.all", {})) == expected
    if may_purge:
        answer = client.delete("/api/endpoints/cache/logs.all")
        validator(described, "PurgedResult").validate(answer.json())


def test_headers_and_failures_are_described(api: ApiClient) -> None:
    described = document(api)
    responses = described["paths"]["/api/endpoints/query/logs.all"]["get"]["responses"]
    answer = api.query("logs.all", {"project": "acme"})
    sent = {name for name in answer.headers if name.startswith("X-Result") or name in ("ETag", "X-Cache", "Age")}
    assert sent | {"Server-Timing", "Cache-Control", "X-Request-ID"} <= set(responses["200"]["headers"])
    assert "content" not in responses["304"]
    assert "ETag" in responses["304"]["headers"]
    assert "304" not in described["paths"]["/api/endpoints/query/logs.all"]["post"]["responses"]
    failures = described["components"]["responses"]
    for status in ("429", "503"):
        assert "Retry-After" in failures[f"Failure{status}"]["headers"]
    assert "`query_timeout`" in failures["Failure504"]["description"]
    refused = api.query("logs.all", {"iso_timestamp_start": "x"})
    validator(described, "Error").validate(refused.json())


def test_the_rows_of_every_type_are_as_described(api: ApiClient, every_parameter_type: Endpoint) -> None:
    types = (
        "1::smallint a, 2::bigint b, 1.50::numeric(5,2) c, 0.1::real d, true e, '{}'::jsonb f, ARRAY[1,NULL] g, "
        "now() h, now()::timestamp i, current_date j, gen_random_uuid() k, decode('00','hex') l, '1 day'::interval m, "
        "NULL::bigint n, '10.0.0.1'::inet o, '[1,2)'::int4range p, 26::oid q, 'x'::varchar(3) r, 'y'::name s, "
        "ARRAY['a'] t, '12:00'::time u, ROW(1) v, now()::timestamptz(3) w"
    )
    save_endpoint(Endpoint(name="every.column", sql=f"SELECT {types}"), ())
    save_endpoint(Endpoint(name="in.unix", sql=f"SELECT {types}", timestamps_as="unix_microseconds"), ())
    described = document(api)
    for name, rows in (("every.column", "EveryColumnRows"), ("in.unix", "InUnixRows"), ("every.type", "EveryTypeRows")):
        validator(described, rows).validate(api.query(name).json())


@pytest.fixture
def every_parameter_type() -> Endpoint:
    parameters = [
        DeclaredParameter(name=f"p_{parameter_type.name.lower()}", type=parameter_type)
        for parameter_type in ParameterType
    ]
    columns = ", ".join(f"@{parameter.name} AS {parameter.name}" for parameter in parameters)
    return save_endpoint(Endpoint(name="every.type", sql=f"SELECT {columns}"), parameters)


@pytest.fixture
def issuing(db: None) -> str:
    """The secret of an access token that may also issue browser tokens."""
    return issue_access_token(name="issuing", may_issue=True).secret


@pytest.fixture
def schema(
    issuing: str, every_parameter_type: Endpoint, in_one_transaction: None, monkeypatch: pytest.MonkeyPatch
) -> Any:
    monkeypatch.setattr(calls, "CALL_FOUND_SECONDS", 0.0)
    return schemathesis.openapi.from_wsgi(DOCUMENT, WSGIHandler(), headers={"X-API-KEY": issuing})


@pytest.fixture
def in_one_transaction(settings: Any) -> Iterator[None]:
    settings.ALLOWED_HOSTS = ["localhost"]
    # Django's handler ends the database connection of a request; here it is the test's, inside its transaction.
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_no_load_that_the_document_allows_or_forbids_makes_a_server_error(
    log_database: Any, in_one_transaction: None, mode: GenerationMode
) -> None:
    secret = issue_access_token(name="shipper", may_load=True, load_sources=["edge_logs"], no_endpoints=True).secret
    headers = {"X-API-KEY": secret}
    schema = schemathesis.openapi.from_wsgi(DOCUMENT, WSGIHandler(), headers=headers)
    operations = [operation.ok() for operation in schema.get_all_operations()]
    assert len(operations) == 2
    for operation in operations:
        check(operation, headers, mode)


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_no_request_that_the_document_allows_or_forbids_makes_a_server_error(
    schema: Any, issuing: str, mode: GenerationMode
) -> None:
    operations = [operation.ok() for operation in schema.get_all_operations()]
    # GET and POST of both shipped endpoints, of their sandboxes, and of the one with every type; cancel and issue.
    assert len(operations) == 12
    for operation in operations:
        check(operation, {"X-API-KEY": issuing}, mode)


def check(operation: Any, headers: dict[str, str], mode: GenerationMode) -> None:
    @hypothesis_settings(
        max_examples=40,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def call(case: Any) -> None:
        case.headers = {**(case.headers or {}), **headers}
        case.call_and_validate(checks=[not_a_server_error, status_code_conformance])

    call()
