"""A table with every kind of column that LQL compares, on the real server, and a query's rows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import orjson
import psycopg

from endpoints.lql.lowering import LQLTable, lower
from endpoints.lql.rules import Rules
from endpoints.sql.sandbox import SandboxTable, check_sandbox_query
from tests.endpoints.lql.evaluation import MISSING, Evaluation, Row, json_text

NOW = datetime(2024, 5, 15, 12, 30, 45, 500_000)  # noqa: DTZ001 - UTC, as every datetime here
TYPES = {
    "id": "text",
    "timestamp": "timestamp with time zone",
    "event_message": "text",
    "metadata": "jsonb",
    "extra": "jsonb",
    "total": "integer",
    "price": "numeric",
    "ratio": "double precision",
    "small": "real",
    "ok": "boolean",
    "day": "date",
    "local": "timestamp without time zone",
    "owner": "uuid",
    "note": "character varying",
    "tags": "text[]",
    "counts": "integer[]",
    "times": "timestamp with time zone[]",
}


@dataclass(slots=True)
class LiveTable:
    """The table, and the other opinion on what a query means there."""

    connection: psycopg.Connection[Any]
    table: LQLTable
    evaluation: Evaluation
    rows: Sequence[Row] = ()

    def fill(self, rows: Sequence[Row]) -> None:
        """Make these all the rows."""
        if rows is self.rows:
            return
        self.rows = rows
        self.connection.execute("TRUNCATE lql_rows")
        marks = ", ".join(["%s"] * len(TYPES))
        with self.connection.cursor() as cursor:
            values = [[_stored(row[name], type_) for name, type_ in TYPES.items()] for row in rows]
            cursor.executemany(f"INSERT INTO lql_rows VALUES ({marks})", values)

    def fetch(self, rules: Rules) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Return the columns' names and the rows; the sandbox's checker has to take the SQL as it is."""
        lowered = lower(rules, self.table, now=NOW.replace(tzinfo=UTC))
        tables = [SandboxTable(self.table.name, tuple(TYPES))]
        checked = check_sandbox_query(lowered.sql, tables=tables, parameters=lowered.parameters)
        statement = checked.statement(lowered.arguments, max_rows=10_000)
        with psycopg.RawCursor(self.connection) as cursor:
            cursor.execute(statement.sql, statement.arguments)
            return [column.name for column in cursor.description or ()], cursor.fetchall()

    def ids(self, rules: Rules) -> list[str]:
        """Return the ids of the rows, in order of their names."""
        columns, rows = self.fetch(rules)
        return sorted(row[columns.index("id")] for row in rows)


def _stored(value: Any, type_: str) -> Any:
    if value is MISSING:
        return None
    if type_ == "jsonb":
        return json(value)
    if isinstance(value, datetime) and "with time zone" in type_:
        return value.replace(tzinfo=UTC)
    if isinstance(value, list) and type_.startswith("timestamp"):
        return [element and element.replace(tzinfo=UTC) for element in value]
    return value


def json(value: Any) -> str:
    """Return JSON text in which a number stands digit by digit as its Decimal does."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json(name)}: {json(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(json, value)) + "]"
    return json_text(value) if isinstance(value, Decimal) else orjson.dumps(value).decode()


def make_row(number: int, **columns: Any) -> Row:
    """Return a row; JSON's integers are made Decimal, and what is not given is NULL."""
    row: dict[str, Any] = dict.fromkeys(TYPES) | {"metadata": MISSING, "extra": MISSING}
    row |= {"id": f"row-{number:04}", "timestamp": NOW, "event_message": ""} | columns
    return row | {name: numbers(row[name]) for name in ("metadata", "extra")}


def numbers(value: Any) -> Any:
    """Return a JSON value with every number as Decimal."""
    if isinstance(value, dict):
        return {name: numbers(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [numbers(inner) for inner in value]
    return Decimal(str(value)) if isinstance(value, int | float) and not isinstance(value, bool) else value
