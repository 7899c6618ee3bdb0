"""The refusal of a translation: the construct, the reason, and the place in the consumer's text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from sqlglot import exp

from googlesql import Refused

NOT_SUPPORTED = "is not part of the BigQuery dialect of this service"


def origin(node: exp.Expr) -> int | None:
    """Return the offset in the consumer's text of the first token of a node, if sqlglot kept its place."""
    own = node._meta.get("start") if node._meta else None
    if own is not None:
        return int(own)
    starts = [int(found._meta["start"]) for found in node.walk() if found._meta and "start" in found._meta]
    return min(starts, default=None)


def refusal_of(
    node: exp.Expr, reason: str = NOT_SUPPORTED, *, construct: str | None = None, similar: Sequence[str] = ()
) -> Refused:
    """Return the refusal of a node, with its name in BigQuery."""
    return Refused(construct or name_of(node), reason, offset=origin(node), similar=similar)


def name_of(node: exp.Expr) -> str:
    """Return the consumer's name for a node: the function as written, or the key word."""
    if isinstance(node, exp.Anonymous):
        return node.name
    written = node._meta.get("bigquery_name") if node._meta else None
    if written:
        return str(written).upper()
    if isinstance(node, exp.Func):
        return node.sql_name()
    return node.key.upper()


def similar_names(name: str, known: Iterable[str]) -> list[str]:
    """Return the names near to `name`, nearest first."""
    return get_close_matches(name, sorted(known), n=3)
