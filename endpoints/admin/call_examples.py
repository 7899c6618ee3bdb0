"""What an example of a call is: a text to copy, with the endpoint's real address, names and types.

Values that only the caller knows appear as words to be replaced, such as SOME_PROJECT; the page marks these words, so
that they can be filled in there. `result_examples` and `client_examples` write the examples.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Final

from endpoints.sql.parameters import DeclaredParameter, ParameterType

ACCESS_TOKEN: Final = "YOUR_ACCESS_TOKEN"  # noqa: S105  # a word in its place
_WAIT_SECONDS: Final = 5  # longer than the statement timeout: so that the answer about it arrives

_TIMES: Final = (ParameterType.TIMESTAMP, ParameterType.DATE)

Value = str | int | Decimal | bool | list[str]


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of an example; `fill` is the word for a value that only the caller knows, else ""."""

    text: str
    fill: str = ""


class Language(StrEnum):
    """How an example writes a text; the page's script writes what is filled in likewise."""

    SHELL = "shell"
    JSON_IN_SHELL = "json_in_shell"  # a JSON text in the shell's quotes
    PYTHON = "python"
    JAVASCRIPT = "javascript"


@dataclass(frozen=True, slots=True)
class CallExample:
    """One example in one language; `name` identifies it in its way to call."""

    name: str
    label: str
    language: Language
    pieces: tuple[Piece, ...]

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class WayToCall:
    """Examples that do the same in several languages; `takes_query` if they can send a query of the caller's own."""

    name: str
    label: str
    note: str
    examples: tuple[CallExample, ...]
    takes_query: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """The called endpoint: its address, how long an answer may take, and what is sent to it."""

    address: str
    statement_timeout_seconds: int
    arguments: Mapping[str, Value]

    @property
    def timeout_seconds(self) -> int:
        """Return how long a client waits for an answer."""
        return self.statement_timeout_seconds + _WAIT_SECONDS


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


def example(target: Target, name: str, label: str, language: Language, text: str) -> CallExample:
    """Return a text as an example whose words for the caller's own values are marked."""
    words = [ACCESS_TOKEN, *sorted(set(placeholders(target.arguments)), key=len, reverse=True)]
    split = re.compile("|".join(rf"\b{re.escape(word)}\b" for word in words))
    return CallExample(name, label, language, tuple(_pieces(text, split)))


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
