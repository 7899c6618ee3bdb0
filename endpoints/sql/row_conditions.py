"""Which rows a CTE leaves out by itself: whether its WHERE contains only the tenant and the time window.

PostgreSQL tries conditions of one query level in the order of their cost, a reader's among those of the CTE. One that
fails on a row (a cast, a division, a regular expression) then reveals rows that the CTE leaves out. Two kinds of
conditions cannot be overtaken so: `project = @tenant`, which row security has tried before all others, and a comparison
of the timestamp with what is known before the first row, which costs as little as any condition can.

    select t.id, t.metadata from logs.edge_logs as t
    where t.project = @project and t.timestamp > coalesce(@since, '-infinity') order by t.timestamp desc  ->  True
    … and t.area = @area                                                                                 ->  False

Everything else counts as a condition of its own: joins, calls, subqueries, grouping, limits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import Final

from endpoints.sql.lexemes import Kind, Lexeme, LexicalError, lex

_NAMES: Final = (Kind.WORD, Kind.QUOTED_IDENTIFIER)
# Not `=`: PostgreSQL derives such a condition again from its class of equals, after those of the reader.
_BOUNDS: Final = frozenset({"<", "<=", ">", ">="})
# They cost nothing, unlike now() or a cast, which are computed for each row.
_VALUE_WORDS: Final = frozenset({"coalesce", "greatest", "least", "("})
_ORDER_WORDS: Final = frozenset({"asc", "desc", "nulls", "first", "last"})
_NOT_IN_ITEMS: Final = frozenset({"select", "distinct", "all", "into", "union", "intersect", "except", "from"})


def leaves_out_tenant_and_time_alone(sql: str, *, tenant_parameter: str, earlier: Collection[str] = ()) -> bool:
    """Return whether a CTE's query hides rows of a log table only by its tenant parameter and bounds of the timestamp.

    `earlier` are the CTEs before it: their columns project and timestamp may be anything.
    """
    try:
        words = [lexeme for lexeme in lex(sql) if not lexeme.is_blank]
    except LexicalError:
        return False
    clauses = _clauses(words)
    if clauses is None:
        return False
    items, source, conditions, order = clauses
    return (
        _are_plain_items(items)
        and _is_log_table(source, earlier)
        and all(_is_tenant(one, tenant_parameter) or _is_time_bound(one) for one in _split(conditions, "and"))
        and all(_is_plain_order(one) for one in _split(order, ","))
    )


def order_by_output(sql: str) -> tuple[str, ...]:
    """Return the ORDER BY that a CTE ends with as terms over its result, for a query around it to repeat.

    select t.timestamp, t.id from edge_logs as t order by t.timestamp desc  ->  ('"timestamp" desc',)
    select date_trunc('hour', timestamp) as timestamp … order by t.timestamp  ->  (), as for all that is not understood
    """
    try:
        words = [lexeme for lexeme in lex(sql) if not lexeme.is_blank]
    except LexicalError:
        return ()
    outer = list(_outer(words))
    orders = [
        index
        for index, text in outer
        if text == "order" and [_text(one) for one in words[index + 1 : index + 2]] == ["by"]
    ]
    froms = [index for index, text in outer if text == "from"]
    if not orders or not froms or _text(words[0]) != "select":
        return ()
    shown = {_shown_column(item) for item in _split(words[1 : froms[0]], ",")}
    terms = list(_split(words[orders[-1] + 2 :], ","))
    columns = [_column(term) for term in terms]
    if not all(
        _is_plain_order(term) and ({column, "*"} & shown) for term, (column, _) in zip(terms, columns, strict=True)
    ):
        return ()
    return tuple(
        " ".join(['"' + column.replace('"', '""') + '"', *(_text(word) for word in rest)]) for column, rest in columns
    )


def _shown_column(item: Sequence[Lexeme]) -> str:
    """Return the column that an item shows under its own name, `*` for all columns, "" for everything else."""
    column, rest = _column(item)
    if not rest or [_text(word) for word in rest] == ["as", column]:
        return column
    return ""


def _clauses(words: Sequence[Lexeme]) -> tuple[Sequence[Lexeme], ...] | None:
    """Return the parts after SELECT, FROM, WHERE and ORDER BY, the last two perhaps empty; else None."""
    if not words or _text(words[0]) != "select":
        return None
    starts = {text: index for index, text in reversed(list(_outer(words))) if text in ("from", "where", "order")}
    where, order = starts.get("where", len(words)), starts.get("order", len(words))
    if "from" not in starts or not starts["from"] < min(where, order):
        return None
    if where < len(words) and order < where:
        return None
    behind_by = words[order + 2 :] if order + 1 < len(words) and _text(words[order + 1]) == "by" else None
    if order < len(words) and not behind_by:
        return None
    return (
        words[1 : starts["from"]],
        words[starts["from"] + 1 : min(where, order)],
        words[where + 1 : order],
        (behind_by or ()),
    )


def _are_plain_items(items: Sequence[Lexeme]) -> bool:
    """Return whether each row gives one row: no aggregate, no function of many rows, no subquery."""
    if not items or any(_text(word) in _NOT_IN_ITEMS for word in items):
        return False
    return not any(word.text == "(" and before.kind in _NAMES for before, word in pairwise(items))


def _is_log_table(source: Sequence[Lexeme], earlier: Collection[str]) -> bool:
    # edge_logs, logs.edge_logs, each with `as t` or `t`
    texts = [_text(word) for word in source]
    if texts[:2] == ["logs", "."]:
        source, texts = source[2:], texts[2:]
    elif texts and texts[0] in earlier:
        return False
    if texts[1:2] == ["as"]:
        source = [source[0], *source[2:]]
    return 1 <= len(source) <= 2 and all(word.kind in _NAMES for word in source)


def _is_tenant(condition: Sequence[Lexeme], tenant_parameter: str) -> bool:
    column, rest = _column(condition)
    return column == "project" and [word.text for word in rest] == ["=", f"@{tenant_parameter}"]


def _is_time_bound(condition: Sequence[Lexeme]) -> bool:
    column, rest = _column(condition)
    if column != "timestamp" or len(rest) < 2 or rest[0].text not in _BOUNDS:
        return False
    return all(
        word.kind in (Kind.PARAMETER, Kind.STRING) or word.text in ("(", ")", ",") or _opens_value(word, behind)
        for word, behind in zip(rest[1:], [*rest[2:], None], strict=True)
    )


def _opens_value(word: Lexeme, behind: Lexeme | None) -> bool:
    return word.kind is Kind.WORD and _text(word) in _VALUE_WORDS and behind is not None and behind.text == "("


def _column(condition: Sequence[Lexeme]) -> tuple[str, Sequence[Lexeme]]:
    """Return the column that a condition begins with, and what follows it."""
    if len(condition) > 2 and condition[0].kind in _NAMES and condition[1].text == ".":
        condition = condition[2:]
    return (_text(condition[0]) if condition else ""), condition[1:]


def _is_plain_order(term: Sequence[Lexeme]) -> bool:
    column, rest = _column(term)
    return bool(column) and term[0].kind in _NAMES and all(_text(word) in _ORDER_WORDS for word in rest)


def _split(words: Sequence[Lexeme], separator: str) -> Iterator[Sequence[Lexeme]]:
    start = 0
    for index, text in _outer(words):
        if text == separator:
            yield words[start:index]
            start = index + 1
    if words:
        yield words[start:]


def _outer(words: Sequence[Lexeme]) -> Iterator[tuple[int, str]]:
    """Yield index and text of each lexeme outside all brackets."""
    depth = 0
    for index, word in enumerate(words):
        if word.kind is Kind.PUNCTUATION:
            depth += (word.text in "([") - (word.text in ")]")
        if depth == 0:
            yield index, _text(word)


def _text(word: Lexeme) -> str:
    """Return a lexeme as PostgreSQL compares it: names folded, quoted ones without their quotes."""
    if word.kind is Kind.QUOTED_IDENTIFIER:
        return word.text[1:-1].replace('""', '"')
    return word.text.lower() if word.kind is Kind.WORD else word.text
