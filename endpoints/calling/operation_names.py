"""The names of the OpenAPI document that are made of endpoints' names, of which generators of clients make names.

The pages that lead to an operation of the document, or show what a generated client calls, use the same names.

errors.by-path  ->  errors_by_path in operation ids, ErrorsByPath in schemas
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from endpoints.models import Endpoint

SANDBOX: Final = "sandbox"
# Of names that belong to no endpoint: sandbox_get_…, SandboxRows, and what generators call the arguments in a
# BrowserTokenRequest.
_TAKEN: Final = (SANDBOX, "browser.token.request")


@dataclass(frozen=True, slots=True)
class Names:
    """What an endpoint is called in operation ids (`errors_by_path`) and in names of schemas (`ErrorsByPath`)."""

    operation: str
    schema: str


def name_endpoints(endpoints: Iterable[Endpoint]) -> dict[str, Names]:
    """Return the names of each endpoint by its own; no two are the same to a generator that drops dots and case.

    Endpoints whose names would be the same, such as `a.b` and `a_b`, all get the first digits of their ids.
    """
    known = list(endpoints)
    alike = Counter(_letters(name) for name in (*_TAKEN, *(each.name for each in known)))
    return {each.name: _names(each, is_alone=alike[_letters(each.name)] == 1) for each in known}


def _names(endpoint: Endpoint, *, is_alone: bool) -> Names:
    words = _words(endpoint.name)
    if not is_alone:
        words.append(endpoint.pk.hex[:8])
    return Names("_".join(words).lower(), _joined(words))


def name_in_schemas(name: str) -> str:
    """Return the name as a part of names of schemas: `min_status` becomes MinStatus."""
    return _joined(_words(name))


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[^A-Za-z0-9]+", name) if word]


def _joined(words: Iterable[str]) -> str:
    return "".join(word[0].upper() + word[1:] for word in words)


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
