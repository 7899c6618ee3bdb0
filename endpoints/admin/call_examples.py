"""A call of an endpoint as text to copy: curl, Python and JavaScript, with its real address, names and types.

Values that only the caller knows appear as words to be replaced, such as SOME_PROJECT; the page marks these words, so
that they can be filled in there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from endpoints.sql.parameters import DeclaredParameter, ParameterType

ACCESS_TOKEN: Final = "YOUR_ACCESS_TOKEN"  # noqa: S105  # a word in its place
_HEADER: Final = "X-API-KEY"
_WAIT_SECONDS: Final = 5  # longer than the statement timeout: so that the answer about it arrives

_TIMES: Final = (ParameterType.TIMESTAMP, ParameterType.DATE)

Value = str | int | Decimal | bool | list[str]


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of an example; `fill` is the word for a value that only the caller knows, else ""."""

    text: str
    fill: str = ""


@dataclass(frozen=True, slots=True)
class CallExample:
    """One call in one language; the page's script identifies the language by `name`."""

    name: str
    label: str
    pieces: tuple[Piece, ...]

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class Target:
    """The called endpoint: the address, the header that carries the access token, how long an answer may take."""

    address: str
    statement_timeout_seconds: int
    arguments: Mapping[str, Value]


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


def call_examples(target: Target) -> tuple[CallExample, ...]:
    """Return the call in each language."""
    words = [ACCESS_TOKEN, *sorted(set(placeholders(target.arguments)), key=len, reverse=True)]
    split = re.compile("|".join(rf"\b{re.escape(word)}\b" for word in words))
    return tuple(
        CallExample(name, label, tuple(_pieces(write(target), split)))
        for name, label, write in (
            ("curl", "curl", _curl),
            ("python", "Python", _python),
            ("javascript", "JavaScript", _javascript),
        )
    )


def placeholders(arguments: Mapping[str, Value]) -> dict[str, str]:
    """Return the words for arguments that only the caller knows, with the name of the parameter."""
    return {
        word: name for name, value in arguments.items() for word in [f"SOME_{name.upper()}"] if value in (word, [word])
    }


def _pieces(text: str, split: re.Pattern[str]) -> Iterator[Piece]:
    end = 0
    for match in split.finditer(text):
        if match.start() > end:
            yield Piece(text[end : match.start()])
        yield Piece(match.group(), fill=match.group())
        end = match.end()
    yield Piece(text[end:])


def _curl(target: Target) -> str:
    lines = [f"curl --get {_quoted(target.address)}", f"--header {_quoted(f'{_HEADER}: {ACCESS_TOKEN}')}"]
    lines += [f"--data-urlencode {_quoted(f'{name}={value}')}" for name, value in _pairs(target.arguments)]
    return " \\\n  ".join(lines)


def _quoted(text: str) -> str:
    """Return a word of the shell, always in quotes: a later value may need them."""
    return "'" + text.replace("'", "'\\''") + "'"


def _pairs(arguments: Mapping[str, Value]) -> list[tuple[str, str]]:
    """Return the fields of a query string: everything as text, a list as its name several times."""
    pairs: list[tuple[str, str]] = []
    for name, value in arguments.items():
        for element in value if isinstance(value, list) else [value]:
            pairs.append((name, str(element).lower() if isinstance(element, bool) else str(element)))
    return pairs


def _python(target: Target) -> str:
    lines = [
        "import requests  # pip install requests",
        "",
        "response = requests.get(",
        f"    {_literal(target.address)},",
        f"    headers={{{_literal(_HEADER)}: {_literal(ACCESS_TOKEN)}}},",
    ]
    if target.arguments:
        fields = [f"        {_literal(name)}: {_python_literal(value)}," for name, value in target.arguments.items()]
        lines += ["    params={", *fields, "    },"]
    return "\n".join(
        [
            *lines,
            f"    timeout={target.statement_timeout_seconds + _WAIT_SECONDS},",
            ")",
            "if not response.ok:",
            '    raise SystemExit(response.json()["error"]["message"])',
            'for row in response.json()["result"]:',
            "    print(row)",
        ]
    )


def _javascript(target: Target) -> str:
    lines = [f"const address = new URL({_literal(target.address)});"]
    if target.arguments:
        fields = [f"  [{_literal(name)}, {_literal(value)}]," for name, value in _pairs(target.arguments)]
        lines += ["address.search = new URLSearchParams([", *fields, "]);"]
    return "\n".join(
        [
            *lines,
            "const response = await fetch(address, {",
            f"  headers: {{ {_literal(_HEADER)}: {_literal(ACCESS_TOKEN)} }},",
            "});",
            "const answer = await response.json();",
            "if (!response.ok) throw new Error(answer.error.message);",
            "console.log(answer.result);",
        ]
    )


def _literal(text: str) -> str:
    """Return a text as both Python and JavaScript write it."""
    return json.dumps(text, ensure_ascii=False)


def _python_literal(value: Value) -> str:
    if isinstance(value, bool | int | Decimal):
        return str(value)
    return json.dumps(value, ensure_ascii=False)
