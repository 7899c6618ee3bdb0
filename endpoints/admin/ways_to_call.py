"""Every way to call an endpoint that its settings and the installation make possible, with examples to copy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse

from endpoints.admin import client_examples, result_examples
from endpoints.admin.call_examples import (
    ACCESS_TOKEN,
    Target,
    Value,
    WayToCall,
    example_arguments,
    placeholders,
)
from endpoints.calling.operation_names import name_endpoints
from endpoints.definition import PublishedTable
from endpoints.models import Endpoint
from endpoints.results.encoding import offered_formats
from endpoints.results.outcomes import ResultFormat

_QUERIES: Final = {"": "Its own query", "sql": "A query in SQL", "lql": "A query in LQL"}
_STREAMED: Final = (ResultFormat.CSV, ResultFormat.NDJSON)
_TAIL_ARGUMENTS: Final = frozenset(("tail", "page_token"))


def calling_context(request: HttpRequest, endpoint: Endpoint) -> dict[str, Any]:
    """Return what the page shows about calling: the ways, and the words to fill in.

    `?query=` chooses whose query the examples send, `?way=` the way that is shown first.
    """
    parameters = endpoint.parameters_of_version
    arguments = example_arguments(parameters, now=datetime.now(UTC))
    asked = request.GET.get("query", "")
    query = asked if endpoint.sandboxing and asked in _QUERIES else ""
    stored = Target(
        address=request.build_absolute_uri(reverse("query", args=[endpoint.name])),
        statement_timeout_seconds=endpoint.statement_timeout_seconds,
        arguments=arguments,
    )
    sent = arguments | ({query: sandbox_query(endpoint, query)} if query else {})
    operation = f"get_{name_endpoints(Endpoint.objects.all())[endpoint.name].operation}"
    ways = [
        *_result_ways(endpoint, stored, replace(stored, arguments=sent)),
        *_client_ways(request, endpoint, replace(stored, arguments=sent), operation),
    ]
    fills = [(ACCESS_TOKEN, "Access token"), *((word, f"@{name}") for word, name in placeholders(arguments).items())]
    chosen = request.GET.get("way", "")
    return {
        "ways": ways,
        "way": chosen if any(way.name == chosen for way in ways) else ways[0].name,
        "fills": fills,
        "parameters": parameters,
        "queries": list(_QUERIES.items()) if endpoint.sandboxing else [],
        "query": query,
        "openapi_address": reverse("openapi"),
        "docs_address": f"{reverse('api-docs')}#/endpoints/{operation}",
    }


def _result_ways(endpoint: Endpoint, stored: Target, target: Target) -> list[WayToCall]:
    formats = [each for each in offered_formats() if each is not ResultFormat.JSON]
    if endpoint.stream_rows:
        formats = [each for each in formats if each not in _STREAMED]
    ways = [result_examples.plain_call(target)]
    if formats:
        ways.append(result_examples.other_formats(target, formats))
    if endpoint.stream_rows:
        ways.append(result_examples.streams(target, endpoint.stream_rows))
    if endpoint.page_order:
        ways.append(result_examples.pages(stored, endpoint.max_rows))
    if table := _tailed_table(endpoint):
        # The examples of times that may be left out end now, and new rows come later.
        required = {each.name for each in endpoint.parameters_of_version if each.required}
        arguments = {name: value for name, value in stored.arguments.items() if name in required}
        tail = replace(stored, arguments=arguments)
        ways.append(result_examples.live_tail(tail, table, settings.ENDPOINTS_TAIL_SECONDS))
    return ways


def _client_ways(request: HttpRequest, endpoint: Endpoint, target: Target, operation: str) -> list[WayToCall]:
    def address(route: str, *arguments: str) -> str:
        return request.build_absolute_uri(reverse(route, args=arguments))

    return [
        client_examples.browser_tokens(
            target,
            tokens_address=address("tokens"),
            endpoint=endpoint.name,
            bound=_bound(endpoint, target.arguments),
        ),
        client_examples.agent(target, mcp_address=address("mcp"), tool=endpoint.name),
        client_examples.cancelling(target, calls_address=address("call", "id").removesuffix("id")),
        client_examples.typed_clients(target, openapi_address=address("openapi"), operation=operation),
        client_examples.tracing(target),
    ]


def sandbox_query(endpoint: Endpoint, language: str) -> str:
    """Return a query of a consumer's own in this language, over the table that is most likely meant."""
    tables = [table["name"] for table in endpoint.sandbox_tables]
    table = endpoint.default_sandbox_table or (tables[0] if tables else "a_table")
    if language == "lql":
        return f"f:{table} t:last@1hour"
    quoted = table if table.isidentifier() and table.islower() else '"' + table.replace('"', '""') + '"'
    return f"SELECT * FROM {quoted} LIMIT 10"  # noqa: S608  # shown, not run


def _tailed_table(endpoint: Endpoint) -> str:
    """Return a sandbox table that a tail can follow, the default one if it can, "" if there is none."""
    # Names that the endpoint has for itself mean no tail.
    if not endpoint.sandboxing or any(each.name in _TAIL_ARGUMENTS for each in endpoint.parameters_of_version):
        return ""
    tables = [PublishedTable.from_json(table) for table in endpoint.sandbox_tables]
    names = [table.name for table in tables if _has_places(table)]
    default = endpoint.default_sandbox_table
    return default if default in names else names[0] if names else ""


def _has_places(table: PublishedTable) -> bool:
    types = {column.name: column.type for column in table.columns}
    return "id" in types and types.get("timestamp") == "timestamp with time zone"


def _bound(endpoint: Endpoint, arguments: Mapping[str, Value]) -> dict[str, Value]:
    """Return what a browser token is bound to: the tenant, else the first required argument."""
    required = [each.name for each in endpoint.parameters_of_version if each.required and each.name in arguments]
    name = endpoint.tenant_parameter or next(iter(required), "")
    value = arguments.get(name)
    return {} if value is None or isinstance(value, list) else {name: value}
