"""Names as people write them: the same name in other letters."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp


def one_spelling(select: exp.Select) -> exp.Select:
    """Return a grouped SELECT in which every name has one spelling, that of its first use; others are unchanged.

    PostgreSQL must see that the field of the select list is the one that the rows are grouped by.
    """
    # select r.STATUS_CODE … group by r.status_code  ->  select r.STATUS_CODE … group by r.STATUS_CODE
    group, distinct = select.args.get("group"), select.args.get("distinct")
    if group is None and distinct is None:
        return select
    spellings: dict[str, str] = {}
    clauses = [*select.expressions, group, select.args.get("having"), select.args.get("order")]
    for clause in clauses:
        for identifier in _identifiers(clause) if clause is not None else ():
            spelling = spellings.setdefault(identifier.name.casefold(), identifier.name)
            if spelling != identifier.name:
                identifier.set("this", spelling)
    return select


def _identifiers(clause: exp.Expr) -> Iterator[exp.Identifier]:
    """Yield the names of columns and fields, without those of queries inside."""
    for node in clause.walk(prune=lambda node: isinstance(node, exp.Query)):
        parts = node.parts if isinstance(node, exp.Column) else [node.expression] if isinstance(node, exp.Dot) else []
        yield from (part for part in parts if isinstance(part, exp.Identifier))
