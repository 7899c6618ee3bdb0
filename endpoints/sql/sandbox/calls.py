"""Function calls with everything allowed in and after their brackets, windows, and ORDER BY."""

from __future__ import annotations

from typing import Final

from endpoints.sql.sandbox.names import require_allowed_function
from endpoints.sql.sandbox.reader import Reader, is_identifier
from endpoints.sql.sandbox.tokens import STRING
from endpoints.sql.sandbox.weights import OWN_FUNCTION_WEIGHT, TWIN_WEIGHT, add_definition
from logsources.allowed_functions import FUNCTION_SCHEMAS, LOG_FUNCTIONS_SCHEMA, OWN_FUNCTIONS
from logsources.guards import BOUNDED_RESULTS, FORMATTING, LARGEST_WIDTH, SQUARED, SQUARING, is_wide_template

_FRAME_UNITS: Final = ("rows", "range", "groups")
_NOT_A_WINDOW: Final = ("partition", "order", *_FRAME_UNITS)


def call(reader: Reader) -> None:
    """Take a call of an allowed function, pinned to its schema, with its aggregate clauses and OVER."""
    name = require_allowed_function(reader)
    reader.functions.add(name)
    start = reader.mark()
    if name in BOUNDED_RESULTS:
        # format(…)  ->  log_functions.format(pg_catalog.format(…)): a column gets the same name from both
        reader.insert(f'{LOG_FUNCTIONS_SCHEMA}."{name}" (')
    reader.take(f'{FUNCTION_SCHEMAS.get(name, "pg_catalog")}."{name}"')
    reader.expect("(")
    if not reader.accept("*") and reader.symbol != ")":
        if name == "format":
            _template(reader)
        elif name in FORMATTING:
            _argument(reader)
            if reader.accept(","):
                _checked(reader, "short_format")
        elif name in SQUARING:
            reader.accept_any(("distinct", "all"))
            reader.insert(f"{LOG_FUNCTIONS_SCHEMA}.{SQUARED} (")
            _argument(reader)
            reader.insert(")")
        else:
            reader.accept_any(("distinct", "all"))
            reader.list_of(_argument)
        if reader.symbol == "order":
            order_by(reader)
    reader.expect(")")
    if name in FUNCTION_SCHEMAS or name in BOUNDED_RESULTS:
        add_definition(reader, start, OWN_FUNCTION_WEIGHT if name in OWN_FUNCTIONS else TWIN_WEIGHT)
    _aggregate_clauses(reader)
    if name in BOUNDED_RESULTS:
        reader.insert(")")


def _template(reader: Reader) -> None:
    # The first argument of format() says how wide its result is.
    is_wide = reader.symbol == STRING and is_wide_template(reader.values[reader.index])
    if is_wide and reader.following() in (",", ")"):
        raise reader.refusal(f"pads to more than {LARGEST_WIDTH:,} characters, or to a width that is an argument")
    _checked(reader, "format_template")
    if reader.accept(","):
        reader.list_of(_argument)


def _checked(reader: Reader, domain: str) -> None:
    # A literal as it is, anything else through the domain.
    if reader.symbol == STRING and reader.following() in (",", ")"):
        reader.string()
    else:
        reader.insert("(")
        reader.expression()
        reader.insert(f')::{LOG_FUNCTIONS_SCHEMA}."{domain}"')


def _argument(reader: Reader) -> None:
    reader.accept("variadic")
    if reader.following() == "=>":
        reader.label()
        reader.take("=>")
    reader.expression()


def _aggregate_clauses(reader: Reader) -> None:
    # Told apart from column labels of the same names by what follows.
    if reader.symbol == "within" and reader.following() == "group":
        reader.read("within", "group", "(", order_by, ")")
    if reader.symbol == "filter" and reader.following() == "(":
        reader.read("filter", "(", "where", Reader.expression, ")")
    if reader.symbol == "over" and (reader.following() == "(" or is_identifier(reader.following())):
        reader.expect("over")
        if reader.symbol == "(":
            window(reader)
        else:
            reader.identifier()


def order_by(reader: Reader) -> None:
    """Take ORDER BY and its list; USING an operator is not part of it."""
    reader.read("order", "by")
    reader.list_of(_order)


def _order(reader: Reader) -> None:
    reader.expression()
    reader.accept_any(("asc", "desc"))
    if reader.accept("nulls"):
        reader.expect("first", "last")


def window(reader: Reader) -> None:
    """Take the definition of a window in its brackets."""
    reader.expect("(")
    if is_identifier(reader.symbol) and reader.symbol not in _NOT_A_WINDOW:
        reader.identifier()
    if reader.accept("partition"):
        reader.read("by", Reader.expressions)
    if reader.symbol == "order":
        order_by(reader)
    if reader.accept_any(_FRAME_UNITS):
        _frame(reader)
    reader.expect(")")


def _frame(reader: Reader) -> None:
    if reader.accept("between"):
        reader.read(_frame_bound, "and")
    _frame_bound(reader)
    if reader.accept("exclude"):
        if reader.accept("current"):
            reader.expect("row")
        elif reader.accept("no"):
            reader.expect("others")
        else:
            reader.expect("group", "ties")


def _frame_bound(reader: Reader) -> None:
    if reader.accept("unbounded"):
        reader.expect("preceding", "following")
    elif reader.symbol == "current" and reader.following() == "row":
        reader.read("current", "row")
    else:
        reader.simple_expression()
        reader.expect("preceding", "following")
