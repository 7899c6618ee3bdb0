"""Which ways to call an endpoint the page shows, and that each example is a program whatever the arguments are."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from typing import Any

import pytest
from django.test import RequestFactory

from endpoints.admin import ways_to_call
from endpoints.admin.call_examples import CallExample, Language, WayToCall
from endpoints.admin.ways_to_call import calling_context
from endpoints.defining.saving import save_endpoint
from endpoints.models import Endpoint
from endpoints.results.outcomes import ResultFormat
from endpoints.sql.parameters import DeclaredParameter, ParameterType

pytestmark = pytest.mark.django_db

ALWAYS = ["call", "formats", "browser", "agent", "cancelling", "clients", "tracing"]
SANDBOXED = "WITH t AS (SELECT now() AS timestamp, 'a'::text AS id) SELECT * FROM t"
PROJECT = DeclaredParameter("project", required=True)
AWKWARD = 'it\'s "a" \\ $HOME `x` ü'


def context(endpoint: Endpoint, query: str = "") -> dict[str, Any]:
    return calling_context(RequestFactory().get(f"/{query}"), endpoint)


def ways(endpoint: Endpoint, query: str = "") -> dict[str, WayToCall]:
    return {way.name: way for way in context(endpoint, query)["ways"]}


def save(sql: str = "SELECT 1 AS one", *parameters: DeclaredParameter, **settings: Any) -> Endpoint:
    return save_endpoint(Endpoint(name="test.ways", sql=sql, **settings), list(parameters))


def examples(way: WayToCall) -> dict[str, CallExample]:
    return {example.name: example for example in way.examples}


@pytest.mark.parametrize(
    ("changes", "further"),
    [
        ({}, []),
        ({"stream_rows": 10}, ["streams"]),
        ({"page_order": "id"}, ["pages"]),
        ({"sandboxing": True}, ["tail"]),
        ({"sandboxing": True, "stream_rows": 10, "page_order": "id"}, ["streams", "pages", "tail"]),
    ],
)
def test_ways_are_shown_where_the_endpoint_has_them(changes: dict[str, Any], further: list[str]) -> None:
    shown = ways(save(SANDBOXED, **changes))
    assert list(shown) == [*ALWAYS[:2], *further, *ALWAYS[2:]]
    streamed = {"csv", "ndjson"}
    assert (streamed <= examples(shown["formats"]).keys()) is ("streams" not in further)


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("WITH t AS (SELECT 1 AS id) SELECT * FROM t", []),
        ("WITH t AS (SELECT now()::timestamp AS timestamp, 1 AS id) SELECT * FROM t", []),
        ("WITH t AS (SELECT now() AS timestamp, @tail AS id) SELECT * FROM t", [DeclaredParameter("tail")]),
    ],
    ids=["no timestamp", "no time zone", "a parameter of its own"],
)
def test_what_cannot_be_tailed_has_no_tail(sql: str, parameters: list[DeclaredParameter]) -> None:
    assert list(ways(save(sql, *parameters, sandboxing=True))) == ALWAYS


def test_a_tail_follows_a_table_that_can_be_followed() -> None:
    sql = "WITH counts AS (SELECT 1 AS n), rows AS (SELECT now() AS timestamp, 1 AS id) SELECT * FROM rows, counts"
    shown = ways(save(sql, sandboxing=True, default_sandbox_table="counts"))
    assert "lql=f:rows'" in examples(shown["tail"])["shell"].text


def test_a_tail_has_no_end() -> None:
    shown = ways(Endpoint.objects.get(name="logs.all"))
    assert "iso_timestamp_end" in examples(shown["pages"])["python"].text
    assert "iso_timestamp_end" not in examples(shown["tail"])["python"].text


def test_formats_that_the_installation_lacks_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = (ResultFormat.JSON, ResultFormat.CSV, ResultFormat.NDJSON)
    monkeypatch.setattr(ways_to_call, "offered_formats", lambda: texts)
    endpoint = save()
    formats = ways(endpoint)["formats"]
    assert list(examples(formats)) == ["csv", "ndjson"]
    assert "Parquet" not in formats.note
    endpoint.stream_rows = 10
    assert "formats" not in ways(endpoint)


@pytest.mark.parametrize("language", ["sql", "lql"])
def test_a_query_of_the_callers_own_is_sent_where_it_can_be(language: str) -> None:
    for way in ways(Endpoint.objects.get(name="logs.all"), f"?query={language}").values():
        sends = ["edge_logs" in example.text for example in way.examples if example.name != "backend"]
        assert all(sends) if way.takes_query else way.name == "tail" or not any(sends), way.name


def test_a_page_has_no_more_rows_than_the_endpoint() -> None:
    pages = ways(save(SANDBOXED, page_order="id", max_rows=7))["pages"]
    assert '"page_size": 7,' in examples(pages)["python"].text


def issued(endpoint: Endpoint) -> dict[str, Any]:
    text = examples(ways(endpoint)["browser"])["backend"].text
    found = re.search(r"--data '(.*)'\Z", text)
    assert found is not None
    body: dict[str, Any] = json.loads(found[1])
    return body


@pytest.mark.parametrize(
    ("sql", "changes", "bound"),
    [
        ("SELECT 1 AS one", {}, None),
        ("SELECT @project AS project, @n AS n", {"tenant_parameter": "project"}, {"project": "SOME_PROJECT"}),
        ("SELECT @n AS n, @project AS project", {}, {"n": "1"}),
    ],
)
def test_a_browser_token_is_bound(sql: str, changes: dict[str, Any], bound: dict[str, str] | None) -> None:
    declared = [DeclaredParameter("n", ParameterType.INTEGER, required=True), PROJECT] if "@n" in sql else []
    endpoint = save(sql, *declared, **changes)
    assert issued(endpoint).get("arguments") == bound
    page = examples(ways(endpoint)["browser"])["page"].text
    assert all(f'"{name}"' not in page for name in bound or ())


@pytest.mark.parametrize("value", ["plain", AWKWARD])
def test_every_example_is_a_program(value: str) -> None:
    declared = [PROJECT, DeclaredParameter("kind", allowed_values=(value,))]
    sql = "WITH t AS (SELECT now() AS timestamp, @project AS id, @kind AS kind) SELECT * FROM t"
    shown = ways(save(sql, *declared, sandboxing=True, stream_rows=10, page_order="id"))
    for way in shown.values():
        for example in way.examples:
            match example.language:
                case Language.PYTHON:
                    ast.parse(example.text)
                case Language.SHELL | Language.JSON_IN_SHELL:
                    read = subprocess.run(
                        ["/bin/sh", "-n"], input=example.text.encode(), capture_output=True, check=False
                    )
                    assert (read.returncode, read.stderr) == (0, b""), example.text


def test_the_link_and_the_client_name_the_operation(admin_client: Any) -> None:
    shown = context(save())
    operation = shown["docs_address"].rpartition("/")[2]
    document = admin_client.get(shown["openapi_address"]).json()
    assert document["paths"]["/api/endpoints/query/test.ways"]["get"]["operationId"] == operation == "get_test_ways"
    clients = next(way for way in shown["ways"] if way.name == "clients")
    assert f"the function {operation}." in clients.note


@pytest.mark.parametrize(("query", "chosen"), [("", "call"), ("?way=agent", "agent"), ("?way=unknown", "call")])
def test_the_address_chooses_the_way(query: str, chosen: str) -> None:
    assert context(save(), query)["way"] == chosen
