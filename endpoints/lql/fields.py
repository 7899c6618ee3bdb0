"""The types that a field of a table can have, as far as LQL distinguishes them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from endpoints.results.outcomes import Column


class FieldType(StrEnum):
    """The type of a field's values."""

    STRING = "string"
    INTEGER = "integer"
    FLOAT = "float"
    BOOLEAN = "boolean"
    DATETIME = "datetime"
    JSON = "json"  # has fields of unknown types
    OTHER = "other"  # compared as the text that PostgreSQL writes: uuid, inet, interval, …

    @property
    def is_number(self) -> bool:
        """Whether it can be summed."""
        return self in (FieldType.INTEGER, FieldType.FLOAT)


@dataclass(frozen=True, slots=True)
class Field:
    """The meaning of a path: a column, or something `inside` a column of JSON.

    `stored_as` is the column's type in PostgreSQL, of one element if it `is_list`.
    """

    name: str
    type: FieldType
    is_list: bool = False
    stored_as: str = ""
    inside: tuple[str, ...] = ()

    @property
    def described(self) -> str:
        """The name of the type in a message."""
        type_ = self.stored_as or self.type.value
        return f"a list of {type_}" if self.is_list else type_


# numeric(10,2), timestamp(3) with time zone, character varying(20)
_MODIFIER: Final = re.compile(r"\([0-9,]*\)")
_TYPES: Final = {
    **dict.fromkeys(("text", "character varying", "character"), FieldType.STRING),
    **dict.fromkeys(("smallint", "integer", "bigint"), FieldType.INTEGER),
    **dict.fromkeys(("numeric", "real", "double precision"), FieldType.FLOAT),
    "boolean": FieldType.BOOLEAN,
    **dict.fromkeys(("timestamp with time zone", "timestamp without time zone", "date"), FieldType.DATETIME),
    **dict.fromkeys(("json", "jsonb"), FieldType.JSON),
}


def column_field(column: Column) -> Field:
    """Return the field for a column of a table."""
    stored_as = _MODIFIER.sub("", column.type)
    element = stored_as.removesuffix("[]")
    is_list = element != stored_as
    type_ = _TYPES.get(element, FieldType.OTHER)
    if is_list and type_ is FieldType.JSON:
        type_ = FieldType.OTHER
    return Field(column.name, type_, is_list=is_list, stored_as=element)
