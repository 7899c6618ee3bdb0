"""The pieces of lowered queries: values as parameters, and paths and conditions inside JSON as jsonpath."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from endpoints.lql.fields import plain_digits, read_boolean, read_number
from endpoints.lql.rules import Operator, Value
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
        """Return the SQL that stands for a jsonpath."""
        return f"{self.bind(path)}::jsonpath"

    def jsonb(self, variables: Mapping[str, JSONScalar | Sequence[JSONScalar]]) -> str:
        """Return the SQL that stands for the object with the variables of a jsonpath."""
        members = ", ".join(f"{json.dumps(name)}: {_json(value)}" for name, value in variables.items())
        return f"{self.bind(f'{{{members}}}')}::jsonb"


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
