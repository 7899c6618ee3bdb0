"""Gives every item of a select list the name that its column has in BigQuery.

select t.id, count(*), m.request.path  ->  select t.id as id, count(*) as f0_, m.request.path as path
"""

from __future__ import annotations

from sqlglot import exp

from endpoints.dialects.bigquery.scopes import parts_of


def output_names(select: exp.Select) -> exp.Select:
    """Return the SELECT with AS after every item except `*`."""
    unnamed = 0
    items: list[exp.Expr] = []
    for item in select.expressions:
        if isinstance(item, exp.Alias) or _is_star(item):
            items.append(item)
            continue
        name = _name(item)
        if name is None:
            name = exp.to_identifier(f"f{unnamed}_")
            unnamed += 1
        items.append(exp.Alias(this=item, alias=name))
    select.set("expressions", items)
    return select


def _is_star(item: exp.Expr) -> bool:
    return isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star))


def _name(item: exp.Expr) -> exp.Identifier | None:
    """Return the last name of a path; a path that ends in a subscript has none."""
    if isinstance(item, exp.Paren):
        return _name(item.this)
    parts = parts_of(item)
    if parts is None:
        return exp.to_identifier(item.expression.name) if isinstance(item, exp.Dot) else None
    identifiers, steps = parts
    if not steps:
        return exp.to_identifier(identifiers[-1].name)
    return exp.to_identifier(steps[-1]) if isinstance(steps[-1], str) else None
