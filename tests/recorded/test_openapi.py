"""The OpenAPI document as an access token with every right reads it, and the operations that others read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest
from django.core.wsgi import get_wsgi_application

from tests.recorded.asking import answers_to
from tests.recorded.recordings import assert_recorded
from tests.recorded.requests import Request

pytestmark = pytest.mark.django_db
OTHERS: Final = ("logs.all", "bound", "purger", "shipper", "issuer")


def facts(node: Any, place: str = "") -> Iterator[str]:
    """Yield place and value of each leaf; things of a list that have a name are found by it."""
    if isinstance(node, Mapping) and node:
        for name, value in sorted(node.items()):
            yield from facts(value, f"{place} {name}")
    elif isinstance(node, list) and node and all(isinstance(each, Mapping) for each in node):
        for number, each in enumerate(node):
            name = each.get("name") or str(each.get("$ref", number)).rpartition("/")[2]
            yield from facts(each, f"{place} [{name}]")
    else:
        yield f"{place.strip()}: {json.dumps(node, ensure_ascii=False)}"


def document(caller: str, secrets: Mapping[str, str]) -> Any:
    asked = Request("openapi", "/api/openapi.json", caller=caller)
    answer = answers_to([asked], get_wsgi_application(), secrets)["openapi"]
    assert answer["status"] == "200"
    return json.loads(answer["body"])


def test_the_document_is_as_recorded(secrets: Mapping[str, str]) -> None:
    lines = list(facts(document("all rights", secrets)))
    for caller in OTHERS:
        paths = document(caller, secrets)["paths"]
        lines += [f"only {caller}: {method} {path}" for path, methods in sorted(paths.items()) for method in methods]
    assert_recorded("openapi.txt", lines)
