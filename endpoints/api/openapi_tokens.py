"""The part of the OpenAPI document about browser tokens: POST /api/tokens."""

from __future__ import annotations

from typing import Final

from endpoints.access.browser_tokens import LONGEST_SECONDS
from endpoints.api.openapi_parts import failures, headers, result_of
from endpoints.api.schemas import Schema, reference
from endpoints.api.tokens import MEDIA_TYPE
from endpoints.calling.issuing import DEFAULT_SECONDS, MOST_ENDPOINTS

_FAILURES: Final = (400, 401, 403, 404, 408, 413, 415, 429, 431, 500, 503)
_TEXT: Final[Schema] = {"type": "string"}


def token_paths() -> Schema:
    """Return the path item of browser tokens."""
    issued = {
        "description": "The browser token, which is stored nowhere.",
        "headers": headers("X-Request-ID"),
        "content": {MEDIA_TYPE: {"schema": reference("BrowserTokenResult")}},
    }
    return {
        "/api/tokens": {
            "post": {
                "operationId": "issue_browser_token",
                "summary": "Issue a browser token",
                "description": "Issues a token for a page of a browser: for some endpoints, bound to arguments, and "
                "never for more than the access token may call itself.",
                "tags": ["tokens"],
                "requestBody": {
                    "required": True,
                    "content": {MEDIA_TYPE: {"schema": reference("BrowserTokenRequest")}},
                },
                "responses": {"200": issued, **failures(*_FAILURES)},
            }
        }
    }


def token_components() -> Schema:
    """Return the schemas to which the operation refers."""
    endpoints = {
        "type": "array",
        "items": _TEXT,
        "minItems": 1,
        "maxItems": MOST_ENDPOINTS,
        "description": "Names or UUIDs of the endpoints that it may call.",
    }
    arguments = {
        "type": "object",
        "additionalProperties": _TEXT,
        "description": "The arguments that it is bound to, besides those of the access token.",
    }
    expires_in = {
        "type": "integer",
        "minimum": 1,
        "maximum": LONGEST_SECONDS,
        "default": DEFAULT_SECONDS,
        "description": "Seconds.",
    }
    return {
        "BrowserTokenRequest": {
            "type": "object",
            "required": ["endpoints"],
            "properties": {
                "endpoints": endpoints,
                "arguments": arguments,
                "expires_in": expires_in,
            },
            "additionalProperties": False,
        },
        "BrowserToken": {
            "type": "object",
            "required": ["token", "expires_at"],
            "properties": {"token": _TEXT, "expires_at": {"type": "string", "format": "date-time"}},
        },
        "BrowserTokenResult": result_of(reference("BrowserToken")),
    }
