"""Paths and conditions inside JSON, as jsonpath (PostgreSQL manual, 9.16.2).

``m.request.method`` is ``$."request"."method"`` in lax mode: if there is an array on the way or at the end, each of its
elements is looked at, so an object and an array of one object are the same. An array directly inside an array is not
opened. A condition holds if some value at the end of the path fulfils it. The type of each value decides:

* a number is compared and ordered as a number, a boolean equals a boolean, text equals text and is ordered by code
  point;
* for an order, text that reads as a number also counts as that number, to the 15 digits that jsonpath's ``double()``
  keeps in every version of PostgreSQL, unless the value was quoted.

Values are variables, never part of a jsonpath.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from endpoints.lql.bindings import JSONScalar
from endpoints.lql.casting import read_boolean, read_number
from endpoints.lql.rules import Operator, Value

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
