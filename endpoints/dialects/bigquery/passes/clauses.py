"""Refuses unsupported clauses of a statement, by name, before anything else."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from endpoints.dialects.bigquery.refusals import refusal_of

_SELECT_CLAUSES: Final = frozenset(
    {"expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset", "distinct", "with_"}
)
_SET_CLAUSES: Final = frozenset({"this", "expression", "distinct", "order", "limit", "offset", "with_", "by_name"})
_NAMES: Final = {
    "laterals": "LATERAL",
    "windows": "WINDOW",
    "sample": "TABLESAMPLE",
    "pivots": "PIVOT",
    "kind": "AS STRUCT",
}


def refuse_other_clauses(node: exp.Expr) -> exp.Expr:
    """Return a query with only supported clauses. Raises Refusal for any other."""
    allowed = _SELECT_CLAUSES if isinstance(node, exp.Select) else _SET_CLAUSES
    for name, value in node.args.items():
        if value and name not in allowed:
            construct = _NAMES.get(name, name.strip("_").upper())
            raise refusal_of(value if isinstance(value, exp.Expr) else node, construct=construct)
    distinct = node.args.get("distinct")
    if isinstance(distinct, exp.Distinct) and distinct.args.get("on") is not None:
        raise refusal_of(distinct, construct="DISTINCT ON")
    if node.args.get("by_name"):
        raise refusal_of(node, construct="BY NAME")
    return node
