"""The OpenAPI 3 document: one operation per endpoint, with its parameters, their types and its result columns.

Loading is in `openapi_loads`.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from drf_spectacular.renderers import OpenApiJsonRenderer
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerView
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from endpoints.access.secrets import Caller
from endpoints.api.authentication import ADDRESS_PARAMETER, AccessTokenAuthentication
from endpoints.api.openapi_loads import load_paths
from endpoints.api.replies import POSITION_HEADER
from endpoints.calling.calls import visible_endpoints
from endpoints.errors import LimitReached
from endpoints.models import Endpoint
from endpoints.results.outcomes import ResultFormat, TimestampForm
from endpoints.sql.parameters import DeclaredParameter, ParameterType

Schema = dict[str, Any]

_PARAMETER_SCHEMAS: dict[ParameterType, Schema] = {
    ParameterType.TEXT: {"type": "string"},
    ParameterType.INTEGER: {"type": "integer", "format": "int64"},
    ParameterType.NUMBER: {"type": "number"},
    ParameterType.BOOLEAN: {"type": "boolean"},
    ParameterType.TIMESTAMP: {
        "type": "string",
        "format": "date-time",
        "description": "ISO 8601, or a Unix time of 10, 13, 16 or 19 digits.",
    },
    ParameterType.DATE: {"type": "string", "format": "date"},
    ParameterType.UUID: {"type": "string", "format": "uuid"},
    ParameterType.TEXT_LIST: {"type": "array", "items": {"type": "string"}},
}
_COLUMN_SCHEMAS: dict[str, Schema] = {
    "smallint": {"type": "integer"},
    "integer": {"type": "integer", "format": "int32"},
    "bigint": {"type": "integer", "format": "int64"},
    "oid": {"type": "integer", "format": "int64"},
    "numeric": {"type": "number"},
    "real": {"type": "number"},
    "double precision": {"type": "number"},
    "boolean": {"type": "boolean"},
    "jsonb": {},
    "json": {},
    "timestamp with time zone": {"type": "string", "format": "date-time"},
    "date": {"type": "string", "format": "date"},
    "uuid": {"type": "string", "format": "uuid"},
    "bytea": {"type": "string", "format": "byte"},
}
# Statuses that every endpoint can answer with; the error table of the README says when.
_FAILURES = (400, 401, 403, 404, 406, 413, 415, 429, 500, 503, 504)


_NOTES = "Fields of a sandbox query in BigQuery's dialect that no sampled row has, if the result shows a sign of it."


class SchemaView(SpectacularAPIView):
    """The document, of the endpoints the caller may call: with an access token, or all of them to the admin's staff.

    Public only where ENDPOINTS_PUBLIC_SCHEMA is on.
    """

    renderer_classes = [OpenApiJsonRenderer]
    permission_classes = ()

    def get_authenticators(self) -> list[BaseAuthentication]:
        # The page for the admin's staff reads it with their session; a GET that changes nothing needs no CSRF check.
        user = getattr(self.request, "user", None)  # none when drf-spectacular looks at this view itself
        is_open = settings.ENDPOINTS_PUBLIC_SCHEMA or (user is not None and user.is_staff)
        return [] if is_open else [AccessTokenAuthentication()]


class SwaggerView(SpectacularSwaggerView):
    """A page to read and try the document, from this service's own static files."""

    permission_classes = ()
    authentication_classes = ()


def describe_endpoints(result: Schema, generator: object, request: Request | None, public: bool) -> Schema:
    """Put one operation per endpoint into the document, and those of loading for callers that may load.

    It is drf-spectacular's postprocessing hook.
    """
    caller = request.user if request is not None and isinstance(request.user, Caller) else None
    result["paths"] = {
        f"/api/endpoints/query/{endpoint.name}": _path_item(endpoint) for endpoint in visible_endpoints(caller)
    }
    if caller is None or caller.may_load:
        result["paths"] |= load_paths()
    result["components"] = {
        "schemas": {"Error": _ERROR_SCHEMA},
        "securitySchemes": {
            "accessToken": {"type": "apiKey", "in": "header", "name": "X-API-KEY"},
            "bearer": {"type": "http", "scheme": "bearer"},
        },
    }
    result["security"] = [{"accessToken": []}, {"bearer": []}]
    if settings.ENDPOINTS_API_KEY_IN_ADDRESS:
        result["components"]["securitySchemes"]["address"] = {
            "type": "apiKey",
            "in": "query",
            "name": ADDRESS_PARAMETER,
        }
        result["security"].append({"address": []})
    return result


def _path_item(endpoint: Endpoint) -> Schema:
    parameters = endpoint.parameters_of_version
    sandbox = [_sandbox_parameter(name) for name in ("sql", "lql")] if endpoint.sandboxing else []
    get = _operation(endpoint, "get") | {
        "parameters": [*map(_query_parameter, parameters), *sandbox, _REDACTION_HEADER, _POSITION_HEADER]
    }
    fields = {parameter.name: value_schema(parameter) for parameter in parameters}
    fields |= {parameter["name"]: parameter["schema"] for parameter in sandbox}
    body: Schema = {"type": "object", "properties": fields}
    # `required` is left to the query string's absence: a name may be sent in either place.
    content = {media_type: {"schema": body} for media_type in ("application/json", "application/x-www-form-urlencoded")}
    post = _operation(endpoint, "post") | {
        "parameters": [_REDACTION_HEADER, _POSITION_HEADER],
        "requestBody": {"required": False, "content": content},
    }
    return {"get": get, "post": post}


def _operation(endpoint: Endpoint, method: str) -> Schema:
    failures: Schema = {
        str(status): {
            "description": "The one error body.",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
        }
        for status in _FAILURES
    }
    failures["429"] |= _TOO_MANY
    return {
        "operationId": f"{method}_{endpoint.name}",
        "summary": endpoint.name,
        "description": endpoint.description,
        "tags": ["endpoints"],
        "responses": {"200": _success(endpoint), **failures},
    }


def _success(endpoint: Endpoint) -> Schema:
    row = {
        "type": "object",
        "properties": {
            column["name"]: column_schema(column["type"], endpoint.timestamps_as) for column in endpoint.result_columns
        },
    }
    if endpoint.sandboxing:
        row = {"type": "object", "description": "The columns of the stored or of the sandbox query.", **row}
    document = {"type": "object", "required": ["result"], "properties": {"result": {"type": "array", "items": row}}}
    return {
        "description": "The rows.",
        "headers": {
            "X-Result-Rows": {"schema": {"type": "integer"}},
            "X-Result-Truncated": {"schema": {"type": "string", "enum": ["true"]}},
            "X-Result-Notes": {"description": _NOTES, "schema": {"type": "string"}},
            "X-Cache": {"schema": {"type": "string", "enum": ["hit", "stale", "miss", "bypass"]}},
        },
        "content": {
            ResultFormat.JSON.value: {"schema": document},
            ResultFormat.CSV.value: {"schema": {"type": "string"}},
            ResultFormat.NDJSON.value: {"schema": {"type": "string"}},
        },
    }


def _query_parameter(parameter: DeclaredParameter) -> Schema:
    return {
        "name": parameter.name,
        "in": "query",
        "required": parameter.required and parameter.default is None,
        "description": parameter.description,
        "schema": value_schema(parameter),
    }


def value_schema(parameter: DeclaredParameter) -> Schema:
    """Return the schema of a parameter's values."""
    schema = dict(_PARAMETER_SCHEMAS[parameter.type])
    if parameter.allowed_values:
        schema["enum"] = list(parameter.allowed_values)
    if parameter.pattern and parameter.type is ParameterType.TEXT:
        schema["pattern"] = f"^(?:{parameter.pattern})$"
    if parameter.type in (ParameterType.INTEGER, ParameterType.NUMBER):
        for name, bound in (("minimum", parameter.minimum), ("maximum", parameter.maximum)):
            if bound is not None:
                schema[name] = int(bound) if parameter.type is ParameterType.INTEGER else float(bound)
    if parameter.default is not None:
        schema["default"] = parameter.default
    return schema


def column_schema(type_name: str, timestamps_as: str) -> Schema:
    """Return the schema of a result column, by its PostgreSQL type as format_type() writes it."""
    is_moment = type_name.startswith("timestamp") and type_name.endswith("with time zone")
    if is_moment and timestamps_as == TimestampForm.UNIX_MICROSECONDS:
        return {**_UNIX_MICROSECONDS, "nullable": True}
    base, is_array, _ = type_name.partition("[]")
    schema = dict(_COLUMN_SCHEMAS.get(base.partition("(")[0], {"type": "string"}))
    if is_array:
        return {"type": "array", "items": schema, "nullable": True}
    # A schema without a type already allows null.
    return schema | {"nullable": True} if schema else schema


def _sandbox_parameter(name: str) -> Schema:
    return {
        "name": name,
        "in": "query",
        "required": False,
        "description": f"A sandbox query in {name.upper()}, run instead of the stored final query; not both.",
        "schema": {"type": "string"},
    }


_TOO_MANY: Schema = {
    "description": "The one error body. A limit of the access token is reached: `details` has its name, its value and "
    f"when to try again. Codes: {', '.join(sorted(kind.code for kind in LimitReached.__subclasses__()))}.",
    "headers": {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer", "minimum": 1}}},
}
_UNIX_MICROSECONDS: Schema = {"type": "integer", "format": "int64", "description": "Microseconds since 1970, UTC."}
_REDACTION_HEADER: Schema = {
    "name": f"{settings.ENDPOINTS_HEADER_PREFIX}-ENDPOINT-REDACT-PII",
    "in": "header",
    "required": False,
    "description": "true redacts IP and e-mail addresses in this answer.",
    "schema": {"type": "string", "enum": ["true", "false"]},
}
_POSITION_HEADER: Schema = {
    "name": POSITION_HEADER,
    "in": "header",
    "required": False,
    "description": "The position that a load was answered with: the rows of that load are in this answer.",
    "schema": {"type": "string", "pattern": "^[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}$"},
}
_ERROR_SCHEMA: Schema = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "details", "request_id"],
            "properties": {
                "code": {"type": "string"},
                "message": {"type": "string"},
                "details": {"type": "array", "items": {"type": "object"}},
                "request_id": {"type": "string"},
            },
        }
    },
}
