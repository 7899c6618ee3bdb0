"""Where a stored query uses each ``@name``, and which type that suggests to the operator who must declare it.

PostgreSQL knows the type of most uses (`numbered_uses`, `types_of_uses`). What it cannot tell, and what is in a text
that it refuses, is guessed from the words around the use (`parameter_uses`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from endpoints.sql.coercion import ParameterType
from endpoints.sql.composition import replace_parameters, single_query
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
    """A parameter with the offsets of its uses; `guessed_type` is None if nothing tells its type."""

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
    """Return the type of ``::type`` after a parameter."""
    if len(behind) < 2 or behind[0].text != "::":
        return None
    name = behind[1].text.lower()
    if [lexeme.text for lexeme in behind[2:4]] == ["[", "]"]:
        return ParameterType.TEXT_LIST if name in _LIST_TYPES else None
    return _TYPES.get(name)


def _comparison(lexemes: Sequence[Lexeme], index: int) -> ParameterType | None:
    """Return what a parameter is compared with: a timestamp, a list after ANY, a number of rows."""
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


# --- Types that PostgreSQL tells --------------------------------------------------------------------------------------
_TEXTS: Final = frozenset({"text", "varchar", "bpchar", "name", "char"})
# If two uses differ, the type that fits both: a time fits where a date stands, and only an integer fits LIMIT.
_PREFERRED: Final = (
    ParameterType.TEXT, ParameterType.TEXT_LIST, ParameterType.TIMESTAMP, ParameterType.DATE, ParameterType.INTEGER,
    ParameterType.NUMBER, ParameterType.BOOLEAN, ParameterType.UUID,
)  # fmt: skip
_NOWHERE: Final = "\0"  # no SQL contains it


@dataclass(frozen=True, slots=True)
class NumberedUses:
    """A query in which every use of a parameter has a number of its own, so that PostgreSQL can tell the type of each.

    One number for all uses of a name would not do: PostgreSQL refuses ``$1 IS NULL OR n > $1`` (42P08).
    """

    texts: tuple[str, ...]  # before, between and behind the uses
    names: tuple[str, ...]  # of the parameter of each use: names[0] is $1
    casts: frozenset[int]  # the numbers of the uses like @name::type, where a value of another type fits too
    untold: frozenset[int]  # the numbers of the uses like @name IS NULL, which say nothing

    def sql(self, as_text: Collection[int]) -> str:
        """Return the statement in which all uses but these have no type."""
        pieces = [self.texts[0]]
        for number, text in enumerate(self.texts[1:], start=1):
            pieces += [f"(${number}::text)" if number in as_text else f"(${number})", text]
        return "".join(pieces)


def numbered_uses(sql: str) -> NumberedUses:
    """Return the query with a number for each use. Raises CompositionError if it is not one query."""
    # where a >= @x or @x is null  ->  where a >= ($1) or ($2::text) is null
    query = [lexeme for lexeme in single_query(sql) if not lexeme.is_blank]
    names: list[str] = []
    casts: set[int] = set()
    untold: set[int] = set()
    for lexeme, following in zip(query, [*(one.text.lower() for one in query[1:]), ""], strict=True):
        if lexeme.kind is not Kind.PARAMETER:
            continue
        names.append(lexeme.text[1:])
        if following == "::":
            casts.add(len(names))
        elif following == "is":
            untold.add(len(names))
    texts = replace_parameters(sql, lambda _: _NOWHERE).split(_NOWHERE)
    return NumberedUses(tuple(texts), tuple(names), frozenset(casts), frozenset(untold))


def types_of_uses(query: NumberedUses, told: Mapping[int, str]) -> dict[str, ParameterType]:
    """Return the type of each parameter, from PostgreSQL's name for the type of each use; without those not told."""
    by_name: dict[str, list[tuple[bool, ParameterType]]] = {}
    for number, name in enumerate(query.names, start=1):
        type_ = _parameter_type(told.get(number, ""))
        if type_ is not None:
            by_name.setdefault(name, []).append((number in query.casts, type_))
    types: dict[str, ParameterType] = {}
    for name, uses in by_name.items():
        # A cast takes other types as well, so it decides only where nothing else does.
        fitting = {type_ for is_cast, type_ in uses if not is_cast} or {type_ for _, type_ in uses}
        types[name] = next(type_ for type_ in _PREFERRED if type_ in fitting)
    return types


def _parameter_type(name: str) -> ParameterType | None:
    """Return the type for a parameter that PostgreSQL takes for this type; None for one such as jsonb."""
    if name.endswith("[]"):
        return ParameterType.TEXT_LIST
    return ParameterType.TEXT if name in _TEXTS else _TYPES.get(name)
