"""Where a stored query uses each ``@name``, and which type that suggests to the operator who has yet to declare it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from endpoints.sql.coercion import ParameterType
from endpoints.sql.lexemes import Kind, Lexeme, lex

_COMPARISONS: Final = frozenset({"<", "<=", "=", ">=", ">", "<>", "!="})
_TYPES: Final = {
    "timestamptz": ParameterType.TIMESTAMP, "timestamp": ParameterType.TIMESTAMP, "date": ParameterType.DATE,
    "int": ParameterType.INTEGER, "integer": ParameterType.INTEGER, "bigint": ParameterType.INTEGER,
    "smallint": ParameterType.INTEGER, "int2": ParameterType.INTEGER, "int4": ParameterType.INTEGER,
    "int8": ParameterType.INTEGER, "numeric": ParameterType.NUMBER, "decimal": ParameterType.NUMBER,
    "real": ParameterType.NUMBER, "double": ParameterType.NUMBER, "float4": ParameterType.NUMBER,
    "float8": ParameterType.NUMBER, "float": ParameterType.NUMBER, "bool": ParameterType.BOOLEAN,
    "boolean": ParameterType.BOOLEAN, "uuid": ParameterType.UUID,
}  # fmt: skip
_LIST_TYPES: Final = frozenset({"text", "varchar"})
_COUNTING_WORDS: Final = frozenset({"limit", "offset"})


@dataclass(frozen=True, slots=True)
class ParameterUse:
    """A parameter with the offsets of its uses; `guessed_type` is None where nothing tells it from text."""

    name: str
    offsets: tuple[int, ...]
    guessed_type: ParameterType | None


def parameter_uses(sql: str) -> tuple[ParameterUse, ...]:
    """Return the parameters of a text in order of first use. Raises LexicalError."""
    # where t.timestamp > @start limit @n::int  ->  start: timestamp, n: integer
    lexemes = [lexeme for lexeme in lex(sql) if not lexeme.is_blank]
    offsets: dict[str, list[int]] = {}
    guesses: dict[str, ParameterType] = {}
    for index, lexeme in enumerate(lexemes):
        if lexeme.kind is not Kind.PARAMETER:
            continue
        name = lexeme.text[1:]
        offsets.setdefault(name, []).append(lexeme.start)
        guess = _cast(lexemes[index + 1 : index + 5]) or _comparison(lexemes, index)
        if guess is not None:
            guesses.setdefault(name, guess)
    return tuple(ParameterUse(name, tuple(places), guesses.get(name)) for name, places in offsets.items())


def _cast(behind: Sequence[Lexeme]) -> ParameterType | None:
    """Return the type of ``::type`` behind a parameter."""
    if len(behind) < 2 or behind[0].text != "::":
        return None
    name = behind[1].text.lower()
    if [lexeme.text for lexeme in behind[2:4]] == ["[", "]"]:
        return ParameterType.TEXT_LIST if name in _LIST_TYPES else None
    return _TYPES.get(name)


def _comparison(lexemes: Sequence[Lexeme], index: int) -> ParameterType | None:
    """Return what a parameter is compared with: a timestamp, a list behind ANY, a number of rows."""
    texts = ["", "", *(lexeme.text.lower() for lexeme in lexemes[:index])]
    if texts[-1] in _COUNTING_WORDS:
        return ParameterType.INTEGER
    if texts[-2:] == ["any", "("] or texts[-2:] == ["all", "("]:
        return ParameterType.TEXT_LIST
    if texts[-2:] == ["coalesce", "("]:
        texts = texts[:-2]  # timestamp > coalesce(@start, …)
    if texts[-1] not in _COMPARISONS:
        following = [lexeme.text.lower() for lexeme in lexemes[index + 1 : index + 5]]
        return _compared_with(following)
    return ParameterType.TIMESTAMP if texts[-2].strip('"') == "timestamp" else None


def _compared_with(following: Sequence[str]) -> ParameterType | None:
    # @start < t.timestamp
    if not following or following[0] not in _COMPARISONS:
        return None
    operand = following[1:4]
    column = operand[2] if operand[1:2] == ["."] and len(operand) == 3 else operand[0] if operand else ""
    return ParameterType.TIMESTAMP if column.strip('"') == "timestamp" else None
