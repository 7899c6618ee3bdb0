"""Expressions with a syntax of their own: CASE, CAST, EXTRACT, ARRAY, EXISTS and the like.

`functions.SYNTAX_FUNCTIONS` lists the functions that PostgreSQL calls for each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from endpoints.sql.sandbox.names import type_name
from endpoints.sql.sandbox.reader import Reader, subquery
from endpoints.sql.sandbox.tokens import STRING
from endpoints.sql.sandbox.vocabulary import EXTRACT_FIELDS, LITERAL_LISTS, LITERALS, ROW_COMPARISONS
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
    form = len(reader.pieces)
    of_literal = reader.following(2) in LITERALS and reader.following(3) == "as"
    reader.read("cast", "(", Reader.expression)
    behind = len(reader.pieces)
    reader.expect("as")
    domain = type_name(reader)
    if domain is not None and not of_literal:
        reader.pieces[form + 1] = "( ("
        reader.pieces[behind] = f") :: {domain} AS"
    reader.expect(")")


def _listed(reader: Reader) -> None:
    # COALESCE, NULLIF, GREATEST, LEAST, GROUPING
    reader.read(reader.symbol, "(", Reader.expressions, ")")


_BOUNDED_ROW: Final = f'{LOG_FUNCTIONS_SCHEMA}."row"'


def _row(reader: Reader) -> None:
    first, form = reader.index, len(reader.pieces)
    reader.read("row", "(")
    if reader.symbol != ")":
        reader.expressions()
    reader.expect(")")
    bound_row(reader, first, form)


def bound_row(reader: Reader, first: int, form: int) -> None:
    """Put the twin around a row from token `first` and piece `form` on, unless it is compared or unfolded here."""
    compared = reader.symbol in ROW_COMPARISONS or reader.symbols[first - 1] in ROW_COMPARISONS
    if not compared and reader.symbol != ".":
        _bound(reader, first, form, "row")


def _bound(reader: Reader, first: int, form: int, name: str) -> None:
    # Of literals nothing grows.
    if becomes_column(reader) and not LITERAL_LISTS.issuperset(reader.symbols[first + 1 : reader.index]):
        reader.pieces[form] = f'{LOG_FUNCTIONS_SCHEMA}."{name}" ( {reader.pieces[form]}'
        reader.insert(")")


def becomes_column(reader: Reader) -> bool:
    """Whether an expression here may be a column for the query around, which can put it into rows and arrays again."""
    # The scopes of the outermost SELECT are its own, its query's and the reader's.
    level = reader.scope.parent and reader.scope.parent.parent
    return reader.scope.gives_columns and level is not None and level.parent is not None


def _exists(reader: Reader) -> None:
    reader.expect("exists")
    subquery(reader)


def _array(reader: Reader) -> None:
    first, form = reader.index, len(reader.pieces)
    reader.expect("array")
    if reader.symbol == "(":
        subquery(reader)
    else:
        _elements(reader)
    # Rows are bounded each, and no function takes an array of them.
    if not any(piece.startswith(_BOUNDED_ROW) for piece in reader.pieces[form + 1 : form + 4]):
        _bound(reader, first, form, "array")


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
    reader.insert(f'{LOG_FUNCTIONS_SCHEMA}."overlay" (')
    reader.read("overlay", "(", Reader.expression, "placing", Reader.expression, "from", Reader.expression)
    if reader.accept("for"):
        reader.expression()
    reader.expect(")")
    reader.insert(")")


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
