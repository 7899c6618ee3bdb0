"""Stored SQL and arguments → the one `Statement` that runs: ``@name`` becomes ``($n::type)``, rows are limited.

Values never enter the SQL text, so it is the same for all arguments and made once: `compile_query` keeps it.
The parentheses let every suffix follow a parameter, as in ``@list[1]`` or ``@start::date``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from endpoints.results.outcomes import BoundValue, Statement
from endpoints.sql.coercion import ParameterType
from endpoints.sql.lexemes import Kind, Lexeme, LexicalError, lex, line_and_column
from endpoints.sql.parameters import DeclaredParameter

# --- Size limit -------------------------------------------------------------------------------------------------------
# A byte budget for results, kept by PostgreSQL itself: it stops before it has sent more than the budget.
#
# The query gets one more column, which adds up the text of the rows so far and fails in the row that goes over. So
# the whole call stays one round trip, and neither side ever keeps more than the budget and one row.
# The text in the error of CAST(… AS integer); a consumer's query may cause the same error without harm.
MARKER: Final = "result over its byte budget"
_PREFIX: Final = (
    "SELECT result.*, CAST(CASE WHEN sum(octet_length(CAST(ROW(result.*) AS text)))"
    " OVER (ROWS UNBOUNDED PRECEDING) > {max_bytes:d} THEN '{marker}' ELSE '0' END AS integer) FROM (\n"
)
_ALL_BEFORE: Final = "UNBOUNDED PRECEDING"


def limit_bytes(sql: str, *, max_bytes: int) -> tuple[str, int]:
    """Return a query around one query that fails once its rows have more bytes of text, and how far it moves the text.

    Its last column is the sentinel, to be dropped. The rows keep their order: a window without ORDER BY sorts nothing.
    """
    prefix = _PREFIX.format(max_bytes=max_bytes, marker=MARKER)
    return f"{prefix}{sql}\n) AS result", len(prefix)


def limit_bytes_of_chunks(limited: str, *, rows: int) -> str:
    """Return a query of `limit_bytes` whose budget holds for every so many rows that follow each other, not for all.

    The text in it stays where it was.
    """
    return limited.replace(_ALL_BEFORE, f"{rows - 1:d} PRECEDING".ljust(len(_ALL_BEFORE)), 1)


def is_over_budget(sqlstate: str, message: str) -> bool:
    """Return whether PostgreSQL's error is that of the byte budget."""
    return sqlstate == "22P02" and MARKER in message


# --- Planner settings -------------------------------------------------------------------------------------------------
# Planner settings of a stored query, as operators write them: `plan_cache_mode = force_generic_plan, jit = off`.
#
# Only settings that choose among plans (PostgreSQL manual, "Query Planning"): none changes the rows, a limit or a
# right.
_SWITCHES: Final = (
    "enable_bitmapscan", "enable_gathermerge", "enable_hashagg", "enable_hashjoin", "enable_incremental_sort",
    "enable_indexonlyscan", "enable_indexscan", "enable_material", "enable_memoize", "enable_mergejoin",
    "enable_nestloop", "enable_parallel_append", "enable_parallel_hash", "enable_partitionwise_aggregate",
    "enable_partitionwise_join", "enable_seqscan", "enable_sort", "jit",
)  # fmt: skip
# In every PostgreSQL from 15 on, with the values that it takes.
_VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "plan_cache_mode": ("auto", "force_custom_plan", "force_generic_plan"),
    "max_parallel_workers_per_gather": tuple(map(str, range(9))),
    **dict.fromkeys(_SWITCHES, ("on", "off")),
}
_PAIR: Final = re.compile(r"\s*(\w+)\s*=\s*(\w+)\s*", re.ASCII)


class PlannerSettingsError(ValueError):
    """A text that is not a list of planner settings; the message says what is right."""


def parse_planner_settings(text: str) -> dict[str, str]:
    """Return the settings by name, in their order; a blank text has none. Raises PlannerSettingsError."""
    settings: dict[str, str] = {}
    for part in text.split(",") if text.strip() else ():
        pair = _PAIR.fullmatch(part)
        if pair is None:
            raise PlannerSettingsError(
                f"“{part.strip()}” does not have the form name = value; separate settings with commas."
            )
        name, value = pair[1].lower(), pair[2].lower()
        if name not in _VALUES:
            raise PlannerSettingsError(
                f"{name} is not a planner setting. The planner settings are {', '.join(sorted(_VALUES))}."
            )
        if value not in _VALUES[name]:
            raise PlannerSettingsError(f"{name} must be one of {', '.join(_VALUES[name])}; not {value}.")
        if name in settings:
            raise PlannerSettingsError(f"{name} is set twice.")
        settings[name] = value
    return settings


# --- Composition ------------------------------------------------------------------------------------------------------
COMPILED_QUERIES_KEPT: Final = 512  # more than the endpoints of one installation; each is a few kB
_QUERY_BEGINNINGS: Final = frozenset({"select", "with", "values", "table"})
_NAME_KINDS: Final = frozenset({Kind.WORD, Kind.QUOTED_IDENTIFIER, Kind.UNICODE_IDENTIFIER})
LIMIT_PREFIX: Final = "SELECT * FROM (\n"
_CLOSING: Final = {"(": ")", "[": "]"}


class CompositionError(ValueError):
    """Stored SQL that cannot be run as one query; `line` and `column` (1-based) say where in it."""

    def __init__(self, message: str, *, line: int, column: int) -> None:
        super().__init__(f"{message} (line {line}, column {column})")
        self.message = message
        self.line = line
        self.column = column


@dataclass(frozen=True, slots=True)
class CompiledQuery:
    """SQL with numbered placeholders, and which parameter each number takes: `parameter_names[0]` is ``$1``."""

    sql: str
    parameter_names: tuple[str, ...]

    def statement(self, arguments: Mapping[str, BoundValue]) -> Statement:
        """Return the statement for these arguments. Raises KeyError if one of the parameters is missing."""
        return Statement(self.sql, tuple(arguments[name] for name in self.parameter_names))


def compile_query(sql: str, parameters: Sequence[DeclaredParameter], *, max_rows: int) -> CompiledQuery:
    """Return the stored query bound and limited; the last few hundred are remembered.

    Raises CompositionError when the SQL is not exactly one query.
    """
    return _compiled(sql, _types(parameters), max_rows)


def limit_rows(sql: str, *, max_rows: int) -> str:
    """Return a query around one query that gives at most ``max_rows + 1`` rows: the spare one shows a cut.

    `sql` must be one balanced query without a trailing ``;``, as `single_query` returns it.
    """
    # The line break before ")" ends a "--" comment, which would otherwise swallow the rest.
    return f"{LIMIT_PREFIX}{sql}\n) AS result LIMIT {max_rows + 1:d}"


def single_query(sql: str) -> tuple[Lexeme, ...]:
    """Return the lexemes of the one query in `sql`, without blanks around it and one trailing ``;``.

    Raises CompositionError when the text cannot be lexed, is empty, does not begin like a query, contains a second
    statement or a ``$1``, or closes what it did not open: then it could leave the parentheses put around it.
    """
    try:
        lexemes = lex(sql)
    except LexicalError as error:
        raise _error(sql, error.position, error.message) from error
    seen = [index for index, lexeme in enumerate(lexemes) if not lexeme.is_blank]
    if seen and lexemes[seen[-1]].text == ";":
        seen.pop()
    if not seen:
        raise _error(sql, 0, "there is no query")
    query = lexemes[seen[0] : seen[-1] + 1]
    if query[0].text != "(" and query[0].text.lower() not in _QUERY_BEGINNINGS:
        raise _error(sql, query[0].start, "a query begins with SELECT or WITH")
    _check_structure(sql, query)
    return query


def _check_structure(sql: str, query: Sequence[Lexeme]) -> None:
    open_: list[Lexeme] = []
    for lexeme in query:
        if lexeme.kind is Kind.POSITIONAL:
            raise _error(sql, lexeme.start, "write @name, not a numbered parameter")
        if lexeme.kind is not Kind.PUNCTUATION:
            continue
        if lexeme.text == ";":
            raise _error(sql, lexeme.start, "a second statement")
        if lexeme.text in _CLOSING:
            open_.append(lexeme)
        elif lexeme.text in _CLOSING.values() and (not open_ or _CLOSING[open_.pop().text] != lexeme.text):
            raise _error(sql, lexeme.start, f"`{lexeme.text}` closes nothing")
    if open_:
        raise _error(sql, open_[-1].start, f"`{open_[-1].text}` is never closed")


def replace_parameters(sql: str, replacement: Callable[[str], str]) -> str:
    """Return the one query in `sql` with ``replacement(name)`` for every ``@name``; see `single_query` for errors.

    Also raises CompositionError for a parameter glued to a name: ``x@y`` would turn into the call ``x(…)``.
    """
    pieces: list[str] = []
    before: Lexeme | None = None
    for lexeme in single_query(sql):
        if lexeme.kind is Kind.PARAMETER:
            if before is not None and before.kind in _NAME_KINDS:
                raise _error(sql, lexeme.start, f"write a space or an operator before {lexeme.text}")
            pieces.append(replacement(lexeme.text[1:]))
        else:
            pieces.append(lexeme.text)
        before = lexeme
    return "".join(pieces)


def original_offset(sql: str, parameters: Sequence[DeclaredParameter], offset: int) -> int:
    """Return where in `sql` an offset of the statement that `compile_query` made of it belongs: for error positions.

    An offset inside a placeholder belongs to its ``@name``; one after the query to the query's end.
    """
    types = _types(parameters)
    emitted = len(LIMIT_PREFIX)
    numbers: dict[str, int] = {}
    query = single_query(sql)
    for lexeme in query:
        text = lexeme.text
        if lexeme.kind is Kind.PARAMETER:
            text = placeholder(text[1:], dict(types), numbers)
        if offset < emitted + len(text):
            inside = max(offset - emitted, 0)
            return lexeme.start if lexeme.kind is Kind.PARAMETER else lexeme.start + inside
        emitted += len(text)
    return query[-1].end


def _types(parameters: Sequence[DeclaredParameter]) -> tuple[tuple[str, ParameterType], ...]:
    return tuple((parameter.name, parameter.type) for parameter in parameters)


@lru_cache(maxsize=COMPILED_QUERIES_KEPT)
def _compiled(sql: str, types: tuple[tuple[str, ParameterType], ...], max_rows: int) -> CompiledQuery:
    numbered = _numbered(sql, types)
    return CompiledQuery(limit_rows(numbered.sql, max_rows=max_rows), numbered.parameter_names)


def _numbered(sql: str, types: tuple[tuple[str, ParameterType], ...]) -> CompiledQuery:
    type_of = dict(types)
    numbers: dict[str, int] = {}

    bound = replace_parameters(sql, lambda name: placeholder(name, type_of, numbers))
    return CompiledQuery(bound, tuple(numbers))


def placeholder(name: str, type_of: Mapping[str, ParameterType], numbers: dict[str, int]) -> str:
    """Return ``($n::type)``, the same name always under the same number.

    where a = @x and b > @y or c = @x  ->  where a = ($1::text) and b > ($2::bigint) or c = ($1::text)
    """
    number = numbers.setdefault(name, len(numbers) + 1)
    return f"(${number}::{type_of.get(name, ParameterType.TEXT).postgresql_type})"


def _error(sql: str, position: int, message: str) -> CompositionError:
    line, column = line_and_column(sql, position)
    return CompositionError(message, line=line, column=column)
