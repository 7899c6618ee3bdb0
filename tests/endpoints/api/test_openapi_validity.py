"""The OpenAPI document of more than fifty endpoints: valid to a validator of others, and true to what they answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from config.setting_values import Rate
from endpoints.access.access_tokens import issue_access_token
from endpoints.api.schemas import DETAIL_FIELDS, reference
from endpoints.defining.saving import save_endpoint
from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter, ParameterType
from tests.conftest import ApiClient
from tests.endpoints.api.documents import document, operations_of, parameters_of, schema_of, validate, validator

pytestmark = pytest.mark.django_db
LOGS = "WITH lines AS (SELECT t.timestamp, t.id, t.event_message FROM logs.edge_logs AS t)"
COUNTS = "WITH counts AS (SELECT n FROM generate_series(1, 9) AS n)"
# Of each type: a value as text, and as JSON has it.
VALUES: Mapping[ParameterType, tuple[str, Any]] = {
    ParameterType.TEXT: ("seven", "seven"),
    ParameterType.INTEGER: ("7", 7),
    ParameterType.NUMBER: ("7.5", 7.5),
    ParameterType.BOOLEAN: ("true", True),
    ParameterType.TIMESTAMP: ("2026-11-23T00:00:00Z", "2026-11-23T00:00:00Z"),
    ParameterType.DATE: ("2026-11-23", "2026-11-23"),
    ParameterType.UUID: ("5a0c0de0-0000-4000-8000-000000000001",) * 2,
    ParameterType.TEXT_LIST: ("seven", ["seven"]),
}
JSON_TYPES: Mapping[ParameterType, type] = {
    ParameterType.INTEGER: int, ParameterType.NUMBER: float, ParameterType.BOOLEAN: bool, ParameterType.TEXT_LIST: list
}  # fmt: skip
SHAPES: Mapping[str, dict[str, Any]] = {
    "optional": {},
    "required": {"required": True},
    "default": {"default": True},
    "allowed": {"allowed_values": True},
}


@dataclass(frozen=True)
class Case:
    """An endpoint, and the arguments of a call that succeeds."""

    name: str
    sql: str
    parameters: tuple[DeclaredParameter, ...] = ()
    arguments: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


def cases() -> Iterator[Case]:
    for each in ParameterType:
        for shape, options in SHAPES.items():
            text = VALUES[each][0]
            given = {key: (text,) if key == "allowed_values" else text if key == "default" else value
                     for key, value in options.items()}  # fmt: skip
            name = f"{each.name.lower()}.{shape}"
            yield Case(
                name, "SELECT @value AS value", (DeclaredParameter("value", type=each, **given),), {"value": text}
            )
    one = "SELECT 1 AS n"
    for name in ("a", "a.b", "A-B", "a_b_", "x" * 100, "error", "errors.by-path", "result", "sandbox", "v1.0.0", "If"):
        yield Case(name, one)
    yield Case("both", "SELECT @w AS w", (DeclaredParameter("w", required=True, default="a", description="`|` <b>"),))
    bounded = DeclaredParameter("n", type=ParameterType.INTEGER, minimum="1", maximum="9", default="3")
    yield Case("bounded", "SELECT @n AS n", (bounded,))
    yield Case("pattern", "SELECT @w AS w", (DeclaredParameter("w", pattern="[a-z]+", default="a"),))
    yield Case("python.pattern", "SELECT @w AS w", (DeclaredParameter("w", pattern="(?i:a)", default="a"),))
    names = ("format", "page_size", "page_token", "tail", "class", "self", "X_API_KEY", "i" * 48)
    columns = ", ".join(f"@{name} AS {name}" for name in names)
    yield Case("own.names", f"SELECT {columns}", tuple(DeclaredParameter(name) for name in names))
    yield Case("columns", """SELECT 1 AS "a b", 2 AS "ü", 3 AS "$ref", 4 AS "a""b", 5 AS "class", 7 AS "a b" """)
    yield Case("no.rows", "SELECT 1 AS n WHERE false")
    yield Case("pages", "SELECT n FROM generate_series(1, 9) AS n", settings={"page_order": "n", "max_rows": 3})
    yield Case("streams", "SELECT n FROM generate_series(1, 9) AS n", settings={"stream_rows": 1_000_000_000})
    yield Case("unix", "SELECT now() AS at", settings={"timestamps_as": "unix_microseconds"})
    yield Case("cached", one, settings={"cache_seconds": 60, "redact_pii": True})
    yield Case("described", one, settings={"description": 'Says "hello" & <b>more</b>\n\n* of `it`\u2028'})
    yield Case("tables", f"{LOGS} SELECT * FROM lines", settings={"sandboxing": True})
    yield Case("counts", f"{COUNTS} SELECT n FROM counts LIMIT 3", settings={"sandboxing": True})
    yield Case("bigquery", f"{LOGS} SELECT * FROM lines", settings={"sandboxing": True, "sandbox_dialect": "bigquery"})
    lql = {"sandboxing": True, "default_sandbox_table": "lines", "lql_chart_column": "count"}
    yield Case("default.table", f"{LOGS} SELECT * FROM lines", settings=lql)
    everything = {"sandboxing": True, "stream_rows": 50, "page_order": "timestamp desc, id desc", "cache_seconds": 60}
    yield Case("everything", f"{LOGS} SELECT timestamp, id, @value::int AS n FROM lines",
               (DeclaredParameter("value", type=ParameterType.INTEGER, default="7"),), settings=everything)  # fmt: skip


CASES = tuple(cases())


@pytest.fixture
def endpoints(log_database: Any) -> None:
    for case in CASES:
        save_endpoint(Endpoint(name=case.name, sql=case.sql, **case.settings), case.parameters)


def caller(name: str, **rights: Any) -> ApiClient:
    return ApiClient(issue_access_token(name=name, **rights).secret)


def test_the_document_of_all_is_valid_and_every_answer_is_as_it_says(endpoints: None) -> None:
    assert len(CASES) >= 55
    everything = caller("everything", may_purge=True, may_load=True, may_issue=True)
    described = document(everything)
    validate(described)
    check_common(described)
    for case in CASES:
        item = described["paths"][f"/api/endpoints/query/{case.name}"]
        schema = item["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        assert schema == item["post"]["responses"]["200"]["content"]["application/json"]["schema"]
        rows = validator(described, schema["$ref"].rpartition("/")[2])
        path = f"/api/endpoints/query/{case.name}"
        answers = [
            everything.get(path, case.arguments),
            everything.post(path, case.arguments, content_type="application/json"),
        ]
        for answer in answers:
            assert answer.status_code == 200, (case.name, answer.content)
            rows.validate(answer.json())
            headers = {name.lower() for name in item["get"]["responses"]["200"]["headers"]}
            told = {name.lower() for name in answer.headers if name.startswith(("X-", "ETag", "Age", "Link", "Server"))}
            assert told - {"x-frame-options", "x-content-type-options"} <= headers, case.name
        check_parameters(case, described, item)


def check_parameters(case: Case, described: Mapping[str, Any], item: Mapping[str, Any]) -> None:
    """Check that GET and POST take the same, with defaults of the right type, and require the same."""
    taken = parameters_of(item["get"])
    must = [name for name, each in taken.items() if each["required"]]
    assert must == [each.name for each in case.parameters if each.required and each.default is None]
    if not case.parameters:
        return
    body = schema_of(dict(described), item["post"]["requestBody"])
    assert body.get("required", []) == must
    assert item["post"]["requestBody"]["required"] is bool(must)
    for each in case.parameters:
        for schema in (taken[each.name]["schema"], body["properties"][each.name]):
            if each.default is None:
                assert "default" not in schema
            else:
                assert type(schema["default"]) is JSON_TYPES.get(each.type, str), case.name
        if each.allowed_values and each.type not in (ParameterType.NUMBER, ParameterType.BOOLEAN):
            assert "#/components/schemas/" in str(taken[each.name]["schema"]), "one type for GET and POST"
    is_own = any(each.name == "format" for each in case.parameters)
    assert taken["format"]["schema"] == ({"type": "string"} if is_own else reference("ResultFormat"))


def check_common(described: Mapping[str, Any]) -> None:
    """Check what is the same for every endpoint: servers, errors, caching, limits."""
    assert described["servers"] == [{"url": "/", "description": "The service that this document comes from."}]
    assert described["info"]["description"]
    schemas, responses = described["components"]["schemas"], described["components"]["responses"]
    assert "rate_limited" in schemas["ErrorCode"]["enum"]
    assert schemas["Problem"]["properties"]["code"] == {"$ref": "#/components/schemas/ErrorCode"}
    assert schemas["ErrorDetail"]["properties"] == dict(DETAIL_FIELDS)
    for name, schema in DETAIL_FIELDS.items():
        assert "type" in schema, name
    assert {"Retry-After", "RateLimit", "RateLimit-Policy"} <= set(responses["Failure429"]["headers"])
    assert "Retry-After" in responses["Failure503"]["headers"]
    for name, row in schemas.items():
        if name.endswith("Row") and name != "SandboxRow":
            assert list(row["properties"]) == row["required"]
            assert all("null" in each.get("type", ["null"]) for each in row["properties"].values()), name
    paths = described["paths"]
    for case in CASES:
        assert list(paths[f"/api/endpoints/cache/{case.name}"]) == ["delete"]
        get = paths[f"/api/endpoints/query/{case.name}"]["get"]
        assert {"200", "304", "400", "401", "404", "429", "503"} <= set(get["responses"])
        assert "If-None-Match" in parameters_of(get)
        assert ("description" in get) == ("summary" in get) is True
        assert (f"/api/endpoints/query/name/{case.name}" in paths) == bool(case.settings.get("sandboxing"))
    assert list(paths["/api/logs"]) == ["post"]

    for bound in ({"value": "7"}, {"format": "short"}):
        check_bound(bound)


def check_bound(bound: dict[str, str]) -> None:
    """Check that the document of a bound access token is valid, and requires nothing that it is bound to."""
    described = document(caller("+".join(bound), bound_arguments=bound))
    validate(described)
    for operation in operations_of(described):
        for name in bound.keys() & parameters_of(operation).keys():
            assert parameters_of(operation)[name]["required"] is False
    for name, schema in described["components"]["schemas"].items():
        if name.endswith(("Arguments", "Form", "Query")):
            assert bound.keys().isdisjoint(schema.get("required", ())), name


def test_the_figures_of_a_limit_are_as_described(settings: Any) -> None:
    save_endpoint(Endpoint(name="a", sql="SELECT 1 AS n"), [])
    limited = caller("limited")
    described = document(limited)
    settings.ENDPOINTS_RATE_LIMIT = Rate(1, 3600)
    answers = [limited.query("a") for _ in range(2)]
    refused = answers[-1]
    assert refused.status_code == 429
    validator(described, "Error").validate(refused.json())
    (detail,) = refused.json()["error"]["details"]
    assert set(detail) == {"limit", "value", "remaining", "window_seconds", "retry_after_seconds"} <= set(DETAIL_FIELDS)
    assert (detail["limit"], detail["value"], detail["remaining"]) == ("calls_an_hour", 1, 0)
    assert refused["RateLimit-Policy"] == '"calls_an_hour";q=1;w=3600'
    assert refused["RateLimit"] == f'"calls_an_hour";r=0;t={refused["Retry-After"]}'
