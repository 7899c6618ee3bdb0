"""The values of a lowered query as parameters: no value is ever part of its SQL."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal

from endpoints.lql.casting import plain_digits
from endpoints.results.outcomes import BoundValue
from endpoints.sql.parameters import DeclaredParameter, ParameterType

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
