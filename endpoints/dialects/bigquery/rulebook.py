"""The rule for each construct, from all families together."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from endpoints.dialects.bigquery.lowering import Rule
from endpoints.dialects.bigquery.rules import (
    aggregates,
    arithmetic,
    arrays,
    casts,
    comparisons,
    conditionals,
    json_functions,
    names,
    pattern_functions,
    text_functions,
    time_functions,
    time_parts,
    windows,
)

RULES: Final[dict[type[exp.Expr], Rule]] = {
    **names.RULES,
    **comparisons.RULES,
    **conditionals.RULES,
    **arithmetic.RULES,
    **casts.RULES,
    **text_functions.RULES,
    **pattern_functions.RULES,
    **time_functions.RULES,
    **time_parts.RULES,
    **json_functions.RULES,
    **arrays.RULES,
    **aggregates.RULES,
    **windows.RULES,
}
