"""What PostgreSQL's errors mean for the author of a sandbox query, by SQLSTATE (PostgreSQL manual, appendix A).

PostgreSQL's own messages quote row values and the stored query, so none of their text is used: names come from the
consumer's text, at the place the error points to.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from typing import Final

from endpoints.sql.lexemes import Kind, lex
from logsources.guards import GUARD_SQLSTATE, LARGEST_HASHED, LARGEST_VALUE, LARGEST_WIDTH

MAX_SUGGESTIONS: Final = 3
MAX_NAME_CHARACTERS: Final = 127  # table.column
UNDEFINED_COLUMN: Final = "42703"
UNDEFINED_TABLE: Final = "42P01"
INSUFFICIENT_PRIVILEGE: Final = "42501"
# Of class 53, what one query alone can cause: it took disk space or memory until there was no more for it.
TOO_COSTLY: Final = frozenset(("53100", "53200", "53400"))

_CAST: Final = "Cast the values, for example (metadata->0->>'status')::int."
_LESS: Final = "Read fewer rows or columns: narrow the time window, filter, or aggregate."
_SIMPLER: Final = "Make the query simpler, or split it into several calls."


@dataclass(frozen=True, slots=True)
class Explanation:
    """An error in words of our own: what is wrong, and what to do about it (may be empty)."""

    message: str
    hint: str = ""


# `{name}` becomes the name in question in backticks, or "this place" if the error points to none.
_EXPLANATIONS: Final[dict[str, Explanation]] = {
    "0A000": Explanation("The query uses something that PostgreSQL does not support here."),
    "21000": Explanation(
        "A subquery that must return one value returned more than one row.", "Add LIMIT 1, an aggregate, or use IN."
    ),
    "22001": Explanation("A text is too long for the type it is cast to."),
    "22003": Explanation("A number is out of the range of its type.", "Use a wider type, such as numeric."),
    "22004": Explanation("NULL is used where a value is needed."),
    "22007": Explanation("A text is not a date or time.", "Filter with a regular expression before casting."),
    "22008": Explanation("A date or time is out of range."),
    "22009": Explanation("A time zone displacement is out of range."),
    "2200F": Explanation("An empty text is used where a character is needed."),
    "22011": Explanation("A substring has a negative length."),
    "22012": Explanation("The query divides by zero.", "Divide by nullif(x, 0)."),
    "22013": Explanation("A window frame begins or ends at a negative or missing offset."),
    "22014": Explanation("ntile() needs a number of buckets greater than zero."),
    "22015": Explanation("An interval is out of range."),
    "22016": Explanation("nth_value() needs a row number greater than zero."),
    "22019": Explanation("The ESCAPE character must be one character."),
    "2201B": Explanation("A regular expression is not valid."),
    "2201E": Explanation("The query takes the logarithm of a number that is not positive."),
    "2201F": Explanation("A power or square root has no real value."),
    "2201G": Explanation("width_bucket() needs more than zero buckets and two different bounds."),
    "2201W": Explanation("LIMIT must not be negative."),
    "2201X": Explanation("OFFSET must not be negative."),
    "22021": Explanation("A text contains bytes that are not valid in its encoding."),
    "22023": Explanation("A function got a value that it does not accept, such as an unknown time zone."),
    "22025": Explanation("A pattern ends in the escape character, or an escape sequence is not valid."),
    "22026": Explanation("Bit strings of different lengths cannot be combined."),
    "2202E": Explanation("Arrays of these dimensions cannot be combined."),
    "22030": Explanation("A JSON object contains the same key twice."),
    "22032": Explanation("A text is not valid JSON."),
    "22033": Explanation("A JSON path uses a subscript that is out of bounds."),
    "22P02": Explanation(
        "A text cannot be read as the type it is cast to.",
        "Filter with a regular expression before casting, for example x ~ '^[0-9]+$'.",
    ),
    "22P05": Explanation("A character does not exist in the encoding it is converted to."),
    "23514": Explanation(
        f"A value is larger than the {LARGEST_VALUE // 2**20} MiB that a sandbox query may build or search, or the"
        f" {LARGEST_HASHED // 2**20} MiB that it may hash; or format() pads to more than {LARGEST_WIDTH:,} characters.",
        "Aggregate or join fewer values, or cut them, for example by left(x, 1000).",
    ),
    GUARD_SQLSTATE: Explanation(
        "The operands of a function or operator are too large together: its time is the product of their sizes.",
        "Make one of them shorter, for example by left(x, 1000).",
    ),
    "42501": Explanation("The query uses something that sandbox queries may not use."),
    "42601": Explanation("The query is not valid SQL here."),
    "42611": Explanation("The definition of a column is not valid."),
    "42701": Explanation("The column {name} appears twice."),
    "42702": Explanation("The column {name} could belong to more than one table.", "Write table.column."),
    "42703": Explanation("There is no column {name} here."),
    "42704": Explanation("There is no such type or object as {name}."),
    "42712": Explanation("The table name {name} is used twice.", "Give one of the two another alias."),
    "42725": Explanation("More than one function or operator fits at {name}.", _CAST),
    "42803": Explanation(
        "Aggregates and single values are mixed at {name}.",
        "Put every selected column into GROUP BY or into an aggregate; use aggregates in HAVING, not in WHERE.",
    ),
    "42804": Explanation("The types do not fit together at {name}.", _CAST),
    "42809": Explanation("The function {name} cannot be used in this way."),
    "42846": Explanation("A value of this type cannot be cast to the other."),
    "42883": Explanation("No function or operator fits the types of its arguments at {name}.", _CAST),
    "42P01": Explanation(
        "The table {name} cannot be read from here.", "Add LATERAL to a subquery in FROM that reads it."
    ),
    "42P10": Explanation(
        "ORDER BY, GROUP BY or DISTINCT names something that the select list, or the aggregate, does not have.",
        "Positions count the selected columns; with DISTINCT, order only by what is selected or gathered.",
    ),
    "42P18": Explanation("The type at {name} is not known.", _CAST),
    "42P20": Explanation("A window function or window definition is used where none is allowed."),
    "42P22": Explanation("PostgreSQL cannot tell which collation to compare with."),
    "53100": Explanation("The query needs more disk space than is available.", _LESS),
    "53200": Explanation("The query needs more memory than it may use.", _LESS),
    "53400": Explanation("The query needs more temporary disk space than it may use.", _LESS),
    "54000": Explanation("A value is larger than PostgreSQL allows.", _LESS),
    "54001": Explanation("The query is nested too deeply.", _SIMPLER),
    "54011": Explanation("The query has too many columns.", _SIMPLER),
    "54023": Explanation("A function has too many arguments.", _SIMPLER),
}
# JSON errors differ in ways that matter to no caller (PostgreSQL, appendix A, 22031 to 2203G).
_JSON: Final = Explanation("A JSON value or path does not have the form that is needed here.")


def explain(sqlstate: str, *, name: str = "", known_names: Iterable[str] = ()) -> Explanation | None:
    """Return what the error means, None for an SQLSTATE that no sandbox query is known to meet.

    `name` is what the consumer wrote at the place of the error; `known_names` are the columns it could have meant.
    """
    explanation = _EXPLANATIONS.get(sqlstate) or (_JSON if sqlstate.startswith("2203") else None)
    if explanation is None:
        return None
    hint = explanation.hint
    if sqlstate == UNDEFINED_COLUMN:
        hint = _suggestion(name, known_names)
    return Explanation(explanation.message.format(name=f"`{name}`" if name else "this place"), hint)


def _suggestion(name: str, known_names: Iterable[str]) -> str:
    wanted = name.rpartition(".")[2].strip('"').lower()
    similar = get_close_matches(wanted, sorted(set(known_names)), n=MAX_SUGGESTIONS)
    return f"Did you mean {' or '.join(f'`{one}`' for one in similar)}?" if similar else ""


def name_at(sql: str, offset: int) -> str:
    """Return the name at an offset of a text that has been lexed before: ``table.column``, a word or an operator.

    Nothing for a literal, which is data.
    """
    # select e.levl, 'a' from edge_logs e, offset of "e"  ->  e.levl
    names: list[str] = []
    lexemes = (lexeme for lexeme in lex(sql) if lexeme.start >= offset and not lexeme.is_blank)
    for index, lexeme in enumerate(islice(lexemes, 3)):
        is_name = lexeme.kind in (Kind.WORD, Kind.QUOTED_IDENTIFIER)
        if index == 0 and lexeme.kind in (Kind.OPERATOR, Kind.PARAMETER):
            return lexeme.text
        if (index % 2 == 0) != is_name or (index == 1 and lexeme.text != "."):
            break
        names.append(lexeme.text)
    if len(names) == 2:
        names.pop()  # table.*
    return "".join(names)[:MAX_NAME_CHARACTERS]
