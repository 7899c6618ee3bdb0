"""What the OpenAPI document says of one endpoint: pages and tails, where it has them, and true to what is answered."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from endpoints.access.access_tokens import issue_access_token
from endpoints.defining.saving import save_endpoint
from endpoints.definition import values_of
from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter
from tests.conftest import ApiClient, iso
from tests.endpoints.api.documents import document, operation_of, parameters_of, schema_of, validate, validator

pytestmark = pytest.mark.django_db
ACME = {"project": "acme"}
PAGE_ARGUMENTS = {"page_size", "page_token"}
NUMBERED = "SELECT n FROM generate_series(1, 5) AS n"


def save_like_logs_all(name: str, **changes: Any) -> None:
    original = Endpoint.objects.get(name="logs.all")
    save_endpoint(Endpoint(**{**values_of(original), "name": name, **changes}), original.parameters_of_version)


def taken(described: dict[str, Any], operation: str) -> dict[str, Any]:
    """Return the schemas of what a GET takes in the query string, or a POST in its JSON body."""
    found = operation_of(described, operation)
    if "_get_" in operation or operation.startswith("get_"):
        return {name: each["schema"] for name, each in parameters_of(found).items() if each["in"] == "query"}
    fields: dict[str, Any] = schema_of(described, found["requestBody"])["properties"]
    return fields


# --- Pages ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", ["get", "post"])
def test_an_endpoint_with_an_order_takes_a_page_size_and_a_page_token(api: ApiClient, method: str) -> None:
    fields = taken(document(api), f"{method}_logs_all")
    size = fields["page_size"]
    assert (size["type"], size["minimum"], size["maximum"]) == ("integer", 1, 1000)
    assert fields["page_token"]["type"] == "string"


def test_no_page_argument_must_be_sent(api: ApiClient) -> None:
    described = document(api)
    sent = parameters_of(operation_of(described, "get_logs_all"))
    assert not any(sent[name]["required"] for name in PAGE_ARGUMENTS)
    for name in ("LogsAllArguments", "LogsAllForm"):
        assert described["components"]["schemas"][name]["required"] == ["project"]


@pytest.mark.parametrize("operation", ["get_usage_api_counts", "post_usage_api_counts"])
def test_an_endpoint_without_an_order_has_no_pages(api: ApiClient, operation: str) -> None:
    described = document(api)
    assert PAGE_ARGUMENTS.isdisjoint(taken(described, operation))
    assert "Link" not in operation_of(described, operation)["responses"]["200"]["headers"]
    assert list(described["components"]["schemas"]["UsageApiCountsRows"]["properties"]) == ["result"]


def test_an_endpoint_without_parameters_takes_a_body_for_its_pages(api: ApiClient) -> None:
    save_endpoint(Endpoint(name="numbered", sql=NUMBERED, page_order="n", max_rows=3), ())
    described = document(api)
    validate(described)
    fields = taken(described, "post_numbered")
    assert set(fields) == PAGE_ARGUMENTS
    assert fields["page_size"]["maximum"] == 3
    assert operation_of(described, "post_numbered")["requestBody"]["required"] is False
    rows = validator(described, "NumberedRows")
    first = api.post("/api/endpoints/query/numbered", {"page_size": 3}, content_type="application/json")
    assert isinstance(first.json()["next"], str)
    last = api.query("numbered", {"page_token": first.json()["next"]})
    assert last.json() == {"result": [{"n": 4}, {"n": 5}], "next": None}
    for answer in (first, last, api.query("numbered")):
        rows.validate(answer.json())
    assert not rows.is_valid({"result": [], "next": 1})


def test_a_parameter_called_like_those_of_pages_is_the_endpoints_own(api: ApiClient) -> None:
    sql = "SELECT @page_size AS a, @page_token AS b, @tail AS c"
    names = ("page_size", "page_token", "tail")
    save_endpoint(Endpoint(name="own", sql=sql), [DeclaredParameter(name, description="Mine.") for name in names])
    described = document(api)
    validate(described)
    sent = parameters_of(operation_of(described, "get_own"))
    assert [sent[name]["description"] for name in names] == ["Mine."] * 3


@pytest.mark.parametrize("operation", ["get_logs_all", "post_logs_all"])
def test_the_address_of_the_next_page_is_a_header(
    api: ApiClient, insert_rows: Callable[..., None], operation: str
) -> None:
    insert_rows("edge_logs", [{"project": "acme", "id": each, "timestamp": "2026-11-23T00:00:00Z"} for each in "ab"])
    responses = operation_of(document(api), operation)["responses"]
    assert "Link" in responses["200"]["headers"]
    first = api.query("logs.all", {**ACME, "page_size": 1})
    assert "Link" in first.headers
    known = api.query("logs.all", {**ACME, "page_size": 1}, if_none_match=first["ETag"])
    assert (known.status_code, "Link" in known.headers) == (304, True)
    assert operation.startswith("post") or "Link" in responses["304"]["headers"]


def test_sandbox_queries_have_no_pages(api: ApiClient) -> None:
    described = document(api)
    for operation in ("sandbox_get_logs_all", "sandbox_post_logs_all"):
        assert "page_size" not in taken(described, operation)
        assert "Link" not in operation_of(described, operation)["responses"]["200"]["headers"]


def test_a_bound_access_token_has_the_same_pages() -> None:
    bound = ApiClient(issue_access_token(name="bound", bound_arguments=ACME).secret)
    described = document(bound)
    assert set(taken(described, "get_logs_all")) > PAGE_ARGUMENTS
    assert "acme" not in str(described)


# --- Tails ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("operation", ["sandbox_get_logs_all", "sandbox_post_logs_all"])
def test_a_sandbox_query_may_be_a_tail(
    api: ApiClient, insert_rows: Callable[..., None], settings: Any, operation: str
) -> None:
    insert_rows("edge_logs", [{"project": "acme", "timestamp": iso(datetime.now(UTC))}])
    described = document(api)
    fields = taken(described, operation)
    assert (fields["tail"]["type"], fields["page_token"]["type"]) == ("boolean", "string")
    sent = {**ACME, "lql": "s:event_message", "tail": "true"}
    for token in ("", api.query("name/logs.all", sent).json()["next"]):
        page = api.query("name/logs.all", {**sent, "page_token": token})
        validator(described, "SandboxRows").validate(page.json())
        assert isinstance(page.json()["next"], str)


def test_the_stored_query_has_no_tail(api: ApiClient) -> None:
    described = document(api)
    assert "tail" not in taken(described, "get_logs_all")
    assert "tail" not in taken(described, "post_logs_all")


def test_tables_whose_rows_have_no_place_have_no_tail(api: ApiClient) -> None:
    described = document(api)
    assert {"sql", "lql"} < set(taken(described, "sandbox_get_usage_api_counts"))
    answer = api.query("usage.api-counts", {**ACME, "interval": "daily", "lql": "f:dates", "tail": "true"})
    assert answer.json()["error"]["code"] == "invalid_lql"
    for operation in ("sandbox_get_usage_api_counts", "sandbox_post_usage_api_counts"):
        assert not {"tail", "page_token"} & set(taken(described, operation))


@pytest.mark.parametrize("name", ["tail", "page_token"])
def test_an_endpoint_with_a_parameter_of_that_name_has_no_tail(api: ApiClient, name: str) -> None:
    sql = f"WITH lines AS (SELECT now() AS timestamp, 'a'::text AS id, @{name}::text AS own) SELECT * FROM lines"
    save_endpoint(Endpoint(name="own.one", sql=sql, sandboxing=True), [DeclaredParameter(name, description="Mine.")])
    described = document(api)
    validate(described)
    own = [each for each in operation_of(described, "sandbox_get_own_one")["parameters"] if each["name"] == name]
    assert [each["description"] for each in own] == ["Mine."]
    assert {"tail", "page_token"} & set(taken(described, "sandbox_post_own_one")) == {name}


def test_without_a_sandbox_there_is_no_tail(api: ApiClient) -> None:
    save_like_logs_all("closed", sandboxing=False)
    described = document(api)
    assert "/api/endpoints/query/name/closed" not in described["paths"]
    assert "tail" not in taken(described, "get_closed")
