"""The columns of a query without a chart: all columns of the table, or one for each select rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from endpoints.lql.bindings import Bindings, quoted_name
from endpoints.lql.faults import Fault, named
from endpoints.lql.fields import Field
from endpoints.lql.filters import json_column
from endpoints.lql.jsonpaths import value_path
from endpoints.lql.rules import SelectRule
from endpoints.lql.schema import Schema, resolve
from endpoints.results.outcomes import Column

MAX_NAME_BYTES: Final = 63  # PostgreSQL's NAMEDATALEN - 1; a longer column name would be cut

Output = tuple[str, Field]


def outputs(selects: Sequence[SelectRule], schema: Schema, columns: Sequence[Column]) -> list[Output]:
    """Return each column's name and field; without selects or with a wildcard, the table's own columns.

    A select written twice counts once. Raises Fault for a path without a meaning, for two columns with the same name
    and for a name that PostgreSQL would cut.
    """
    if not selects or any(select.is_wildcard for select in selects):
        return [(column.name, schema[column.name]) for column in columns]
    paths: dict[str, str] = {}
    found: list[Output] = []
    for select in selects:
        name = select.alias or select.path
        if len(name.encode()) > MAX_NAME_BYTES:
            hint = "Give it a shorter name with an alias, such as `s:m.status@status`."
            raise Fault(select.position, f"the column name {named(name)} is over {MAX_NAME_BYTES} bytes", hint=hint)
        if paths.setdefault(name, select.path) != select.path:
            hint = "Give one of them another name with an alias, such as `s:m.status@status`."
            raise Fault(select.position, f"two columns are called {named(name)}", found=name, hint=hint)
        output = (name, resolve(select.path, schema, position=select.position))
        if output not in found:
            found.append(output)
    return found


def lower_selects(chosen: Sequence[Output], source: str, bindings: Bindings) -> str:
    """Return the query of these columns over `source`, which is FROM and everything after it.

    Values inside JSON take two SELECTs around the one that filters and sorts. The middle one names the values found at
    each path; the outer one shows NULL for no value, the value itself for one, and an array for several. This happens
    after the sort, because PostgreSQL considers such a call cheap and would otherwise do it for every row before LIMIT:
    fifty of them took 5.5 s over 200,000 rows.
    """
    if not any(field.inside for _, field in chosen):
        columns = [_labelled(quoted_name(field.name), name) for name, field in chosen]
        return f"SELECT {', '.join(columns)} {source}"
    found, shown = [], []
    for number, (name, field) in enumerate(chosen, start=1):
        value = quoted_name(str(number))
        if field.inside:
            path = bindings.jsonpath(value_path(field.inside))
            found.append(f"jsonb_path_query_array({json_column(field)}, {path}) AS {value}")
            shown.append(f"CASE WHEN {value} -> 1 IS NULL THEN {value} -> 0 ELSE {value} END AS {quoted_name(name)}")
        else:
            found.append(f"{quoted_name(field.name)} AS {value}")
            shown.append(f"{value} AS {quoted_name(name)}")
    read = ", ".join(dict.fromkeys(quoted_name(field.name) for _, field in chosen))
    rows = f"SELECT {read} {source}"
    values = f"SELECT {', '.join(found)} FROM ({rows}) AS r"  # noqa: S608 - quoted names
    return f"SELECT {', '.join(shown)} FROM ({values}) AS s"  # noqa: S608 - quoted names


def _labelled(column: str, name: str) -> str:
    label = quoted_name(name)
    return column if column == label else f"{column} AS {label}"
