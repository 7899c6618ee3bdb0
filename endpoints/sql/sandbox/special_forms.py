"""Expressions with a syntax of their own: CASE, CAST, EXTRACT, ARRAY, EXISTS and the like.

`functions.SYNTAX_FUNCTIONS` lists the functions that PostgreSQL calls for each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from endpoints.sql.sandbox.names import type_name
from endpoints.sql.sandbox.reader import Reader, subquery
from endpoints.sql.sandbox.tokens import STRING
from endpoints.sql.sandbox.vocabulary import EXTRACT_FIELDS
from logsources.allowed_functions import LOG_FUNCTIONS_SCHEMA


def special_form(reader: Reader) -> Callable[[Reader], None] | None:
    """Return the function that reads the form beginning at the current token, None if there is none."""
    form = _BRACKET_FORMS.get(reader.symbol)
    if form is not None and reader.following() == "(":
        return form
    return _WORD_FORMS.get(reader.symbol)


def _clock(reader: Reader) -> None:
    reader.take_symbol()
    if reader.accept("("):
        reader.read(Reader.small_integer, ")")


def _case(reader: Reader) -> None:
    reader.expect("case")
    reader.depth += 1
    if reader.depth > reader.limits.depth:
        raise reader.refusal(f"is in CASE nested deeper than {reader.limits.depth} levels")
    if reader.symbol != "when":
        reader.expression()
    if reader.symbol != "when":
        raise reader.unexpected("when")
    while reader.accept("when"):
        reader.expression()
        reader.expect("then")
        reader.expression()
    if reader.accept("else"):
        reader.expression()
    reader.expect("end")
    reader.depth -= 1


def _cast(reader: Reader) -> None:
    reader.read("cast", "(", Reader.expression, "as", type_name, ")")


def _listed(reader: Reader) -> None:
    # COALESCE, NULLIF, GREATEST, LEAST, GROUPING
    reader.read(reader.symbol, "(", Reader.expressions, ")")


def _row(reader: Reader) -> None:
    reader.read("row", "(")
    if reader.symbol != ")":
        reader.expressions()
    reader.expect(")")


def _exists(reader: Reader) -> None:
    reader.expect("exists")
    subquery(reader)


def _array(reader: Reader) -> None:
    reader.expect("array")
    if reader.symbol == "(":
        subquery(reader)
    else:
        _elements(reader)


def _elements(reader: Reader) -> None:
    reader.expect("[")
    while reader.symbol != "]":
        if reader.symbol == "[":
            _elements(reader)
        else:
            reader.expression()
        if not reader.accept(","):
            break
    reader.expect("]")


def _extract(reader: Reader) -> None:
    reader.functions.add("extract")
    reader.read("extract", "(")
    field = reader.values[reader.index].strip("'").lower() if reader.symbol == STRING else reader.symbol
    if field not in EXTRACT_FIELDS:
        raise reader.refusal("is not a field of EXTRACT", construct=field)
    reader.take(f"'{field}'")
    reader.read("from", Reader.expression, ")")


def _substring(reader: Reader) -> None:
    reader.functions.add("substring")
    form = len(reader.pieces)
    reader.read("substring", "(", Reader.expression)
    if reader.symbol == "," or reader.symbol == ")":
        # With commas it is an ordinary call, which must be pinned like the others.
        reader.pieces[form] = 'pg_catalog."substring"'
        if reader.accept(","):
            reader.expressions()
    elif reader.accept("similar"):
        reader.read(Reader.simple_expression, "escape", Reader.expression)
    else:
        _from_and_for(reader)
    reader.expect(")")


def _from_and_for(reader: Reader) -> None:
    first = reader.symbol
    reader.expect("from", "for")
    reader.expression()
    if reader.accept("for" if first == "from" else "from"):
        reader.expression()


def _overlay(reader: Reader) -> None:
    reader.functions.add("overlay")
    reader.read("overlay", "(", Reader.expression, "placing", Reader.expression, "from", Reader.expression)
    if reader.accept("for"):
        reader.expression()
    reader.expect(")")


def _position(reader: Reader) -> None:
    reader.functions.add("position")
    # position(a in b)  ->  log_functions.position(b, a), as PostgreSQL itself calls its own
    reader.take(f'{LOG_FUNCTIONS_SCHEMA}."position"')
    reader.expect("(")
    needle = len(reader.pieces)
    reader.simple_expression()
    if reader.symbol != "in":
        raise reader.unexpected("in")
    reader.take(",")
    haystack = len(reader.pieces)
    reader.simple_expression()
    _exchange(reader, needle, haystack)
    reader.expect(")")


def _trim(reader: Reader) -> None:
    # trim(leading a from b)  ->  log_functions.ltrim(b, a)
    form = len(reader.pieces)
    reader.read("trim", "(")
    function = {"leading": "ltrim", "trailing": "rtrim"}.get(reader.symbol, "btrim")
    reader.functions.add(function)
    reader.pieces[form] = f'{LOG_FUNCTIONS_SCHEMA}."{function}"'
    if reader.symbol in ("both", "leading", "trailing"):
        reader.skip()
    if reader.symbol == "from":
        reader.skip()
        reader.expressions()
    else:
        characters = len(reader.pieces)
        reader.expression()
        if reader.symbol == "from":
            reader.take(",")
            trimmed = len(reader.pieces)
            reader.expression()
            _exchange(reader, characters, trimmed)
        elif reader.accept(","):
            reader.expression()
    reader.expect(")")


def _exchange(reader: Reader, first: int, second: int) -> None:
    """Put what was emitted from `second` on before what was emitted from `first` on; a comma ends the first."""
    comma = second - 1
    pieces, origins = reader.pieces, reader.origins
    pieces[first:] = [*pieces[second:], pieces[comma], *pieces[first:comma]]
    origins[first:] = [*origins[second:], origins[comma], *origins[first:comma]]


# Reserved words, which are these forms everywhere.
_WORD_FORMS: Final[dict[str, Callable[[Reader], None]]] = {
    **dict.fromkeys(("true", "false", "null", "current_date"), Reader.take_symbol),
    **dict.fromkeys(("current_timestamp", "current_time", "localtime", "localtimestamp"), _clock),
    "case": _case,
    "cast": _cast,
    "array": _array,
}
# Words that are names unless a bracket follows.
_BRACKET_FORMS: Final[dict[str, Callable[[Reader], None]]] = {
    **dict.fromkeys(("coalesce", "nullif", "greatest", "least", "grouping"), _listed),
    "row": _row,
    "exists": _exists,
    "extract": _extract,
    "substring": _substring,
    "overlay": _overlay,
    "position": _position,
    "trim": _trim,
}
