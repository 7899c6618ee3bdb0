"""The meaning of each BigQuery construct in PostgreSQL: one module per family, one function per construct."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from endpoints.dialects.bigquery.lowering import Rule
from endpoints.dialects.bigquery.rules import (
    aggregates,
    approximations,
    arithmetic,
    comparisons,
    gathering,
    json_and_arrays,
    matching,
    nulls,
    text_functions,
    time_functions,
    time_parts,
    values,
    window_values,
    windows,
)

RULES: Final[dict[type[exp.Expr], Rule]] = {
    **values.RULES,
    **comparisons.RULES,
    **matching.RULES,
    **arithmetic.RULES,
    **text_functions.RULES,
    **time_functions.RULES,
    **time_parts.RULES,
    **json_and_arrays.RULES,
    **aggregates.RULES,
    **gathering.RULES,
    **approximations.RULES,
    **windows.RULES,
    **window_values.RULES,
    **nulls.RULES,
}
