"""Percentiles with OVER, in two steps: PostgreSQL numbers the rows of a partition, and then chooses by number.

select id, percentile_disc(x, 0.5) over (partition by g) as p from t
  ->  select c1 as id, (array_agg(c2) filter (where c4 = greatest(ceil(0.5 * c5), 1)) over (partition by c3))[1] as p
      from (select id as c1, x as c2, g as c3, row_number() over (partition by g order by x) as c4,
                   count(x) over (partition by g) as c5 from t)

An array of all values would do it in one step, but is read for every row: 20,000 rows took ten seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from decimal import Decimal
from typing import Any, Final

from googlesql import Refused
from googlesql.kinds import Kind
from googlesql.tree import (
    Call,
    Constant,
    Expression,
    FromItem,
    Name,
    Ordered,
    Output,
    Over,
    Percentile,
    Select,
    Subscript,
    call,
    cast,
    infix,
    integer,
)

_ALIAS: Final = "numbered"


def with_percentiles(select: Select) -> Select:
    """Return a SELECT without `Percentile` in its items and its ORDER BY. Raises Refused."""
    if not any(_percentiles((*select.items, *select.order))):
        return select
    columns = _Columns()
    items = tuple(columns.outer(item) for item in select.items)
    order = tuple(replace(item, expression=columns.outer(item.expression)) for item in select.order)
    outputs = tuple(Output(f"c{number}", column.kind) for number, column in enumerate(columns.inner, 1))
    inner = replace(
        select, items=tuple(columns.inner), outputs=outputs, distinct=False, order=(), limit=None, offset=None
    )
    return Select(
        items=items,
        outputs=select.outputs,
        distinct=select.distinct,
        from_items=(FromItem(query=inner, alias=_ALIAS),),
        order=order,
        limit=select.limit,
        offset=select.offset,
    )


def _percentiles(part: Any) -> Iterator[Percentile]:
    if isinstance(part, Percentile):
        yield part
    elif isinstance(part, Expression | Ordered):
        for field in fields(part):
            yield from _percentiles(getattr(part, field.name))
    elif isinstance(part, tuple):
        for inner in part:
            yield from _percentiles(inner)


class _Columns:
    """The columns that the inner SELECT computes for the outer one."""

    def __init__(self) -> None:
        self.inner: list[Expression] = []

    def add(self, value: Expression) -> Name:
        """Return the column of the outer SELECT with this value."""
        if value not in self.inner:
            self.inner.append(value)
        return Name(kind=value.kind, owner=_ALIAS, column=f"c{self.inner.index(value) + 1}")

    def outer(self, part: Any) -> Any:
        """Return an expression for the outer SELECT: everything without a percentile is a column of the inner one."""
        if isinstance(part, Percentile):
            return self._chosen(part)
        if isinstance(part, tuple):
            return tuple(self.outer(inner) for inner in part)
        if not isinstance(part, Expression) or isinstance(part, Constant):
            return part
        if not any(_percentiles(part)):
            return self.add(part)
        if isinstance(part, Over) or (isinstance(part, Call) and (part.order or part.condition is not None)):
            offset = max(next(_percentiles(part)).origin, 0)
            raise Refused("a percentile with OVER", "cannot be within another function with OVER", offset=offset)
        return replace(part, **{field.name: self.outer(getattr(part, field.name)) for field in fields(part)})

    def _chosen(self, node: Percentile) -> Expression:
        partition = tuple(self.add(key) for key in node.partition)
        first = Ordered(expression=node.value, nulls="FIRST" if node.respect_nulls else "")
        ranked = Call(kind=Kind.INTEGER, name="row_number")
        number = self.add(Over(kind=Kind.INTEGER, call=ranked, partition=node.partition, order=(first,)))
        arguments = () if node.respect_nulls else (node.value,)
        counted = Call(kind=Kind.INTEGER, name="count", star=node.respect_nulls, arguments=arguments)
        count = self.add(Over(kind=Kind.INTEGER, call=counted, partition=node.partition))
        value = self.add(node.value)

        def at(position: Expression) -> Expression:
            chosen = infix(number, "=", position, kind=Kind.BOOLEAN)
            found = Call(kind=Kind.OTHER, name="array_agg", arguments=(value,), condition=chosen)
            over = Over(kind=Kind.OTHER, call=found, partition=partition)
            return Subscript(kind=node.kind, operand=over, index="1")

        if node.continuous:
            return _continuous(at, count, node.fraction)
        # The first value with at least this fraction of the rows at or before it. BigQuery's fraction is a double:
        # 0.9 is a little more than 9 of 10 rows, so the tenth.
        rows = infix(_number(str(Decimal(node.fraction))), "*", count, kind=Kind.NUMBER)
        return at(call("GREATEST", call("ceil", rows, kind=Kind.NUMBER), integer(1), kind=Kind.NUMBER))


def _continuous(at: Any, count: Expression, fraction: float) -> Expression:
    # position p of n values, from 0:  lower * (1 - p % 1) + upper * (p % 1); if one is NULL, the other
    position = infix(_number(repr(fraction)), "*", infix(count, "-", integer(1), kind=Kind.INTEGER), kind=Kind.NUMBER)
    after = infix(position, "%", integer(1), kind=Kind.NUMBER)
    before = infix(integer(1), "-", after, kind=Kind.NUMBER)
    lower, upper = (
        at(infix(call(name, position, kind=Kind.NUMBER), "+", integer(1), kind=Kind.NUMBER))
        for name in ("floor", "ceil")
    )
    weighted = [
        infix(value, "*", cast(weight, "double precision", Kind.FLOAT), kind=Kind.FLOAT)
        for value, weight in ((lower, before), (upper, after))
    ]
    return call("COALESCE", infix(weighted[0], "+", weighted[1], kind=Kind.FLOAT), upper, kind=Kind.FLOAT)


def _number(text: str) -> Expression:
    return Constant(kind=Kind.NUMBER, sql=text)
