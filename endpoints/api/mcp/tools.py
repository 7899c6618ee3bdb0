"""Endpoints as tools: name, description, and JSON Schema (2020-12) of their arguments and rows.

The name of a tool is the name of its endpoint: whatever `validate_endpoint_name` lets through, the specification allows
for tools. Parameters that the access token is bound to are left out, their values come from the access token.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from endpoints.access.secrets import Caller
from endpoints.api.mcp.protocol import Code, ProtocolError
from endpoints.api.schemas import Schema, arguments_schema, column_schema
from endpoints.calling.calls import visible_endpoints
from endpoints.definition import PublishedTable
from endpoints.dialects import DIALECTS
from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter

TOOLS_A_PAGE: Final = 100
RESULT_ROWS: Final = 200
RESULT_BYTES: Final = 64 * 1024  # of the rows, as JSON
SANDBOX_ARGUMENTS: Final = ("sql", "lql")

# They only read, and read nothing but the service's own log tables.
_ANNOTATIONS: Final = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
_NOTE: Final = "Says what is missing, if not every row of the query is here."


def list_tools(caller: Caller, cursor: object = None) -> Schema:
    """Return one page of the tools that the caller may call, by name, and the cursor of the next page if there is one.

    Raises ProtocolError for a cursor that is not text, and OperationalError.
    """
    endpoints = sorted(visible_endpoints(caller), key=lambda endpoint: endpoint.name)
    first = 0
    if cursor is not None:
        if not isinstance(cursor, str):
            raise ProtocolError(Code.INVALID_PARAMS, "cursor must be the nextCursor of another page.")
        # The name of the page's last tool: what is saved or deleted meanwhile moves no other tool to another page.
        first = bisect_right([endpoint.name for endpoint in endpoints], cursor)
    page = endpoints[first : first + TOOLS_A_PAGE]
    listed: Schema = {"tools": [describe_tool(endpoint, caller) for endpoint in page]}
    return listed | {"nextCursor": page[-1].name} if first + len(page) < len(endpoints) else listed


def describe_tool(endpoint: Endpoint, caller: Caller) -> Schema:
    """Return the tool of an endpoint for this caller."""
    return {
        "name": endpoint.name,
        "description": _description(endpoint),
        "inputSchema": _input_schema(endpoint, caller.bound_arguments),
        "annotations": _ANNOTATIONS,
        "outputSchema": _output_schema(endpoint),
    }


def _description(endpoint: Endpoint) -> str:
    rows = min(endpoint.max_rows, RESULT_ROWS)
    parts = [endpoint.description.strip() or f"Runs the stored query {endpoint.name}.", f"At most {rows} rows."]
    if endpoint.redact_pii:
        parts.append("IP and e-mail addresses in the rows are REDACTED.")
    if endpoint.sandboxing:
        parts.append("Takes a query of your own in sql or lql, to filter, count or join.")
    return " ".join(parts)


# --- Arguments --------------------------------------------------------------------------------------------------------
def _input_schema(endpoint: Endpoint, bound: Mapping[str, str]) -> Schema:
    schema = arguments_schema(each for each in endpoint.parameters_of_version if each.name not in bound)
    if endpoint.sandboxing:
        schema["properties"] |= _sandbox_schemas(endpoint)
    return schema | {"additionalProperties": False}


def _sandbox_schemas(endpoint: Endpoint) -> dict[str, Schema]:
    dialect = DIALECTS.get(endpoint.sandbox_dialect)
    tables = tuple(map(PublishedTable.from_json, endpoint.sandbox_tables))
    sql = (
        f"One SELECT in {dialect.label if dialect else 'PostgreSQL'} of your own, in place of the stored final query. "
        "The other arguments still choose the rows of its tables, which are all that it can read:\n"
        f"{_listed(tables)}"
    )
    default = endpoint.default_sandbox_table or (tables[0].name if len(tables) == 1 else "")
    lql = (
        "In place of sql, a query in LQL over one of these tables: filters that must all match, such as "
        'm.response.status_code:>=500 -m.request.path:~"^/health", columns with s:event_message, '
        "counts with c:count(*) c:group_by(t::hour); m. is metadata, f:name is the table"
        f"{f', {default} if none is named' if default else ''}."
    )
    return {"sql": {"type": "string", "description": sql}, "lql": {"type": "string", "description": lql}}


def _listed(tables: Sequence[PublishedTable]) -> str:
    """Return the tables with their columns, one line for all that have the same."""
    by_columns: dict[str, list[str]] = {}
    for table in tables:
        by_columns.setdefault(_columns(table), []).append(table.name)
    return "\n".join(f"- {', '.join(names)}: {columns}" for columns, names in by_columns.items())


def _columns(table: PublishedTable) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in table.columns)


def unknown_arguments(names: Iterable[str], parameters: Iterable[DeclaredParameter]) -> list[str]:
    """Return the names that are neither parameters nor a sandbox query: those that a tool does not take."""
    known = {parameter.name for parameter in parameters} | set(SANDBOX_ARGUMENTS)
    return sorted(set(names) - known)


# --- Rows -------------------------------------------------------------------------------------------------------------
def _output_schema(endpoint: Endpoint) -> Schema:
    columns = {column["name"]: column["type"] for column in endpoint.result_columns}
    row: Schema = {"type": "object"}
    if endpoint.sandboxing:
        # A sandbox query may give any column any type.
        listed = ", ".join(f"{name} {type_name}" for name, type_name in columns.items())
        row["description"] = f"Columns of the stored query: {listed}. A query of your own has its own columns."
    else:
        row |= {
            "properties": {name: _column_schema(type_name, endpoint) for name, type_name in columns.items()},
            "required": list(columns),
        }
    properties = {"result": {"type": "array", "items": row}, "note": {"type": "string", "description": _NOTE}}
    return {"type": "object", "properties": properties, "required": ["result"]}


def _column_schema(type_name: str, endpoint: Endpoint) -> Schema:
    """Return what every value of a column fulfils, with the type's name; clients refuse results that do not.

    The forms are those of `endpoints.results.encoding`: numbers that are not finite, and infinite times, are text.
    """
    known = column_schema(type_name, endpoint.timestamps_as)
    schema: Schema = {"description": known.get("description", type_name)}
    match known.get("type"):
        case None:
            return schema
        case ["number", *_]:
            return schema | _any_of("number", "string")
        case ["integer", *_] if type_name.startswith("timestamp"):
            return schema | _any_of("integer", "string")
        case [single, *_]:
            return schema | _any_of(single)
    raise AssertionError(known)


def _any_of(*types: str) -> Schema:
    return {"type": [*types, "null"]}
