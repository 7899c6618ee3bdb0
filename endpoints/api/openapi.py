"""The OpenAPI 3.1 document: one operation per endpoint and method, with its parameters, rows and errors.

Each kind of operation has a module that makes its paths and schemas: `openapi_queries` those of one endpoint,
`openapi_calls` what is the same for all calls, `openapi_loads` loading, `openapi_tokens` browser tokens;
`openapi_parts` has what they share, and `schemas` the JSON Schema of arguments and rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.conf import settings
from drf_spectacular.renderers import OpenApiJsonRenderer
from drf_spectacular.views import SpectacularAPIView
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from endpoints.access.secrets import Caller
from endpoints.api.authentication import ADDRESS_PARAMETER, AccessTokenAuthentication
from endpoints.api.openapi_calls import call_components, cancel_paths
from endpoints.api.openapi_loads import load_components, load_paths
from endpoints.api.openapi_parts import shared_components
from endpoints.api.openapi_queries import DescribedEndpoint
from endpoints.api.openapi_tokens import token_components, token_paths
from endpoints.api.schemas import SCHEMAS, Schema
from endpoints.calling.calls import visible_endpoints
from endpoints.calling.operation_names import name_endpoints

_DESCRIPTION: Final = """\
Stored, parameterised SQL over log tables. Every operation needs an access token; this document has the operations of
the access token that read it, and its arguments: what the access token is bound to need not be sent.

Rows come as `{"result": [{column: value, …}, …]}`, or in another format of the operation if `Accept` prefers it.
Every failure has the same body, with a code that is stable. For 429 and 503, send the request again after
`Retry-After`."""
_FOR_AGENTS: Final = """

Agents call the same endpoints as tools of the Model Context Protocol: POST [/mcp](/mcp), with the same access token."""
_TAGS: Final = (
    {"name": "endpoints", "description": "Stored queries."},
    {"name": "sandbox", "description": "Queries of one's own, in SQL or LQL, over the tables of a stored query."},
    {"name": "calls", "description": "Calls that run."},
    {"name": "cache", "description": "Cached results."},
    {"name": "loading", "description": "Log rows into log sources."},
    {"name": "tokens", "description": "Short-lived tokens for pages of browsers."},
)


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


def describe_endpoints(result: Schema, generator: object, request: Request | None, public: bool) -> Schema:
    """Put the operations that the caller may use into the document: drf-spectacular's postprocessing hook."""
    caller = request.user if request is not None and isinstance(request.user, Caller) else None
    endpoints = visible_endpoints(caller)
    names = name_endpoints(endpoints)
    described = [DescribedEndpoint(each, names[each.name], caller) for each in endpoints]
    paths: Schema = {}
    components = shared_components()
    schemas = components.pop("schemas") | call_components() | load_components() | token_components()
    for each in described:
        paths |= each.paths()
        schemas |= each.schemas()
    # Without an endpoint there is no call to cancel, and nothing to issue a token for.
    if endpoints and not (caller is not None and caller.is_browser):
        paths |= cancel_paths()
    if endpoints and (caller is None or caller.may_issue):
        paths |= token_paths()
    if caller is None or caller.may_load:
        paths |= load_paths()
    schemes = _security_schemes()
    used = {operation["tags"][0] for path in paths.values() for operation in path.values()}
    return result | {
        "info": {**result["info"], "description": _DESCRIPTION + (_FOR_AGENTS if endpoints else "")},
        # RFC 3986: relative to the document's own address, so also right behind a proxy.
        "servers": [{"url": "/", "description": "The service that this document comes from."}],
        "tags": [tag for tag in _TAGS if tag["name"] in used],
        "paths": paths,
        "components": {**components, "schemas": _used(schemas, [paths, components]), "securitySchemes": schemes},
        "security": [{name: []} for name in schemes],
    }


def _used(schemas: Schema, described: Sequence[Any]) -> Schema:
    """Return the schemas to which something refers, in their order."""
    names: set[str] = set()
    todo = list(described)
    while todo:
        node = todo.pop()
        if isinstance(node, Mapping):
            target = str(node.get("$ref", ""))
            name = target.removeprefix(SCHEMAS) if target.startswith(SCHEMAS) else ""
            if name and name not in names:
                names.add(name)
                todo.append(schemas[name])
            todo += node.values()
        elif isinstance(node, list | tuple):
            todo += node
    return {name: schema for name, schema in schemas.items() if name in names}


def _security_schemes() -> Schema:
    schemes: Schema = {
        "accessToken": {"type": "apiKey", "in": "header", "name": "X-API-KEY"},
        "bearer": {"type": "http", "scheme": "bearer"},
    }
    if settings.ENDPOINTS_API_KEY_IN_ADDRESS:
        schemes["address"] = {"type": "apiKey", "in": "query", "name": ADDRESS_PARAMETER}
    return schemes
