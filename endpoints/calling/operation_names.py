"""What endpoints are called in the OpenAPI document, of which generators of clients make the names of functions and
types. The pages that lead to an operation of the document use the same names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from endpoints.models import Endpoint

SANDBOX: Final = "sandbox"  # the first part of names that belong to no endpoint


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
    alike = Counter([SANDBOX, *(_letters(each.name) for each in known)])
    return {each.name: _names(each, is_alone=alike[_letters(each.name)] == 1) for each in known}


def schema_name(*names: str) -> str:
    """Return names as the name of a schema: `errors.by-path` is ErrorsByPath."""
    words = [word for name in names for word in _words(name)]
    return "".join(word[0].upper() + word[1:] for word in words)


def _names(endpoint: Endpoint, *, is_alone: bool) -> Names:
    # "errors.by-path"  ->  errors_by_path, ErrorsByPath
    parts = [endpoint.name] if is_alone else [endpoint.name, endpoint.pk.hex[:8]]
    words = [word for part in parts for word in _words(part)]
    return Names("_".join(words).lower(), schema_name(*parts))


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[^A-Za-z0-9]+", name) if word]


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
