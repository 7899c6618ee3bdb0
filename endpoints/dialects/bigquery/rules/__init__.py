"""The meaning of each BigQuery construct in PostgreSQL: one module per family, one function per construct."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from endpoints.dialects.bigquery.lowering import Rule
from endpoints.dialects.bigquery.rules import (
    aggregates,
    arithmetic,
    comparisons,
    json_and_arrays,
    text_functions,
    time_functions,
    time_parts,
    values,
    windows,
)

RULES: Final[dict[type[exp.Expr], Rule]] = {
    **values.RULES,
    **comparisons.RULES,
    **arithmetic.RULES,
    **text_functions.RULES,
    **time_functions.RULES,
    **time_parts.RULES,
    **json_and_arrays.RULES,
    **aggregates.RULES,
    **windows.RULES,
}
