"""The meaning of each BigQuery construct in PostgreSQL: one module per family, one function per construct."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from googlesql.lowering import Rule
from googlesql.rules import (
    aggregates,
    approximations,
    arithmetic,
    comparisons,
    conditionals,
    gathering,
    generated_arrays,
    json_and_arrays,
    json_functions,
    matching,
    nulls,
    numbers,
    pattern_functions,
    text_building,
    text_formats,
    text_functions,
    time_building,
    time_differences,
    time_formats,
    time_functions,
    time_parsing,
    time_parts,
    values,
    window_values,
    windows,
)

RULES: Final[dict[type[exp.Expr], Rule]] = {
    **values.RULES,
    **comparisons.RULES,
    **conditionals.RULES,
    **matching.RULES,
    **arithmetic.RULES,
    **numbers.RULES,
    **text_functions.RULES,
    **text_building.RULES,
    **text_formats.RULES,
    **pattern_functions.RULES,
    **time_functions.RULES,
    **time_differences.RULES,
    **time_parts.RULES,
    **time_formats.RULES,
    **time_parsing.RULES,
    **time_building.RULES,
    **json_and_arrays.RULES,
    **generated_arrays.RULES,
    **json_functions.RULES,
    **aggregates.RULES,
    **gathering.RULES,
    **approximations.RULES,
    **windows.RULES,
    **window_values.RULES,
    **nulls.RULES,
}
