"""Results and what was asked for, to be cached."""

from __future__ import annotations

from typing import Any

from endpoints.cache import QueryRequest
from endpoints.results.outcomes import Outcome, ResultFormat


def request(**changes: Any) -> QueryRequest:
    fields = {
        "arguments": {"project": "abc", "interval": None},
        "sandbox_language": "",
        "sandbox_text": "",
        "redact": False,
        "format": ResultFormat.JSON,
    }
    return QueryRequest(**{**fields, **changes})


def outcome(body: bytes = b'{"result":[]}', **changes: Any) -> Outcome:
    fields = {
        "body": body,
        "format": ResultFormat.JSON,
        "row_count": 3,
        "truncated": True,
        "database_seconds": 1.25,
        "encoding_seconds": 0.5,
    }
    return Outcome(**{**fields, **changes})
