"""An EndpointError as text, so that everyone who waited for the same run gets an equal error, in any process."""

from __future__ import annotations

import json

from endpoints.errors import EndpointError, InternalError


def to_json(error: EndpointError) -> bytes:
    """Return the error without its cause; that is in the log of the process that ran."""
    fields = {
        "class": type(error).__name__,
        "message": error.message,
        "details": [dict(detail) for detail in error.details],
        "headers": error.headers,
    }
    # Details are for the body of an answer; what JSON has no form for would have been written as text there too.
    return json.dumps(fields, default=str).encode("ascii")


def from_json(text: bytes) -> EndpointError:
    """Return an equal error; an InternalError for a class this process does not know. Raises ValueError."""
    fields = json.loads(text)
    error_class = _classes().get(fields["class"], InternalError)
    # Not through __init__: classes take what they need to word their message, which is already worded.
    error = error_class.__new__(error_class)
    EndpointError.__init__(error, fields["message"], details=fields["details"], headers=fields["headers"])
    return error


def _classes(base: type[EndpointError] = EndpointError) -> dict[str, type[EndpointError]]:
    found: dict[str, type[EndpointError]] = {}
    for error_class in base.__subclasses__():
        found |= {error_class.__name__: error_class, **_classes(error_class)}
    return found
