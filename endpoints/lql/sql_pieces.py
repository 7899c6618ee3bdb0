"""The pieces of lowered queries: values as parameters, and paths and conditions inside JSON as jsonpath."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Final

from endpoints.lql.fields import plain_digits, read_boolean, read_number
from endpoints.lql.intervals import Bounds
from endpoints.lql.rules import FilterRule, Operator, RangeRule, Value
from endpoints.lql.times import EPOCH, LOGGED_FORM, UNITS_PER_SECOND
from endpoints.results.outcomes import BoundValue
from endpoints.sql.parameters import DeclaredParameter, ParameterType

# --- Bindings ---------------------------------------------------------------------------------------------------------
# The values of a lowered query as parameters: no value is ever part of its SQL.
JSONScalar = str | bool | Decimal


class Bindings:
    """The parameters of one query, ``@lql_1`` and on; equal values of one type share a parameter."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[ParameterType, str | tuple[str, ...]], int] = {}

    @property
    def parameters(self) -> tuple[DeclaredParameter, ...]:
        """The parameters, in the form that the sandbox's checker needs."""
        return tuple(DeclaredParameter(f"lql_{number}", type_) for (type_, _), number in self._numbers.items())

    @property
    def arguments(self) -> dict[str, BoundValue]:
        """The canonical value of each parameter."""
        return {
            f"lql_{number}": value if isinstance(value, str) else list(value)
            for (_, value), number in self._numbers.items()
        }

    def bind(self, value: str | tuple[str, ...], type_: ParameterType = ParameterType.TEXT) -> str:
        """Return the SQL that stands for a canonical value of this type."""
        number = self._numbers.setdefault((type_, value), len(self._numbers) + 1)
        return f"@lql_{number}"

    def jsonpath(self, path: str) -> str:
        """Return the SQL that stands for a jsonpath.

        It is a query of its own, so that PostgreSQL reads the path once: by a plan for any arguments, it would read a
        cast of a parameter again for each row.
        """
        return f"(SELECT {self.bind(path)}::jsonpath)"

    def jsonb(self, variables: Mapping[str, JSONScalar | Sequence[JSONScalar]]) -> str:
        """Return the SQL that stands for the object with the variables of a jsonpath."""
        members = ", ".join(f"{json.dumps(name)}: {_json(value)}" for name, value in variables.items())
        return f"(SELECT {self.bind(f'{{{members}}}')}::jsonb)"


def _json(value: JSONScalar | Sequence[JSONScalar]) -> str:
    if isinstance(value, str | bool):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Decimal):
        return plain_digits(value)
    return f"[{', '.join(map(_json, value))}]"


def quoted_name(name: str) -> str:
    """Return a column or table name as an identifier of SQL."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


# --- Jsonpaths --------------------------------------------------------------------------------------------------------
_READS_AS_NUMBER: Final = '@ like_regex "^[-+]?[0-9]{1,40}([.][0-9]{1,40})?$"'
_READS_AS_MOMENT: Final = f'@ like_regex "^{LOGGED_FORM}$"'
_IS_NUMBER: Final = '@.type() == "number"'
_IS_TEXT: Final = '@.type() == "string"'
# With more, a cast to double precision fails.
_FITS_DOUBLE: Final = "(@ == 0 || @.abs() > 1e-300 && @.abs() < 1e300)"
NOT_NULL: Final = '? (@.type() != "null")'
SCALARS: Final = f'? ({_IS_TEXT} || {_IS_NUMBER} || @.type() == "boolean")'
# Numbers in strings too; a text that passes the filter always casts to numeric and to double precision.
NUMBERS: Final = f"? ({_IS_NUMBER} && {_FITS_DOUBLE} || {_IS_TEXT} && {_READS_AS_NUMBER})"


@dataclass(frozen=True, slots=True)
class Condition:
    """A jsonpath filter, which is put after a path, and its variables."""

    filter: str
    variables: Mapping[str, JSONScalar | Sequence[JSONScalar]]


def value_path(inside: tuple[str, ...]) -> str:
    """Return the path to the values of a field; arrays at its end are not opened."""
    # metadata.user.id  ->  $."user"."id"
    return "".join(["$", *(f".{json.dumps(segment)}" for segment in inside)])


def equal(value: Value) -> Condition:
    """Return the condition for a value equal to the text, or to the number or boolean that it reads as."""
    number = read_number(value.text)
    read = read_boolean(value.text) if number is None else number
    return among([value.text] if read is None else [value.text, read])


def among(candidates: Sequence[JSONScalar]) -> Condition:
    """Return the condition for a value equal to one of the candidates."""
    # Without the test for arrays, `@ ==` would open a second one.
    return Condition('? (@ == $v && @.type() != "array")', {"v": candidates})


def ordered(*comparisons: tuple[Operator, Value]) -> Condition:
    """Return the condition for one value that fulfils every comparison."""
    variables: dict[str, JSONScalar] = {}
    as_number, as_double, as_text = [], [], []
    for index, (operator, value) in enumerate(comparisons):
        number = read_number(value.text)
        if number is not None:
            variables[f"n{index}"] = number
            as_number.append(f"@ {operator.value} $n{index}")
        if number is not None and not value.quoted:
            as_double.append(f"@.double() {operator.value} $n{index}")
        else:
            variables[f"t{index}"] = value.text
            as_text.append(f"@ {operator.value} $t{index}")
    # double() before the pattern: it is much faster, and a text that it cannot read is just not true.
    alternatives = [
        " && ".join([_IS_NUMBER, *as_number]) if as_number else "",
        " && ".join([_IS_TEXT, *as_double, _READS_AS_NUMBER]) if as_double else "",
        " && ".join([_IS_TEXT, *as_text]) if as_text else "",
    ]
    return Condition(f"? ({' || '.join(filter(None, alternatives))})", variables)


def moment_texts(bounds: Bounds) -> Condition:
    """Return the condition for text that has the form of a moment and may lie within the bounds."""
    # Its day is that of another zone, at most one day off; this is cheap to compare, and a moment is slow to read.
    lower, upper = bounds[0], bounds[-1]
    first = "" if lower.operator in (Operator.LESS, Operator.LESS_OR_EQUAL) else _day(lower.moment.toordinal() - 1)
    behind = "~"  # behind all digits, and behind the times of a day
    if upper.operator not in (Operator.GREATER, Operator.GREATER_OR_EQUAL):
        behind = _day(upper.moment.toordinal() + 1) + behind
    near = {"first": first, "behind": behind}
    return Condition(f"? ({_IS_TEXT} && @ >= $first && @ < $behind && {_READS_AS_MOMENT})", near)


def _day(ordinal: int) -> str:
    return date.fromordinal(min(max(ordinal, 1), date.max.toordinal())).isoformat()


def beside_moments(bounds: Bounds, rule: FilterRule | RangeRule) -> Condition:
    """Return the condition for Unix time within the bounds, the rule's own text and, in quotes, an order of texts."""
    seconds = [Decimal((bound.moment - EPOCH) // timedelta(microseconds=1)) / 1_000_000 for bound in bounds]
    variables: dict[str, JSONScalar] = {f"s{index}": value for index, value in enumerate(seconds)}
    signs = ["==" if bound.operator is Operator.EQUAL else bound.operator.value for bound in bounds]
    alternatives = []
    for digits, unit in UNITS_PER_SECOND.items():
        inside = " && ".join(f"@ {sign} $s{index} * {unit}" for index, sign in enumerate(signs))
        alternatives.append(f"{_IS_NUMBER} && @ >= {10 ** (digits - 1)} && @ < {10**digits} && {inside}")
    if isinstance(rule, FilterRule) and rule.value is not None:
        variables["t"] = rule.value.text
        if rule.operator in (Operator.EQUAL, Operator.LIST_INCLUDES):
            alternatives.append(f"{_IS_TEXT} && @ == $t")
        elif rule.value.quoted:
            alternatives.append(f"{_IS_TEXT} && !({_READS_AS_MOMENT}) && @ {rule.operator.value} $t")
    return Condition(f"? ({' || '.join(alternatives)})", variables)
