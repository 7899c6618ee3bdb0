"""Calls of an endpoint to copy, in curl, Python and JavaScript, with its real address, names and types.

Values that only the caller knows appear as words to be replaced, such as SOME_PROJECT; the page marks these words, so
that they can be filled in there. The texts are the templates in `endpoints/usage/examples`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from django.http import HttpRequest
from django.template.loader import render_to_string
from django.urls import reverse

from endpoints.calling.operation_names import name_endpoints
from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter, ParameterType

ACCESS_TOKEN: Final = "YOUR_ACCESS_TOKEN"  # noqa: S105  # a word in its place
_WAIT_SECONDS: Final = 5  # longer than the statement timeout: so that the answer about it arrives
_QUERIES: Final = {"": "Its own query", "sql": "A query in SQL", "lql": "A query in LQL"}
_TIMES: Final = (ParameterType.TIMESTAMP, ParameterType.DATE)

Value = str | int | Decimal | bool | list[str]


@dataclass(frozen=True, slots=True)
class CallExample:
    """A call in one language; every second piece is a word for a value that only the caller knows."""

    language: str  # in which the page's script writes what is filled in
    label: str
    pieces: Sequence[str]


def calling_context(request: HttpRequest, endpoint: Endpoint) -> dict[str, Any]:
    """Return what the page shows about calling: examples, and the words to fill in.

    `?query=` chooses whose query the examples send.
    """
    parameters = endpoint.parameters_of_version
    arguments = example_arguments(parameters, now=datetime.now(UTC))
    asked = request.GET.get("query", "")
    query = asked if endpoint.sandboxing and asked in _QUERIES else ""
    sent = arguments | ({query: sandbox_query(endpoint, query)} if query else {})
    address = request.build_absolute_uri(reverse("query", args=[endpoint.name]))
    operation = f"get_{name_endpoints(Endpoint.objects.all())[endpoint.name].operation}"
    words = placeholders(arguments)
    return {
        "examples": call_examples(address, sent, timeout_seconds=endpoint.statement_timeout_seconds + _WAIT_SECONDS),
        "fills": [(ACCESS_TOKEN, "Access token"), *((word, f"@{name}") for word, name in words.items())],
        "parameters": parameters,
        "queries": list(_QUERIES.items()) if endpoint.sandboxing else [],
        "query": query,
        "openapi_address": reverse("openapi"),
        "docs_address": f"{reverse('api-docs')}#/endpoints/{operation}",
    }


def sandbox_query(endpoint: Endpoint, language: str) -> str:
    """Return a query of a consumer's own in this language, over the table that is most likely meant."""
    tables = [table["name"] for table in endpoint.sandbox_tables]
    table = endpoint.default_sandbox_table or (tables[0] if tables else "a_table")
    if language == "lql":
        return f"f:{table} t:last@1hour"
    quoted = table if table.isidentifier() and table.islower() else '"' + table.replace('"', '""') + '"'
    return f"SELECT * FROM {quoted} LIMIT 10"  # noqa: S608  # shown, not run


def call_examples(address: str, arguments: Mapping[str, Value], *, timeout_seconds: int) -> list[CallExample]:
    """Return the call in each language."""
    pairs = [
        (name, str(element).lower() if isinstance(element, bool) else str(element))
        for name, value in arguments.items()
        for element in (value if isinstance(value, list) else [value])
    ]
    words = [ACCESS_TOKEN, *sorted(placeholders(arguments), key=len, reverse=True)]
    split = re.compile(rf"\b({'|'.join(words)})\b")
    examples = []
    for language, label, write, fields in (
        ("shell", "curl", _in_quotes, pairs),
        ("python", "Python", _literal, arguments.items()),
        ("javascript", "JavaScript", _literal, pairs),
    ):
        written = {
            "address": write(address),
            "fields": [(write(name), write(value)) for name, value in fields],
            "timeout": timeout_seconds,
        }
        text = render_to_string(f"endpoints/usage/examples/{language}.txt", written).strip()
        examples.append(CallExample(language, label, split.split(text)))
    return examples


def _in_quotes(value: Value) -> str:
    """Write a value inside of the single quotes that it has in the shell."""
    return str(value).replace("'", "'\\''")


def _literal(value: Value) -> str:
    """Write a value as Python does; a text is the same in JavaScript."""
    return str(value) if isinstance(value, bool | int | Decimal) else json.dumps(value, ensure_ascii=False)


def example_arguments(parameters: Sequence[DeclaredParameter], *, now: datetime) -> dict[str, Value]:
    """Return an argument for each parameter that is required or has an obvious example: a choice, a default, a time.

    Times are a day ago for the first and `now` for the others, because they are mostly the bounds of a range.
    """
    times = iter([now - timedelta(days=1)])
    arguments: dict[str, Value] = {}
    for parameter in parameters:
        moment = next(times, now) if parameter.type in _TIMES else now
        known = _known_example(parameter, moment)
        if known is not None:
            arguments[parameter.name] = known
        elif parameter.required:
            placeholder = f"SOME_{parameter.name.upper()}"
            arguments[parameter.name] = [placeholder] if parameter.type is ParameterType.TEXT_LIST else placeholder
    return arguments


def _known_example(parameter: DeclaredParameter, moment: datetime) -> Value | None:
    given = (
        list(parameter.allowed_values) or _texts(parameter.default) or _texts(parameter.minimum or parameter.maximum)
    )
    match parameter.type:
        case ParameterType.TEXT_LIST:
            return given or None
        case _ if given:
            return _typed(parameter.type, given[0])
        case ParameterType.TIMESTAMP:
            return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
        case ParameterType.DATE:
            return f"{moment:%Y-%m-%d}"
        case ParameterType.INTEGER | ParameterType.NUMBER if parameter.required:
            return 1
        case ParameterType.BOOLEAN if parameter.required:
            return True
        case _:
            return None


def _texts(value: object) -> list[str]:
    if value is None or value == "":
        return []
    return [str(element) for element in value] if isinstance(value, list | tuple) else [str(value)]


def _typed(type_: ParameterType, text: str) -> Value:
    """Return a value as its type is written in JSON; other texts stay text, which is accepted too."""
    try:
        match type_:
            case ParameterType.INTEGER:
                return int(text)
            case ParameterType.NUMBER:
                return Decimal(text)
            case ParameterType.BOOLEAN:
                return text.strip().lower() in ("true", "t", "yes", "on", "1")
            case _:
                return text
    except (ValueError, ArithmeticError):
        return text


def placeholders(arguments: Mapping[str, Value]) -> dict[str, str]:
    """Return the words for arguments that only the caller knows, with the name of the parameter."""
    return {
        word: name for name, value in arguments.items() for word in [f"SOME_{name.upper()}"] if value in (word, [word])
    }
