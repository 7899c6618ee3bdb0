"""The OpenAPI document: an operation per endpoint, true to what the service does."""

from __future__ import annotations

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
from endpoints.defining.saving import save_endpoint
from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter, ParameterType
from tests.conftest import ApiClient

pytestmark = pytest.mark.django_db
DOCUMENT = "/api/openapi.json"
ADDRESSES = ("logs.all", "name/logs.all", "usage.api-counts", "name/usage.api-counts")


def document(client: Client) -> dict[str, Any]:
    response = client.get(DOCUMENT)
    assert response.status_code == 200
    assert "json" in response["Content-Type"]
    result: dict[str, Any] = response.json()
    return result


def test_describes_one_operation_per_endpoint_with_parameters_types_and_columns(api: ApiClient) -> None:
    described = document(api)
    assert described["openapi"].startswith("3.1.")
    assert described["servers"][0]["url"] == "/"
    assert set(described["paths"]) == {f"/api/endpoints/query/{address}" for address in ADDRESSES}
    operation = described["paths"]["/api/endpoints/query/usage.api-counts"]["get"]
    parameters = {parameter["name"]: parameter for parameter in operation["parameters"]}
    assert parameters["interval"]["required"] is True
    assert parameters["interval"]["schema"] == {"type": "string", "enum": ["minutely", "hourly", "daily"]}
    schemas = described["components"]["schemas"]
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
    assert set(described["paths"]) == {f"/api/endpoints/query/{each}" for each in ("logs.all", "name/logs.all")}
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
    for source in sources:
        file = Client().get(source)
        assert file.status_code == 200, source
        file.close()


@pytest.fixture
def every_parameter_type() -> Endpoint:
    parameters = [
        DeclaredParameter(name=f"p_{parameter_type.name.lower()}", type=parameter_type)
        for parameter_type in ParameterType
    ]
    columns = ", ".join(f"@{parameter.name} AS {parameter.name}" for parameter in parameters)
    return save_endpoint(Endpoint(name="every.type", sql=f"SELECT {columns}"), parameters)


@pytest.fixture
def schema(secret: str, every_parameter_type: Endpoint, in_one_transaction: None) -> Any:
    return schemathesis.openapi.from_wsgi(DOCUMENT, WSGIHandler(), headers={"X-API-KEY": secret})


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
    schema: Any, secret: str, mode: GenerationMode
) -> None:
    operations = [operation.ok() for operation in schema.get_all_operations()]
    # GET and POST of both shipped endpoints, of their sandboxes, and of the one with every type.
    assert len(operations) == 10
    for operation in operations:
        check(operation, {"X-API-KEY": secret}, mode)


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
