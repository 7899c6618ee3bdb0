"""Parts of the OpenAPI document that operations share by reference: headers, failures."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from endpoints.api.schemas import Schema, error_codes, error_components, reference

_FAILURES: Final[Mapping[int, str]] = {
    400: "The request cannot be read, or something in it is not valid; `details` lists each problem.",
    401: "No valid access token is sent.",
    403: "The access token may not do this.",
    404: "There is nothing of this name, or nothing that the access token may use.",
    405: "The address takes other methods.",
    406: "`Accept` allows no format that the service writes; `details` lists those it does.",
    408: "The body arrived too slowly.",
    409: "The call was cancelled with the access token that made it.",
    413: "The request is larger than the service accepts.",
    415: "The body has a content type or encoding that the service does not read.",
    429: "A limit of the access token is reached: `details` has its name, its figures and when to try again.",
    431: "A header is too large.",
    500: "The service, or the stored query, failed; the request id leads its operator to the cause.",
    503: "A database is away, or the service is busy: send the request again after `Retry-After`.",
    504: "The query reached its statement timeout and was cancelled: ask for a smaller time window.",
}
_OF_FAILURES: Final[Mapping[int, tuple[str, ...]]] = {
    401: ("WWW-Authenticate",),
    405: ("Allow",),
    429: ("Retry-After", "RateLimit", "RateLimit-Policy"),
    503: ("Retry-After",),
}
_NOTES: Final = (
    "Of lql and of BigQuery's dialect: fields that no sampled row has, and what probably means something else."
)
_HEADERS: Final[Mapping[str, Schema]] = {
    "Age": {"description": "Seconds since the result was computed.", "schema": {"type": "integer", "minimum": 0}},
    "Allow": {"description": "The methods of this address.", "schema": {"type": "string"}},
    "Cache-Control": {"description": "How long a client may keep the answer.", "schema": {"type": "string"}},
    "Content-Disposition": {
        "description": "The name of the file, if `format` is sent.",
        "schema": {"type": "string"},
    },
    "ETag": {"description": "Names this result; send it as If-None-Match.", "schema": {"type": "string"}},
    "Link": {
        "description": 'The address of the next page, `rel="next"`; the last page has none (RFC 8288).',
        "schema": {"type": "string"},
    },
    "RateLimit": {
        "description": "The limit that is reached, what is left (`r`), seconds until there is more (`t`): "
        '`"calls_a_minute";r=0;t=12`.',
        "schema": {"type": "string"},
    },
    "RateLimit-Policy": {
        "description": 'Its quota (`q`) and window in seconds (`w`): `"calls_a_minute";q=600;w=60`.',
        "schema": {"type": "string"},
    },
    "Retry-After": {"description": "Seconds.", "schema": {"type": "integer", "minimum": 1}},
    "Server-Timing": {"description": "Milliseconds: db, encode, total.", "schema": {"type": "string"}},
    "WWW-Authenticate": {"description": "How to send an access token.", "schema": {"type": "string"}},
    "X-Cache": {
        "description": "What the cache did for this call.",
        "schema": {"type": "string", "enum": ["hit", "stale", "miss", "bypass"]},
    },
    "X-Ignored-Arguments": {
        "description": "Names that were sent and that the endpoint does not have, percent-encoded, separated by `, `.",
        "schema": {"type": "string"},
    },
    "X-Request-ID": {"description": "Also in the log of the service.", "schema": {"type": "string"}},
    "X-Result-Notes": {"description": _NOTES, "schema": {"type": "string"}},
    "X-Result-Rows": {"description": "The number of rows.", "schema": {"type": "integer", "minimum": 0}},
    "X-Result-Truncated": {
        "description": "true: there were more rows than the endpoint returns. limit: the stored query stopped at its "
        "own LIMIT, so there may be more.",
        "schema": {"type": "string", "enum": ["true", "limit"]},
    },
}


def shared_components() -> Schema:
    """Return the components to which operations of every kind refer."""
    codes = error_codes()
    failures = {_name(status): _failure(status, text, codes.get(status, ())) for status, text in _FAILURES.items()}
    return {"schemas": error_components(), "responses": failures, "headers": dict(_HEADERS)}


def headers(*names: str) -> Schema:
    """Return the headers of a response by reference."""
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def failures(*statuses: int) -> Schema:
    """Return the responses of these statuses, each with the one error body, by reference."""
    return {str(status): {"$ref": f"#/components/responses/{_name(status)}"} for status in statuses}


def result_of(item: Schema, **beside: Schema) -> Schema:
    """Return the schema of a JSON answer: a list of these, with other fields that may be beside it."""
    properties = {"result": {"type": "array", "items": item}, **beside}
    return {"type": "object", "required": ["result"], "properties": properties}


def failure_text(status: int) -> str:
    """Return what a failure of this status means."""
    return _FAILURES[status]


def failure_headers(status: int) -> Schema:
    """Return the headers of a failure of this status, by reference."""
    return headers("X-Request-ID", *_OF_FAILURES.get(status, ()))


def parameter(name: str, place: str, description: str, **schema: object) -> Schema:
    """Return an optional parameter in the query string or in a header, a text unless the schema says otherwise."""
    return {
        "name": name,
        "in": place,
        "required": False,
        "description": description,
        "schema": {"type": "string", **schema},
    }


def _failure(status: int, text: str, codes: Collection[str]) -> Schema:
    listed = f" Codes: {', '.join(f'`{code}`' for code in codes)}." if codes else ""
    return {
        "description": text + listed,
        "headers": failure_headers(status),
        "content": {"application/json": {"schema": reference("Error")}},
    }


def _name(status: int) -> str:
    return f"Failure{status}"
