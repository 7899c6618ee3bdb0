"""The part of the OpenAPI document about one endpoint: calling it, sandbox queries, removing its cached results.

Generators of clients make names of what is here, so operation ids and names of schemas are made of the endpoint's name.
The answer to a sandbox query has other columns than the stored query, and OpenAPI knows one answer for an address: so
sandbox queries are described at the endpoint's second address, which takes the same requests.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from django.conf import settings

from endpoints.access.secrets import Caller
from endpoints.api.arguments import FORM, JSON
from endpoints.api.openapi_parts import failures, headers, parameter
from endpoints.api.replies import POSITION_HEADER
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
from endpoints.calling.operation_names import SANDBOX, Names, schema_name
from endpoints.models import Endpoint
from endpoints.results.outcomes import ResultFormat
from endpoints.sql.parameters import DeclaredParameter

_CALL_FAILURES: Final = (400, 401, 403, 404, 406, 408, 413, 415, 429, 431, 500, 503, 504)
_PURGE_FAILURES: Final = (401, 403, 404, 429, 500, 503)
_RESULT_HEADERS: Final = (
    "X-Request-ID", "ETag", "Cache-Control", "Age", "X-Cache", "X-Result-Rows", "X-Result-Truncated", "Server-Timing",
)  # fmt: skip
_NOT_MODIFIED_HEADERS: Final = ("X-Request-ID", "ETag", "Cache-Control", "Age", "X-Cache")
_IF_NONE_MATCH: Final = parameter("If-None-Match", "header", "The ETag of a result that the client has.")
_POSITION: Final = parameter(
    POSITION_HEADER,
    "header",
    "The position that a load was answered with: the rows of that load are in this answer.",
    pattern="^[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}$",
)
_SANDBOX_TEXTS: Final[Mapping[str, str]] = {
    "sql": "A sandbox query in SQL, run in place of the stored final query; not both.",
    "lql": "A sandbox query in LQL, run in place of the stored final query; not both.",
}


@dataclass(frozen=True, slots=True)
class DescribedEndpoint:
    """An endpoint as one caller sees it; without a caller, as anybody does who may do everything."""

    endpoint: Endpoint
    names: Names
    caller: Caller | None

    @property
    def parameters(self) -> tuple[DeclaredParameter, ...]:
        return tuple(self.endpoint.parameters_of_version)

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
        schemas = {f"{name}Row": row, f"{name}Rows": _result_of(reference(f"{name}Row"))}
        for each in self.parameters:
            if allowed := _enumeration(each):
                schemas[self._name_of_values(each)] = allowed
        if self.parameters:
            arguments = self._arguments()
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
            parameters=[*self._query_parameters(), _IF_NONE_MATCH],
            responses=_responses(f"{self.names.schema}Rows", may_be_known=True),
        )

    def _post(self) -> Schema:
        operation = self._operation(
            f"post_{self.names.operation}", "endpoints", responses=_responses(f"{self.names.schema}Rows")
        )
        if not self.parameters:
            return operation
        names = {JSON: f"{self.names.schema}Arguments", FORM: f"{self.names.schema}Form"}
        content = {media_type: {"schema": reference(name)} for media_type, name in names.items()}
        is_needed = any(is_required(each, self.bound) for each in self.parameters)
        return operation | {"requestBody": {"required": is_needed, "content": content}}

    def _query_parameters(self) -> list[Schema]:
        return [
            {
                "name": each.name,
                "in": "query",
                "required": is_required(each, self.bound),
                "description": argument_description(each, self.bound),
                "schema": self._by_reference(each, query_schema(each, self.bound)),
            }
            for each in self.parameters
        ]

    def _arguments(self) -> Schema:
        schema = arguments_schema(self.parameters, self.bound)
        declared = {each.name: each for each in self.parameters}
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
        return f"{schema_name(parameter.name)}Of{self.names.schema}"

    # --- Sandbox queries ----------------------------------------------------------------------------------------------
    def _sandbox_get(self) -> Schema:
        texts = [parameter(name, "query", description) for name, description in _SANDBOX_TEXTS.items()]
        return self._operation(
            f"{SANDBOX}_get_{self.names.operation}",
            SANDBOX,
            parameters=[*texts, *self._query_parameters(), _IF_NONE_MATCH],
            responses=_responses("SandboxRows", "X-Result-Notes", may_be_known=True),
        )

    def _sandbox_post(self) -> Schema:
        body = {"required": True, "content": {JSON: {"schema": reference(f"{self.names.schema}Query")}}}
        operation = self._operation(
            f"{SANDBOX}_post_{self.names.operation}",
            SANDBOX,
            responses=_responses("SandboxRows", "X-Result-Notes"),
        )
        return operation | {"requestBody": body}

    def _query_schema(self) -> Schema:
        texts = {name: {"type": "string", "description": text} for name, text in _SANDBOX_TEXTS.items()}
        arguments = self._arguments()
        return arguments | {"properties": texts | arguments["properties"]}

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
            "parameters": [*parameters, _redaction_header(), _POSITION],
            "responses": responses,
        }


def query_components() -> Schema:
    """Return the schemas that the operations of all endpoints share."""
    purged = {
        "type": "object",
        "required": ["endpoint", "removed"],
        "properties": {"endpoint": {"type": "string"}, "removed": {"type": "integer", "minimum": 0}},
    }
    row = {
        "type": "object",
        "description": "The columns of the sandbox query, in its order; each value may be null.",
        "additionalProperties": True,
    }
    return {
        "SandboxRow": row,
        "SandboxRows": _result_of(reference("SandboxRow")),
        "Purged": purged,
        "PurgedResult": _result_of(reference("Purged")),
    }


def _responses(rows: str, *more_headers: str, may_be_known: bool = False) -> Schema:
    success = {
        "description": "The rows.",
        "headers": headers(*_RESULT_HEADERS, *more_headers),
        "content": {each.value: {"schema": _document(each, rows)} for each in ResultFormat},
    }
    responses: Schema = {"200": success}
    if may_be_known:
        description = "The result is the one that If-None-Match names; there is no body."
        responses["304"] = {"description": description, "headers": headers(*_NOT_MODIFIED_HEADERS)}
    return responses | failures(*_CALL_FAILURES)


def _document(result_format: ResultFormat, rows: str) -> Schema:
    return reference(rows) if result_format is ResultFormat.JSON else {"type": "string"}


def _enumeration(parameter: DeclaredParameter) -> Schema:
    """Return the schema of one of the allowed values of a parameter; it is empty if no schema lists them."""
    schema = argument_schema(parameter)
    single = schema.get("items", schema)
    return {name: single[name] for name in ("type", "format", "enum") if name in single} if "enum" in single else {}


def _result_of(item: Schema) -> Schema:
    return {"type": "object", "required": ["result"], "properties": {"result": {"type": "array", "items": item}}}


def _redaction_header() -> Schema:
    return parameter(
        f"{settings.ENDPOINTS_HEADER_PREFIX}-ENDPOINT-REDACT-PII",
        "header",
        "true redacts IP and e-mail addresses in this answer.",
        type="boolean",
    )
