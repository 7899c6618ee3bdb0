"""QUALIFY: a condition over window functions, which PostgreSQL computes only after WHERE and HAVING.

select id, x … where … qualify row_number() over (…) = 1 order by y
  ->  select c1 as id, c2 as x from (select id as c1, x as c2, y as c3, row_number() over (…) = 1 as c4 … where …)
      where c4 order by c3
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sqlglot import exp

from googlesql.kinds import Kind
from googlesql.percentiles import with_percentiles
from googlesql.refusals import name_of, refusal_of
from googlesql.tree import Constant, Expression, FromItem, Name, Ordered, Output, Select

_ALIAS: Final = "qualified"
_WITHOUT_WINDOWS: Final = {"where": "WHERE", "group": "GROUP BY", "having": "HAVING"}


def refuse_misplaced_windows(select: exp.Select) -> None:
    """Raise Refused for a window function in WHERE, GROUP BY or HAVING, also behind a name of the select list."""
    for name, words in _WITHOUT_WINDOWS.items():
        clause = select.args.get(name)
        nodes = clause.walk(prune=lambda inner: isinstance(inner, exp.Query)) if clause is not None else ()
        for node in nodes:
            if isinstance(node, exp.Window):
                raise refusal_of(node, f"cannot be used in {words}; write QUALIFY", construct=name_of(node.this))


def require_window(select: exp.Select) -> None:
    """Raise Refused if a SELECT has QUALIFY and no window function in it or in its select list."""
    qualify = select.args.get("qualify")
    if qualify is not None and not any(node.find(exp.Window) for node in (qualify, *select.expressions)):
        reason = "needs a window function, in its condition or in the select list; otherwise write WHERE or HAVING"
        raise refusal_of(qualify, reason, construct="QUALIFY")


def qualified(select: Select, condition: Expression) -> Select:
    """Return the rows of a SELECT for which the condition is true; DISTINCT, ORDER BY and LIMIT come after it."""
    computed: list[Expression] = list(select.items)
    order: list[Ordered] = []
    for item in select.order:
        if isinstance(item.expression, Constant):  # the number of an item
            order.append(item)
        else:
            computed.append(item.expression)
            order.append(replace(item, expression=_column(len(computed), item.expression.kind)))
    computed.append(condition)
    outputs = tuple(Output(f"c{number}", item.kind) for number, item in enumerate(computed, 1))
    inner = replace(select, items=tuple(computed), outputs=outputs, distinct=False, order=(), limit=None, offset=None)
    return Select(
        items=tuple(_column(number, item.kind) for number, item in enumerate(select.items, 1)),
        outputs=select.outputs,
        distinct=select.distinct,
        from_items=(FromItem(query=with_percentiles(inner), alias=_ALIAS),),
        where=_column(len(computed), Kind.BOOLEAN),
        order=tuple(order),
        limit=select.limit,
        offset=select.offset,
    )


def _column(number: int, kind: Kind) -> Name:
    return Name(kind=kind, owner=_ALIAS, column=f"c{number}")
