"""One page of a stored query: its rows after those of the page before, in the order of pages, and no more than asked.

    with t as (…) select id, timestamp from logs.edge_logs where project = @project order by timestamp desc limit 100

becomes, for `timestamp desc, id desc` after a row,

    with t as (…)
    SELECT result.*, CAST(result."timestamp" AS text), CAST(result."id" AS text) FROM (
    select id, timestamp from logs.edge_logs where project = ($1::text)
    ) AS result
    WHERE (result."timestamp" <= $2 AND (result."timestamp" < $2 OR (result."timestamp" = $2 AND result."id" < $3)))
    ORDER BY result."timestamp" DESC NULLS FIRST, result."id" DESC NULLS FIRST LIMIT $4

The outermost ORDER BY and LIMIT of the stored query give way to those of the page, and its WITH list goes in front:
PostgreSQL makes one query of a subselect that has none of the three, so the condition reaches the index. The bound of
the first column stands by itself, because neither an index nor the choice of partitions uses a comparison inside OR.

PostgreSQL takes the types of the bound texts from the columns that they are compared with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from endpoints.results.outcomes import BoundValue, Statement
from endpoints.sql.coercion import ParameterType
from endpoints.sql.composition import COMPILED_QUERIES_KEPT, placeholder, replace_parameters, single_query
from endpoints.sql.lexemes import Kind, Lexeme
from endpoints.sql.page_orders import PageKey
from endpoints.sql.parameters import DeclaredParameter

KeyValues = tuple[str | None, ...]  # of one row, as PostgreSQL's text, in the order of the keys

_BODIES: Final = frozenset({"select", "values", "table"})
_WHOLE_LIMITS: Final = frozenset({"all", "null"})
_WHOLE_NUMBERS: Final = frozenset({"int", "integer", "bigint", "smallint", "int2", "int4", "int8"})
_TAIL_WORDS: Final = frozenset({"limit", "offset", "fetch", "for"})


class PageQueryError(ValueError):
    """A stored query that has no pages; `position` is the offset in it."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.message = message
        self.position = position


@dataclass(frozen=True, slots=True)
class LiftedQuery:
    """A stored query without its outermost ORDER BY and LIMIT; `with_list` is "" without one."""

    with_list: str
    body: str


@dataclass(frozen=True, slots=True)
class PageQuery:
    """The SQL of a page; it binds the parameters, then the values of the last row that are not NULL, then the limit."""

    sql: str
    parameter_names: tuple[str, ...]

    def statement(self, arguments: Mapping[str, BoundValue], after: KeyValues | None, *, limit: int) -> Statement:
        """Return the statement for these arguments and the last row of the page before, which must fit the query."""
        bound = [arguments[name] for name in self.parameter_names]
        return Statement(self.sql, (*bound, *(value for value in after or () if value is not None), str(limit)))


def compile_page(
    sql: str, parameters: Sequence[DeclaredParameter], keys: tuple[PageKey, ...], after: KeyValues | None
) -> PageQuery:
    """Return the query of the page after a row with these values, or of the first page; the last ones are remembered.

    Its result has one more column for each key: the value as text. Raises PageQueryError, and CompositionError if
    the SQL is not exactly one query.
    """
    types = tuple((parameter.name, parameter.type) for parameter in parameters)
    return _compiled(sql, types, keys, None if after is None else tuple(value is None for value in after))


@lru_cache(maxsize=COMPILED_QUERIES_KEPT)
def _compiled(
    sql: str,
    types: tuple[tuple[str, ParameterType], ...],
    keys: tuple[PageKey, ...],
    nulls: tuple[bool, ...] | None,
) -> PageQuery:
    lifted = lift_order_and_limit(sql)
    type_of = dict(types)
    numbers: dict[str, int] = {}

    def bound(text: str) -> str:
        return replace_parameters(text, lambda name: placeholder(name, type_of, numbers)) if text else ""

    with_list, body = bound(lifted.with_list), bound(lifted.body)
    number = len(numbers)
    marks: list[str] = []
    for is_null in nulls or ():
        number += not is_null
        marks.append("" if is_null else f"${number}")
    texts = "".join(f", CAST({_column(key)} AS text)" for key in keys)
    lines = [
        with_list,
        f"{_SELECT_RESULT}{texts} FROM (",
        body,
        f") AS {_RESULT}",
        _where(keys, marks),
        f"ORDER BY {', '.join(map(_order, keys))} LIMIT ${number + 1}",
    ]
    # Lines: the break after the body, or the WITH list, ends a "--" comment in it.
    return PageQuery("\n".join(filter(None, lines)), tuple(numbers))


# --- Conditions -------------------------------------------------------------------------------------------------------
_RESULT: Final = "result"
_SELECT_RESULT: Final = f"SELECT {_RESULT}.*"


def _column(key: PageKey) -> str:
    return f'{_RESULT}."' + key.column.replace('"', '""') + '"'


def _order(key: PageKey) -> str:
    return f"{_column(key)} {'DESC' if key.descending else 'ASC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}"


def _where(keys: Sequence[PageKey], marks: Sequence[str]) -> str:
    conditions = [f"{_column(key)} IS NOT NULL" for key in keys if key.not_null]
    if marks:
        conditions.append(rows_after(keys, marks))
    return f"WHERE {' AND '.join(conditions)}" if conditions else ""


def rows_after(keys: Sequence[PageKey], marks: Sequence[str]) -> str:
    """Return the condition for the rows after one whose values have these placeholders; "" stands for NULL."""
    condition = ""
    for key, mark in zip(reversed(keys), reversed(marks), strict=True):
        condition = _after_null(key, condition) if not mark else _after_value(key, mark, condition)
    return condition


def _after_value(key: PageKey, mark: str, among_equals: str) -> str:
    column, beyond = _column(key), "<" if key.descending else ">"
    after = f"{column} {beyond} {mark}"
    nulls = "" if key.nulls_first or key.not_null else f" OR {column} IS NULL"
    if not among_equals:
        return f"({after}{nulls})"
    return f"(({column} {beyond}= {mark}{nulls}) AND ({after}{nulls} OR ({column} = {mark} AND {among_equals})))"


def _after_null(key: PageKey, among_equals: str) -> str:
    column = _column(key)
    equals = f"({column} IS NULL AND {among_equals})" if among_equals else "false"
    return f"({column} IS NOT NULL OR {equals})" if key.nulls_first else equals


# --- Lifting ----------------------------------------------------------------------------------------------------------
@lru_cache(maxsize=COMPILED_QUERIES_KEPT)
def lift_order_and_limit(sql: str) -> LiftedQuery:
    """Return the stored query without its outermost ORDER BY and LIMIT.

    The ORDER BY of a DISTINCT ON stays, because it chooses the rows. Raises PageQueryError for an OFFSET and for a
    LIMIT that is not a number, because pages cannot keep what they mean, and CompositionError.
    """
    query = [lexeme for lexeme in single_query(sql) if not lexeme.is_blank]
    outer = _outer_words(query)
    first = _first_of_body(query, outer)
    tail = {
        word: index for index, word in reversed(list(outer.items())) if index > first and _begins_tail(query, index)
    }
    limit = min((index for word, index in tail.items() if word != "order"), default=len(query))
    _check_limit(query[limit:])
    chooses_rows = [lexeme.text.lower() for lexeme in query[first : first + 3]] == ["select", "distinct", "on"]
    end = limit if chooses_rows else min(tail.get("order", limit), limit)
    start = query[first].start
    return LiftedQuery(sql[query[0].start : start], sql[start : query[end - 1].end])


@lru_cache(maxsize=COMPILED_QUERIES_KEPT)
def own_limit(sql: str) -> int | str | None:
    """Return the outermost LIMIT of a stored query: a number, or the name of the parameter that is the number.

    None without one, and for every other expression: what it is, only PostgreSQL knows. Raises CompositionError.
    """
    # … limit 100, … offset 5 limit @n::int, … fetch first 100 rows only  ->  100, "n", 100
    query = [lexeme for lexeme in single_query(sql) if not lexeme.is_blank]
    outer = _outer_words(query)
    try:
        first = _first_of_body(query, outer)
    except PageQueryError:
        return None
    tails = [index for index, word in outer.items() if index > first and word in _TAIL_WORDS]
    starts = [index for index in tails if _begins_tail(query, index)]
    for start in starts:
        end = min((index for index in starts if index > start), default=len(query))
        clause = query[start + 1 : end]
        match query[start].text.lower():
            case "limit":
                return _number_of(clause)
            case "fetch" if clause[:1] and clause[0].text.lower() in ("first", "next"):
                return _number_of(clause[1:2])
    return None


def _number_of(clause: Sequence[Lexeme]) -> int | str | None:
    """Return the number or the parameter's name that a LIMIT consists of, perhaps with brackets and a cast."""
    while len(clause) > 1 and clause[0].text == "(" and clause[-1].text == ")":
        clause = clause[1:-1]
    if len(clause) == 3 and clause[1].text == "::" and clause[2].text.lower() in _WHOLE_NUMBERS:
        clause = clause[:1]
    if len(clause) != 1:
        return None
    (one,) = clause
    if one.kind is Kind.PARAMETER:
        return one.text[1:]
    return int(one.text) if one.kind is Kind.NUMBER and one.text.isdecimal() else None


def _outer_words(query: Sequence[Lexeme]) -> dict[int, str]:
    """Return the words outside all brackets, and each outermost opening bracket, by index."""
    depth = 0
    words: dict[int, str] = {}
    for index, lexeme in enumerate(query):
        if lexeme.kind is Kind.PUNCTUATION:
            depth -= lexeme.text in ")]"
            if depth == 0:
                words[index] = lexeme.text
            depth += lexeme.text in "(["
        elif depth == 0 and lexeme.kind is Kind.WORD:
            words[index] = lexeme.text.lower()
    return words


def _first_of_body(query: Sequence[Lexeme], outer: Mapping[int, str]) -> int:
    """Return the index of what follows the WITH list."""
    if outer.get(0) != "with":
        return 0
    for index, word in outer.items():
        # with a (x) as (select 1) (select 2)  ->  the bracket that follows a closed one; others follow a word
        if word in _BODIES or (word == "(" and query[index - 1].text == ")"):
            return index
    raise PageQueryError("the query ends inside its WITH list", query[-1].end)


def _begins_tail(query: Sequence[Lexeme], index: int) -> bool:
    word = query[index].text.lower()
    if query[index - 1].text.lower() in ("as", "."):
        return False  # the name of a column: it may be a key word there
    if word == "order":
        return query[index + 1 : index + 2] != [] and query[index + 1].text.lower() == "by"
    return word in _TAIL_WORDS


def _check_limit(tail: Sequence[Lexeme]) -> None:
    # limit 100
    if not tail:
        return
    is_limit = tail[0].text.lower() == "limit" and len(tail) == 2
    if not is_limit or not (tail[1].kind is Kind.NUMBER or tail[1].text.lower() in _WHOLE_LIMITS):
        reason = "pages take the place of the query's own limit: end it with LIMIT and a number, or with neither"
        raise PageQueryError(reason, tail[0].start)
