"""Replaces `*` by its columns, so that the names of a query's output are known.

select *, count(*) over () from t  ->  select t.id as id, t.timestamp as timestamp, …, count(*) over () as f0_
select * except (metadata)         ->  … without that column
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sqlglot import exp

from endpoints.dialects.bigquery.passes.output_names import output_names
from endpoints.dialects.bigquery.refusals import refusal_of
from endpoints.dialects.bigquery.scopes import Scope, Source

MAX_COLUMNS: Final = 1664  # of a result in PostgreSQL, MaxTupleAttributeNumber in its sources
_WORK_OF_COLUMN: Final = 2  # this pass makes nodes, which are later lowered like those of the text


def expand_stars(select: exp.Select, scope: Scope) -> exp.Select:
    """Return the SELECT without `*` in its list; every item has a name."""
    if not any(item.is_star for item in select.expressions):
        return select
    items: list[exp.Expr] = []
    for item in select.expressions:
        star = item if isinstance(item, exp.Star) else item.this if isinstance(item, exp.Column) else None
        if isinstance(star, exp.Star):
            for column in _columns(item, star, scope):
                scope.work.spend(_WORK_OF_COLUMN)
                items.append(column)
                if len(items) > MAX_COLUMNS:
                    raise refusal_of(item, f"stands for more than {MAX_COLUMNS} columns", construct="*")
        else:
            items.append(item)
    if not items:
        raise refusal_of(select, "stands for no column", construct="*")
    select.set("expressions", items)
    return output_names(select)


def _columns(item: exp.Expr, star: exp.Star, scope: Scope) -> Iterator[exp.Expr]:
    owner = item.args.get("table") if isinstance(item, exp.Column) else None
    if owner is None:
        sources = list(scope.sources)
    else:
        source = scope.source(owner.name)
        if source is None:
            raise refusal_of(item, "is not a table here", construct=owner.name)
        sources = [source]
    left_out = {node.name.casefold() for node in star.args.get("except_") or []}
    replaced = {node.alias.casefold(): node for node in star.args.get("replace") or []}
    if star.args.get("rename"):
        raise refusal_of(item, construct="* RENAME")
    seen: set[str] = set()
    for source in sources:
        for column in _of_source(source):
            name = column.alias.casefold()
            if name in left_out or (name in seen and name in scope.merged):
                continue
            seen.add(name)
            yield replaced.get(name, column)


def _of_source(source: Source) -> Iterator[exp.Alias]:
    if source.columns is None:
        if source.name:
            yield exp.Alias(this=exp.column(exp.to_identifier(source.name)), alias=exp.to_identifier(source.name))
        return
    for output in source.columns.outputs:
        column = exp.column(exp.to_identifier(output.name), table=exp.to_identifier(source.name))
        yield exp.Alias(this=column, alias=exp.to_identifier(output.name))
