"""The parameters of a stored query: which ``@name`` it uses, what is declared for each, and whether arguments fit.

The rules are those of the service contract, "Parameters". Values and their canonical forms are in `coercion`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any, Final, NamedTuple, Self

from endpoints.errors import InvalidParameters
from endpoints.results.outcomes import BoundValue
from endpoints.sql.coercion import (
    ParameterType,
    RawScalar,
    RawValue,
    canonical_text,
    canonical_value,
    is_absent,
    sort_key,
)
from endpoints.sql.lexemes import Kind, lex

__all__ = [
    "DeclarationProblem",
    "DeclaredParameter",
    "ParameterType",
    "RawScalar",
    "RawValue",
    "UnacceptableValue",
    "check_declarations",
    "coerce_arguments",
    "coerce_value",
    "effective_parameters",
    "find_parameters",
]

PARAMETER_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MAX_NAME_CHARACTERS: Final = 63  # as long as a PostgreSQL identifier
RESERVED_NAMES: Final = frozenset({"sql", "lql"})  # they carry the sandbox query, so a value could never be sent
_PATTERN_TYPES: Final = frozenset({ParameterType.TEXT, ParameterType.TEXT_LIST})


class UnacceptableValue(ValueError):
    """A value that does not fit its parameter: the reason, and the constraint it broke as fields for `details`."""

    def __init__(self, reason: str, **constraint: object) -> None:
        super().__init__(reason)
        self.reason = reason
        self.constraint = constraint


class DeclarationProblem(NamedTuple):
    """Why a declaration cannot be saved."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class DeclaredParameter:
    """One parameter as the operator declared it.

    `default` is sent as if the caller had sent it; `allowed_values`, `minimum` and `maximum` are texts in any form
    the type accepts. `pattern` is a Python regular expression that must match the whole text (of each element of
    a list). It is the operator's own and runs without a time limit: one that backtracks exponentially lets callers
    burn CPU.
    """

    name: str
    type: ParameterType = ParameterType.TEXT
    required: bool = False
    default: RawValue = None
    allowed_values: tuple[str, ...] = ()
    minimum: str | None = None
    maximum: str | None = None
    pattern: str | None = None
    description: str = ""

    def __post_init__(self) -> None:
        # A list would make the declaration unhashable and changeable.
        if isinstance(self.default, list):
            object.__setattr__(self, "default", tuple(self.default))

    def to_json(self) -> dict[str, object]:
        """Return every field as a JSON value; `from_json` reads it back."""
        json = {field.name: getattr(self, field.name) for field in fields(self)}
        return json | {
            "type": self.type.value,
            "default": _json_value(self.default),
            "allowed_values": list(self.allowed_values),
        }

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> Self:
        """Return the declaration stored by `to_json`; absent fields take their defaults.

        Raises TypeError for a field that does not exist and ValueError for an unknown type.
        """
        values = dict(json)
        if "type" in values:
            values["type"] = ParameterType(values["type"])
        return cls(**values | {"allowed_values": tuple(values.get("allowed_values", ()))})


def _json_value(raw: RawValue) -> object:
    if isinstance(raw, list | tuple):
        return [_json_value(element) for element in raw]
    return str(raw) if isinstance(raw, Decimal) else raw


def find_parameters(sql: str) -> tuple[str, ...]:
    """Return the names of the ``@name`` in a text, each once, in order of first appearance. Raises LexicalError."""
    # where a = @x and b = '@y'  ->  ("x",)
    names = (lexeme.text[1:] for lexeme in lex(sql) if lexeme.kind is Kind.PARAMETER)
    return tuple(dict.fromkeys(names))


def effective_parameters(declared: Sequence[DeclaredParameter], sql: str) -> tuple[DeclaredParameter, ...]:
    """Return the declared parameters, then an optional text one for every other ``@name``. Raises LexicalError."""
    names = {parameter.name for parameter in declared}
    return (*declared, *(DeclaredParameter(name) for name in find_parameters(sql) if name not in names))


def coerce_value(declared: DeclaredParameter, raw: RawValue) -> BoundValue:
    """Return the canonical form of one value, or None if nothing was sent; does not apply the default.

    Raises UnacceptableValue, a ValueError, with a reason that never repeats the value.
    """
    if is_absent(raw):
        return None
    try:
        value = canonical_value(declared.type, raw)
    except ValueError as error:
        raise UnacceptableValue(str(error)) from None
    if isinstance(value, str) and declared.type.is_ordered:
        _refuse_outside_range(declared, value)
    texts = value if isinstance(value, list) else [value]
    _refuse_unless_allowed(declared, texts)
    _refuse_unless_pattern_matches(declared, texts)
    return value


def coerce_arguments(declared: Sequence[DeclaredParameter], raw: Mapping[str, RawValue]) -> Mapping[str, BoundValue]:
    """Return a bound value for every declared parameter, in their order; None if an optional one is absent.

    Null, empty text, and lists of only such count as absent; an absent parameter takes its default. Names that are
    not declared are ignored. Raises InvalidParameters whose details list every problem.
    """
    arguments: dict[str, BoundValue] = {}
    problems: list[dict[str, object]] = []
    for parameter in declared:
        sent = raw.get(parameter.name)
        try:
            value = coerce_value(parameter, parameter.default if is_absent(sent) else sent)
            if value is None and parameter.required:
                raise UnacceptableValue("is required", **_allowed_values(parameter))
            arguments[parameter.name] = value
        except UnacceptableValue as error:
            problems.append({"name": parameter.name, "reason": error.reason, **error.constraint})
    if problems:
        raise InvalidParameters(details=problems)
    return arguments


def _allowed_values(declared: DeclaredParameter) -> dict[str, object]:
    return {"allowed_values": list(declared.allowed_values)} if declared.allowed_values else {}


def _refuse_unless_allowed(declared: DeclaredParameter, texts: Sequence[str]) -> None:
    allowed = {canonical_text(declared.type, value) for value in declared.allowed_values}
    if allowed and not allowed.issuperset(texts):
        raise UnacceptableValue("is not one of the allowed values", **_allowed_values(declared))


def _refuse_outside_range(declared: DeclaredParameter, text: str) -> None:
    if declared.minimum is not None and _key(declared, text) < _key(declared, declared.minimum):
        raise UnacceptableValue("is below the minimum", minimum=declared.minimum)
    if declared.maximum is not None and _key(declared, text) > _key(declared, declared.maximum):
        raise UnacceptableValue("is above the maximum", maximum=declared.maximum)


def _refuse_unless_pattern_matches(declared: DeclaredParameter, texts: Sequence[str]) -> None:
    if declared.pattern is not None and not all(re.fullmatch(declared.pattern, text) for text in texts):
        raise UnacceptableValue("does not match the pattern", pattern=declared.pattern)


def _key(declared: DeclaredParameter, raw: str) -> Any:
    return sort_key(declared.type, canonical_text(declared.type, raw))


def check_declarations(declared: Sequence[DeclaredParameter], sql: str) -> list[DeclarationProblem]:
    """Return why these declarations cannot be saved with this SQL; empty if they can. Raises LexicalError."""
    used = find_parameters(sql)
    problems = list(_name_problems([parameter.name for parameter in effective_parameters(declared, sql)]))
    for parameter in declared:
        problems += [DeclarationProblem(parameter.name, reason) for reason in _constraint_problems(parameter)]
        if parameter.name not in used:
            problems.append(DeclarationProblem(parameter.name, _unused_reason(parameter.name, sql)))
    return problems


def _unused_reason(name: str, sql: str) -> str:
    reason = "is declared but not used in the SQL"
    if f"@{name}" not in sql:
        return reason
    # x <@limit  ->  the operator <@ and a column
    return f"{reason}: `@{name}` appears only in a string, in a comment, or directly after an operator such as `<@`"


def _name_problems(names: Sequence[str]) -> Iterator[DeclarationProblem]:
    for name, count in Counter(names).items():
        if count > 1:
            yield DeclarationProblem(name, "is declared more than once")
        if not PARAMETER_NAME.fullmatch(name):
            yield DeclarationProblem(name, "is not a name: use only ASCII letters, digits and `_`, no digit first")
        if len(name) > MAX_NAME_CHARACTERS:
            yield DeclarationProblem(name, f"is longer than {MAX_NAME_CHARACTERS} characters")
        if name.lower() in RESERVED_NAMES:
            yield DeclarationProblem(name, "is reserved for sandbox queries")
        # The sandbox passes arguments as PostgreSQL settings, whose names are the same in any case.
        if any(other != name and other.lower() == name.lower() for other in names):
            yield DeclarationProblem(name, "differs from another parameter only in upper and lower case")


def _constraint_problems(declared: DeclaredParameter) -> Iterator[str]:
    bounds = {"minimum": declared.minimum, "maximum": declared.maximum}
    if any(bound is not None for bound in bounds.values()) and not declared.type.is_ordered:
        yield f"cannot have a minimum or maximum: type {declared.type} has no order"
        return
    if declared.pattern is not None and declared.type not in _PATTERN_TYPES:
        yield f"cannot have a pattern: type {declared.type} is not text"
        return
    sound = True
    for label, text in [*bounds.items(), *(("allowed value", value) for value in declared.allowed_values)]:
        if text is not None and (reason := _unreadable(declared, text)):
            sound = False
            yield f"{label} {reason}"
    if declared.pattern is not None and (reason := _uncompilable(declared.pattern)):
        sound = False
        yield f"pattern {reason}"
    if not sound:
        return
    minimum, maximum = (bound and _key(declared, bound) for bound in bounds.values())
    if minimum is not None and maximum is not None and minimum > maximum:
        yield "minimum is above the maximum"
    yield from _inconsistent_values(declared)


def _inconsistent_values(declared: DeclaredParameter) -> Iterator[str]:
    candidates: list[tuple[str, RawValue]] = [("default", declared.default)]
    candidates += [("allowed value", value) for value in declared.allowed_values]
    for label, raw in candidates:
        try:
            coerce_value(declared, raw)
        except UnacceptableValue as error:
            yield f"{label} {error.reason}"


def _unreadable(declared: DeclaredParameter, text: str) -> str:
    if text == "":
        return "is empty, which counts as absent"
    try:
        canonical_text(declared.type, text)
    except ValueError as error:
        return str(error)
    return ""


def _uncompilable(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        return f"is not a regular expression: {error}"
    return ""
