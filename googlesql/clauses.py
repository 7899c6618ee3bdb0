"""Refuses clauses that no rule reads, before anything else: silently left out, one would change the rows.

sqlglot reads the clauses of every dialect, and hangs each on the node before it: ``(select …) pivot (…)`` is a subquery
with `pivots`. So this is a list of what is translated, not of what is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sqlglot import exp

from googlesql import Refused
from googlesql.refusals import name_of, origin, refusal_of


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# What the translation reads of each node; other nodes are expressions, read by their rules.
_SET_OPERATION: Final = _words("this expression distinct order limit offset with_")
TRANSLATED: Final[Mapping[type[exp.Expr], frozenset[str]]] = {
    exp.Select: _words(
        "kind expressions from_ joins where group having qualify windows order limit offset distinct with_"
    ),
    exp.Union: _SET_OPERATION,
    exp.Intersect: _SET_OPERATION,
    exp.Except: _SET_OPERATION,
    exp.Subquery: _words("this alias joins order limit offset with_"),
    exp.With: _words("expressions recursive"),
    exp.CTE: _words("this alias"),
    exp.From: _words("this"),
    exp.Table: _words("this alias joins db catalog"),
    exp.TableAlias: _words("this columns"),
    exp.Join: _words("this on side kind using method"),
    # explode_array only says that the elements are structs.
    exp.Unnest: _words("expressions alias offset explode_array"),
    exp.Where: _words("this"),
    exp.Group: _words("expressions all"),
    exp.Rollup: _words("expressions"),
    exp.Cube: _words("expressions"),
    exp.GroupingSets: _words("expressions"),
    exp.Having: _words("this"),
    exp.Qualify: _words("this"),
    exp.Window: _words("this partition_by order spec alias over"),
    exp.WindowSpec: _words("kind start start_side end end_side"),
    exp.Order: _words("this expressions"),
    exp.Ordered: _words("this desc nulls_first"),
    exp.Limit: _words("this expression offset"),
    exp.Offset: _words("this expression"),
    exp.Distinct: _words("expressions"),
    exp.Star: _words("except_ replace"),
    exp.Alias: _words("this alias"),
    exp.Between: _words("this low high"),
    exp.In: _words("this expressions query unnest field"),
    exp.Max: _words("this"),
    exp.Min: _words("this"),
    exp.ArgMax: _words("this expression"),
    exp.ArgMin: _words("this expression"),
    exp.ArrayAgg: _words("this"),
    exp.GroupConcat: _words("this separator"),
    exp.NthValue: _words("this offset"),
    exp.ApproxTopK: _words("this expression"),
}
# Consumers' words for what sqlglot names in its own way.
_NAMES: Final = {
    "by_name": "BY NAME",
    "cluster": "CLUSTER BY",
    "connect": "CONNECT BY",
    "distribute": "DISTRIBUTE BY",
    "exclude": "EXCLUDE",
    "group": "GROUP BY",
    "laterals": "LATERAL",
    "limit_options": "PERCENT or WITH TIES after LIMIT",
    "locks": "FOR UPDATE",
    "match": "MATCH_RECOGNIZE",
    "materialized": "MATERIALIZED",
    "on": "DISTINCT ON",
    "rename": "* RENAME",
    "sample": "TABLESAMPLE",
    "sort": "SORT BY",
    "system_time": "FOR SYSTEM_TIME",
    "version": "FOR SYSTEM_TIME",
}
_INSTEAD: Final = {
    "pivots": "is not translated; write one countif(…) or sum(if(…)) for each column",
    "sample": "is not translated; rows are few enough, or choose them with WHERE",
    "version": "is not translated; rows are those of now",
}


def refuse_unread_clauses(tree: exp.Expr) -> exp.Expr:
    """Return the tree of a text, in which every clause is translated. Raises Refused for the first other one."""
    for node in tree.walk():
        read = TRANSLATED.get(type(node))
        if read is None:
            continue
        for name, value in node.args.items():
            if value and name not in read:
                raise _refusal(node, name, value)
    return tree


def _refusal(node: exp.Expr, name: str, value: Any) -> Refused:
    clause = value[0] if isinstance(value, list) else value
    place = clause if isinstance(clause, exp.Expr) else node
    while origin(place) is None and place.parent is not None:
        place = place.parent
    construct = _construct(node, name, clause)
    reason = _INSTEAD.get(name)
    return refusal_of(place, reason, construct=construct) if reason else refusal_of(place, construct=construct)


def _construct(node: exp.Expr, name: str, clause: Any) -> str:
    if isinstance(clause, exp.Pivot):
        return "UNPIVOT" if clause.args.get("unpivot") else "PIVOT"
    if name == "kind" and isinstance(node, exp.Select):
        return f"AS {clause}"
    if isinstance(node, exp.Func):
        return f"an argument of {name_of(node)}"
    return _NAMES.get(name, name.strip("_").upper())
