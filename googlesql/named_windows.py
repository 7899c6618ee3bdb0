"""WINDOW: every named window is written out where it is used; PostgreSQL sorts once for windows that are the same.

select sum(x) over (w order by id) … window w as (partition by g)
  ->  select sum(x) over (partition by g order by id) …
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sqlglot import exp

from googlesql.refusals import refusal_of
from googlesql.scopes import Scope

_PARTS: Final = {"partition_by": "PARTITION BY", "order": "ORDER BY", "spec": "the window frame"}
_CLAUSES: Final = ("having", "qualify", "order")


def named_windows(select: exp.Select, scope: Scope) -> exp.Select:
    """Return the SELECT without WINDOW and names of windows. Raises Refused for an unknown name, or one used twice."""
    defined: dict[str, exp.Window] = {}
    for window in select.args.get("windows") or []:
        name = window.this.name
        if name.casefold() in defined:
            raise refusal_of(window, "is defined twice", construct=name)
        _complete(window, defined, scope)
        defined[name.casefold()] = window
    for window in list(_used(select)):
        _complete(window, defined, scope)
    select.set("windows", None)
    return select


def _used(select: exp.Select) -> Iterator[exp.Window]:
    clauses = [select.args[name] for name in _CLAUSES if select.args.get(name) is not None]
    for clause in (*select.expressions, *clauses):
        for node in clause.walk(prune=lambda inner: isinstance(inner, exp.Query)):
            if isinstance(node, exp.Window):
                yield node


def _complete(window: exp.Window, defined: dict[str, exp.Window], scope: Scope) -> None:
    """Give a window everything of the named window that it begins with."""
    name = window.args.get("alias")
    if name is None:
        return
    named = defined.get(name.name.casefold())
    if named is None:
        raise refusal_of(name, "is not a window of this SELECT", construct=name.name)
    if window.args.get("partition_by"):
        raise refusal_of(name, "cannot be used together with PARTITION BY", construct=name.name)
    for part, words in _PARTS.items():
        inherited = named.args.get(part)
        if not inherited:
            continue
        if window.args.get(part):
            raise refusal_of(name, f"already has {words}", construct=name.name)
        nodes = inherited if isinstance(inherited, list) else [inherited]
        scope.work.spend(sum(1 for node in nodes for _ in node.walk()))
        copies = [node.copy() for node in nodes]
        window.set(part, copies if isinstance(inherited, list) else copies[0])
    window.set("alias", None)
