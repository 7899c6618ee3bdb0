"""The part of the OpenAPI document about one endpoint: calling it, sandbox queries, removing its cached results.

The answer to a sandbox query has other columns than the stored query, and OpenAPI knows one answer for an address: so
sandbox queries are described at the endpoint's second address, which takes the same requests.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from endpoints.access.secrets import Caller
from endpoints.api.arguments import FORM, JSON
from endpoints.api.negotiation import FORMAT
from endpoints.api.openapi_calls import answers, call_headers, format_parameter, not_modified
from endpoints.api.openapi_parts import failures, headers, parameter, result_of
from endpoints.api.schemas import (
    Schema,
    argument_description,
    argument_schema,
    arguments_schema,
    is_required,
    query_schema,
    reference,
    row_schema,
)
from endpoints.calling.operation_names import SANDBOX, Names, name_in_schemas
from endpoints.calling.pages import PAGE_TOKEN, page_parameters
from endpoints.definition import PublishedTable
from endpoints.lql.lowering import have_places
from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter

_PURGE_FAILURES: Final = (401, 403, 404, 429, 500, 503)
_IF_NONE_MATCH: Final = parameter("If-None-Match", "header", "The ETag of a result that the client has.")
_NEXT: Final[Schema] = {
    "type": ["string", "null"],
    "description": "Only of a page: the page token of the next one, null if it is the last.",
}
_SANDBOX_ARGUMENTS: Final[Mapping[str, Schema]] = {
    "sql": {
        "type": "string",
        "description": "A sandbox query in SQL, run in place of the stored final query; not both.",
    },
    "lql": {
        "type": "string",
        "description": "A sandbox query in LQL, run in place of the stored final query; not both.",
    },
}
_TAIL_ARGUMENTS: Final = frozenset({"tail", PAGE_TOKEN})


@dataclass(frozen=True, slots=True)
class DescribedEndpoint:
    """An endpoint as one caller sees it; without a caller, as anybody does who may do everything."""

    endpoint: Endpoint
    names: Names
    caller: Caller | None

    @property
    def declared(self) -> tuple[DeclaredParameter, ...]:
        return tuple(self.endpoint.parameters_of_version)

    @property
    def parameters(self) -> tuple[DeclaredParameter, ...]:
        """What the stored query takes: its parameters, and those that ask for a page."""
        return (*self.declared, *(page_parameters(self.endpoint.max_rows) if self.endpoint.page_order else ()))

    @property
    def bound(self) -> Collection[str]:
        return self.caller.bound_arguments.keys() if self.caller is not None else ()

    def paths(self) -> Schema:
        """Return the path items of its addresses."""
        name = self.endpoint.name
        paths = {f"/api/endpoints/query/{name}": {"get": self._get(), "post": self._post()}}
        if self.endpoint.sandboxing:
            sandbox = {"get": self._sandbox_get(), "post": self._sandbox_post()}
            paths[f"/api/endpoints/query/name/{name}"] = sandbox
        if self.caller is None or self.caller.may_purge:
            paths[f"/api/endpoints/cache/{name}"] = {"delete": self._purge()}
        return paths

    def schemas(self) -> Schema:
        """Return the schemas to which its operations refer."""
        endpoint, name = self.endpoint, self.names.schema
        row = row_schema(endpoint.result_columns, endpoint.timestamps_as)
        beside = {"next": _NEXT} if endpoint.page_order else {}
        schemas = {f"{name}Row": row, f"{name}Rows": result_of(reference(f"{name}Row"), **beside)}
        for each in self.declared:
            if allowed := _enumeration(each):
                schemas[self._name_of_values(each)] = allowed
        if self.parameters:
            arguments = self._arguments(self.parameters)
            # Two names of one schema: in a client each is the body of one content type.
            schemas |= {f"{name}Arguments": arguments, f"{name}Form": arguments}
        if endpoint.sandboxing:
            schemas[f"{name}Query"] = self._query_schema()
        return schemas

    # --- The stored query ---------------------------------------------------------------------------------------------
    def _get(self) -> Schema:
        return self._operation(
            f"get_{self.names.operation}",
            "endpoints",
            parameters=[*self._in_query(self.parameters), *self._format(), _IF_NONE_MATCH],
            responses=self._answers() | not_modified(*self._page_headers),
        )

    def _post(self) -> Schema:
        operation = self._operation(f"post_{self.names.operation}", "endpoints", responses=self._answers())
        if not self.parameters:
            return operation
        names = {JSON: f"{self.names.schema}Arguments", FORM: f"{self.names.schema}Form"}
        content = {media_type: {"schema": reference(name)} for media_type, name in names.items()}
        is_needed = any(is_required(each, self.bound) for each in self.parameters)
        return operation | {"requestBody": {"required": is_needed, "content": content}}

    @property
    def _page_headers(self) -> tuple[str, ...]:
        return ("Link",) if self.endpoint.page_order else ()

    def _answers(self) -> Schema:
        rows = f"{self.names.schema}Rows"
        return answers(rows, *self._page_headers, stream_rows=self.endpoint.stream_rows)

    def _format(self) -> list[Schema]:
        return [] if any(each.name == FORMAT for each in self.declared) else [format_parameter()]

    def _in_query(self, parameters: Iterable[DeclaredParameter]) -> list[Schema]:
        return [
            {
                "name": each.name,
                "in": "query",
                "required": is_required(each, self.bound),
                "description": argument_description(each, self.bound),
                "schema": self._by_reference(each, query_schema(each, self.bound)),
            }
            for each in parameters
        ]

    def _arguments(self, parameters: Collection[DeclaredParameter]) -> Schema:
        schema = arguments_schema(parameters, self.bound)
        declared = {each.name: each for each in parameters}
        fields = schema["properties"].items()
        return schema | {"properties": {name: self._by_reference(declared[name], field) for name, field in fields}}

    def _by_reference(self, parameter: DeclaredParameter, schema: Schema) -> Schema:
        """Return the schema with its allowed values by reference: GET and POST then have one type for them."""
        if not _enumeration(parameter):
            return schema
        values = reference(self._name_of_values(parameter))
        if "items" in schema:
            return schema | {"items": values}
        beside: Schema = {name: schema[name] for name in ("default", "description") if name in schema}
        return {"allOf": [values], **beside} if beside else values

    def _name_of_values(self, parameter: DeclaredParameter) -> str:
        return f"{name_in_schemas(parameter.name)}Of{self.names.schema}"

    # --- Sandbox queries ----------------------------------------------------------------------------------------------
    def _sandbox_get(self) -> Schema:
        own = [parameter(name, "query", **schema) for name, schema in self._sandbox_arguments().items()]
        return self._operation(
            f"{SANDBOX}_get_{self.names.operation}",
            SANDBOX,
            parameters=[*own, *self._in_query(self.declared), *self._format(), _IF_NONE_MATCH],
            responses=self._sandbox_answers() | not_modified(),
        )

    def _sandbox_post(self) -> Schema:
        body = {"required": True, "content": {JSON: {"schema": reference(f"{self.names.schema}Query")}}}
        operation = self._operation(
            f"{SANDBOX}_post_{self.names.operation}", SANDBOX, responses=self._sandbox_answers()
        )
        return operation | {"requestBody": body}

    def _sandbox_answers(self) -> Schema:
        return answers("SandboxRows", "X-Result-Notes", stream_rows=self.endpoint.stream_rows)

    def _query_schema(self) -> Schema:
        arguments = self._arguments(self.declared)
        return arguments | {"properties": self._sandbox_arguments() | arguments["properties"]}

    def _sandbox_arguments(self) -> Schema:
        return {**_SANDBOX_ARGUMENTS, **(_tail_arguments() if self._has_tails() else {})}

    def _has_tails(self) -> bool:
        if not _TAIL_ARGUMENTS.isdisjoint(each.name for each in self.declared):
            return False  # they are the endpoint's own
        tables = map(PublishedTable.from_json, self.endpoint.sandbox_tables)
        return any(have_places(table.columns) for table in tables)

    # --- Cached results -----------------------------------------------------------------------------------------------
    def _purge(self) -> Schema:
        removed = {
            "description": "How many cached results were removed.",
            "headers": headers("X-Request-ID"),
            "content": {JSON: {"schema": reference("PurgedResult")}},
        }
        return {
            "operationId": f"purge_{self.names.operation}",
            "summary": f"Remove the cached results of {self.endpoint.name}",
            "tags": ["cache"],
            "responses": {"200": removed, **failures(*_PURGE_FAILURES)},
        }

    def _operation(
        self, operation_id: str, tag: str, *, responses: Schema, parameters: Collection[Schema] = ()
    ) -> Schema:
        is_sandbox = tag == SANDBOX
        return {
            "operationId": operation_id,
            "summary": f"{self.endpoint.name}: sandbox query" if is_sandbox else self.endpoint.name,
            "description": self.endpoint.description,
            "tags": [tag],
            "parameters": [*parameters, *call_headers()],
            "responses": dict(sorted(responses.items())),
        }


def _tail_arguments() -> Schema:
    tail = (
        "Asks for a page of a live tail of the `lql` query, in JSON: first the newest rows, then with `page_token` "
        "those that have come since. A page without new rows has `Retry-After`."
    )
    token = "Only of a tail: the `next` of the page before. Send it in a body."  # noqa: S105
    return {"tail": {"type": "boolean", "description": tail}, PAGE_TOKEN: {"type": "string", "description": token}}


def _enumeration(parameter: DeclaredParameter) -> Schema:
    """Return the schema of one of the allowed values of a parameter; it is empty if no schema lists them."""
    schema = argument_schema(parameter)
    single = schema.get("items", schema)
    return {name: single[name] for name in ("type", "format", "enum") if name in single} if "enum" in single else {}
