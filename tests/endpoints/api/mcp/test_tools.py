"""Tools of /mcp: which ones an access token sees, and schemas that are true to what a call takes and returns."""

from __future__ import annotations

import re
from typing import Any

import jsonschema
import pytest
from mcp.shared.tool_name_validation import TOOL_NAME_REGEX
from mcp_types import methods

from endpoints.access.access_tokens import issue_access_token
from endpoints.api.mcp import tools
from endpoints.api.mcp.protocol import REVISIONS
from endpoints.defining.saving import save_endpoint
from endpoints.models import Endpoint, validate_endpoint_name
from endpoints.sql.parameters import DeclaredParameter, ParameterType
from tests.endpoints.api.mcp.agents import STATELESS, WITH_HANDSHAKE, Agent

pytestmark = pytest.mark.django_db

EVERY_TYPE = [
    DeclaredParameter(name="text", pattern="(?i)[a-z]+", description="A word."),
    DeclaredParameter(name="choice", required=True, allowed_values=("a", "b")),
    DeclaredParameter(name="whole", type=ParameterType.INTEGER, default="7", minimum="1", maximum="9"),
    DeclaredParameter(name="picked", type=ParameterType.INTEGER, allowed_values=("1", "+2")),
    DeclaredParameter(name="part", type=ParameterType.NUMBER, default="0.5"),
    DeclaredParameter(name="flag", type=ParameterType.BOOLEAN, default="yes"),
    DeclaredParameter(name="at", type=ParameterType.TIMESTAMP),
    DeclaredParameter(name="day", type=ParameterType.DATE),
    DeclaredParameter(name="key", type=ParameterType.UUID),
    DeclaredParameter(name="list", type=ParameterType.TEXT_LIST, allowed_values=("x", "y"), default="x"),
]
COLUMNS = {
    "t": "text", "i": "integer", "big": "bigint", "n": "numeric", "d": "double precision", "b": "boolean",
    "j": "jsonb", "js": "json", "ts": "timestamptz", "plain": "timestamp", "day": "date", "u": "uuid",
    "bin": "bytea", "iv": "interval", "ip": "inet", "o": "oid", "list": "text[]", "matrix": "integer[]",
    "times": "timestamptz[]", "r": "int4range",
}  # fmt: skip
VALUES = {
    "t": "x", "i": "1", "big": "9223372036854775807", "n": "NaN", "d": "-Infinity", "b": "true",
    "j": '[1, {"a": null}]', "js": "null", "ts": "2025-06-02 08:15:02+00", "plain": "infinity", "day": "infinity",
    "u": "00000000-0000-4000-8000-000000000000", "bin": r"\x00ff", "iv": "1 day", "ip": "203.0.113.1", "o": "7",
    "list": "{a,NULL}", "matrix": "{{1,NULL},{3,4}}", "times": "{infinity}", "r": "[1,2)",
}  # fmt: skip


@pytest.fixture
def typed(db: None) -> Endpoint:
    """An endpoint with a parameter of every type."""
    listed = ", ".join(f"@{parameter.name} AS {parameter.name}" for parameter in EVERY_TYPE)
    return save_endpoint(Endpoint(name="typed", sql=f"SELECT {listed}"), EVERY_TYPE)


def test_names_what_the_access_token_may_call(secret: str) -> None:
    assert list(Agent(secret).tools()) == ["logs.all", "usage.api-counts"]
    limited = issue_access_token(name="limited", endpoint_names=["logs.all"]).secret
    assert list(Agent(limited).tools()) == ["logs.all"]
    shipper = issue_access_token(name="shipper", may_load=True, no_endpoints=True).secret
    assert Agent(shipper).tools() == {}
    bound = issue_access_token(name="bound", bound_arguments={"iso_timestamp_start": "2026-01-01"}).secret
    assert list(Agent(bound).tools()) == ["logs.all"]  # the other endpoint has no such parameter


@pytest.mark.parametrize("revision", REVISIONS)
def test_is_what_the_specification_says(secret: str, typed: Endpoint, revision: str) -> None:
    result = Agent(secret, revision).result("tools/list")
    methods.validate_server_result("tools/list", revision, result)
    for tool in result["tools"]:
        assert TOOL_NAME_REGEX.fullmatch(tool["name"])
        assert tool["annotations"]["readOnlyHint"] is True
        jsonschema.Draft202012Validator.check_schema(tool["inputSchema"])
        jsonschema.Draft202012Validator.check_schema(tool["outputSchema"])
        assert tool["outputSchema"]["type"] == "object"
    assert ("ttlMs" in result) == (revision == STATELESS)


@pytest.mark.parametrize("name", ["a", "errors.by-path_2", "Z" * 100])
def test_every_name_of_an_endpoint_is_one_of_a_tool(name: str) -> None:
    validate_endpoint_name(name)
    assert TOOL_NAME_REGEX.fullmatch(name)
    # Whatever the pattern of endpoints allows: letters, digits, dots, dashes and underscores, at most 100.
    assert re.search(r"\[A-Za-z0-9_\.-\]\{0,99\}", validate_endpoint_name.regex.pattern)


def test_describes_every_type_of_argument(secret: str, typed: Endpoint) -> None:
    schema = Agent(secret).tools()["typed"]["inputSchema"]
    assert schema["required"] == ["choice"]
    assert schema["additionalProperties"] is False
    assert schema["properties"] == {
        "text": {"type": "string", "description": "A word. Matches (?i)[a-z]+ (Python)."},
        "choice": {"type": "string", "enum": ["a", "b"]},
        "whole": {"type": "integer", "format": "int64", "minimum": 1, "maximum": 9, "default": 7},
        "picked": {"type": "integer", "format": "int64", "enum": [1, 2]},
        "part": {"type": "number", "default": 0.5},
        "flag": {"type": "boolean", "default": True},
        "at": {
            "type": "string",
            "format": "date-time",
            "description": "ISO 8601, or a Unix time of 10, 13, 16 or 19 digits.",
        },
        "day": {"type": "string", "format": "date"},
        "key": {"type": "string", "format": "uuid"},
        "list": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}, "default": ["x"]},
    }


def test_takes_what_its_schema_allows(secret: str, typed: Endpoint) -> None:
    agent = Agent(secret)
    sent = {
        "text": "Word", "choice": "b", "whole": 9, "picked": 2, "part": 1.25, "flag": False,
        "at": "2026-01-02T03:04:05Z", "day": "2026-01-02", "key": "00000000-0000-4000-8000-000000000000", "list": ["y"],
    }  # fmt: skip
    jsonschema.validate(sent, agent.tools()["typed"]["inputSchema"])
    (row,) = agent.rows("typed", sent)
    assert row == {**sent, "at": "2026-01-02T03:04:05.000000Z"}
    (row,) = agent.rows("typed", {"choice": "a"})
    assert {name: row[name] for name in ("whole", "part", "flag", "list")} == {
        "whole": 7,
        "part": 0.5,
        "flag": True,
        "list": ["x"],
    }


def test_leaves_out_bound_arguments() -> None:
    bound = issue_access_token(name="bound", endpoint_names=["logs.all"], bound_arguments={"project": "acme"}).secret
    schema = Agent(bound).tools()["logs.all"]["inputSchema"]
    assert "project" not in schema["properties"]
    assert "required" not in schema
    assert "acme" not in str(schema)


def test_describes_the_tables_of_sandbox_queries(secret: str) -> None:
    tool = Agent(secret).tools()["logs.all"]
    properties = tool["inputSchema"]["properties"]
    described = properties["sql"]["description"]
    assert "PostgreSQL" in described
    for table in ("edge_logs", "database_logs", "function_edge_logs", "auth_logs", "pooler_logs"):
        assert re.search(rf"\b{table}\b", described)
    assert described.count("metadata jsonb") == 1  # nine tables with the same columns
    assert "edge_logs if none is named" in properties["lql"]["description"]
    assert "sql" in tool["description"]
    row = tool["outputSchema"]["properties"]["result"]["items"]
    assert "properties" not in row  # a sandbox query may give a column of this name any type
    assert "event_message text" in row["description"]


def test_names_the_dialect_of_sandbox_queries(secret: str) -> None:
    sql = "WITH t AS (SELECT 1 AS n) SELECT n FROM t"
    save_endpoint(Endpoint(name="other", sql=sql, sandboxing=True, sandbox_dialect="bigquery"), [])
    properties = Agent(secret).tools()["other"]["inputSchema"]["properties"]
    assert "One SELECT in BigQuery" in properties["sql"]["description"]
    assert properties["sql"]["description"].endswith("\n- t: n integer")
    assert "t if none is named" in properties["lql"]["description"]  # the only table


def test_offers_no_sandbox_query_where_there_is_none(secret: str, typed: Endpoint) -> None:
    assert not {"sql", "lql"} & Agent(secret).tools()["typed"]["inputSchema"]["properties"].keys()


@pytest.mark.parametrize("timestamps_as", ["iso", "unix_microseconds"])
@pytest.mark.parametrize("is_null", [False, True])
def test_rows_fulfil_the_output_schema(secret: str, timestamps_as: str, is_null: bool) -> None:
    literals = {name: "NULL" if is_null else f"'{VALUES[name]}'" for name in COLUMNS}
    values = ", ".join(f"{literals[name]}::{type_name} AS {name}" for name, type_name in COLUMNS.items())
    save_endpoint(Endpoint(name="values", sql=f"SELECT {values}", timestamps_as=timestamps_as), [])
    agent = Agent(secret)
    schema = agent.tools()["values"]["outputSchema"]
    assert list(schema["properties"]["result"]["items"]["properties"]) == list(COLUMNS)
    document = agent.call("values")["structuredContent"]
    assert len(document["result"]) == 1
    jsonschema.validate(document, schema)
    wrong: Any = {"result": [{**document["result"][0], "b": "true"}]}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, schema)


@pytest.mark.parametrize("revision", [STATELESS, WITH_HANDSHAKE[0]])
def test_lists_page_by_page(secret: str, typed: Endpoint, monkeypatch: pytest.MonkeyPatch, revision: str) -> None:
    monkeypatch.setattr(tools, "TOOLS_A_PAGE", 2)
    agent = Agent(secret, revision)
    first = agent.result("tools/list")
    assert [tool["name"] for tool in first["tools"]] == ["logs.all", "typed"]
    save_endpoint(Endpoint(name="a.new", sql="SELECT 1 AS one"), [])
    typed.delete()
    second = agent.result("tools/list", {"cursor": first["nextCursor"]})
    assert [tool["name"] for tool in second["tools"]] == ["usage.api-counts"]
    assert "nextCursor" not in second
    assert Agent.protocol_error(agent.ask("tools/list", {"cursor": 1}))[1] == -32602


def test_changes_with_a_save(secret: str, typed: Endpoint) -> None:
    agent = Agent(secret)
    typed.sql, typed.description = "SELECT @choice AS choice", "Says what was chosen."
    save_endpoint(typed, [DeclaredParameter(name="choice")])
    tool = agent.tools()["typed"]
    assert tool["description"] == "Says what was chosen. At most 200 rows."
    assert list(tool["inputSchema"]["properties"]) == ["choice"]


def test_says_what_is_redacted(secret: str) -> None:
    save_endpoint(Endpoint(name="private", sql="SELECT 1 AS one", redact_pii=True, max_rows=5), [])
    description = Agent(secret).tools()["private"]["description"]
    assert description.startswith("Runs the stored query private. At most 5 rows.")
    assert "REDACTED" in description
