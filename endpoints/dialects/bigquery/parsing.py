"""Tokens → sqlglot's tree, with a bound on the work: sqlglot tries nested alternatives again and again, unbounded.

``struct(struct(struct(…)))`` doubles its work with every level. This parser counts the tokens that it goes back over,
and refuses a text that is read again and again, and a tree that is too deep for the later stages.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError
from sqlglot.parsers.bigquery import BigQueryParser
from sqlglot.tokenizer_core import Token

from endpoints.dialects.bigquery.refusals import Refusal
from endpoints.dialects.bigquery.source_text import DIALECT, THE_QUERY

# sqlglot logs the whole text if it cannot read it, but nothing of a consumer's text may go to the log.
logging.getLogger("sqlglot").setLevel(logging.CRITICAL + 1)

STEPS_BACK_PER_TOKEN: Final = 30  # real texts need fewer than 3
MAX_TREE_DEPTH: Final = 100  # levels of expressions; a chain of AND or OR counts as one
_FAULTS: Final = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
_CHAINS: Final = (exp.And, exp.Or)


class _TooMuchWork(Exception):
    """The parser went back too often."""


class BoundedParser(BigQueryParser):
    """sqlglot's parser for BigQuery; it gives up after going back over too many tokens."""

    steps_left: int = 0

    def _retreat(self, index: int) -> None:
        self.steps_left -= abs(int(self._index) - int(index))
        if self.steps_left < 0:
            raise _TooMuchWork
        super()._retreat(index)


def parse(sql: str, tokens: Sequence[Token]) -> exp.Expr:
    """Return the tree of the one statement. Raises Refusal if sqlglot cannot read it in reasonable time."""
    parser = BoundedParser(dialect=DIALECT, error_level=ErrorLevel.IMMEDIATE)
    parser.steps_left = STEPS_BACK_PER_TOKEN * (len(tokens) + 10)
    try:
        statements = parser.parse(list(tokens), sql)
    except ParseError as error:
        raise _syntax_error(error, sql) from error
    except _FAULTS as error:
        # These are not sqlglot's own errors: the code that builds a call's node trusts that its arguments exist.
        token = parser._curr or parser._prev
        raise Refusal(token.text if token else THE_QUERY, "is not expected here", offset=_start(token)) from error
    except (_TooMuchWork, RecursionError) as error:
        raise Refusal(THE_QUERY, "is nested too deeply to be read", offset=0) from error
    statement = statements[0] if len(statements) == 1 else None
    if statement is None:
        raise Refusal(THE_QUERY, "is not one SELECT", offset=0)
    _bound_depth(statement)
    return statement


def _start(token: Token | None) -> int:
    return token.start if token else 0


def _syntax_error(error: ParseError, sql: str) -> Refusal:
    detail: dict[str, Any] = dict(error.errors[0]) if error.errors else {}
    line, column = detail.get("line"), detail.get("col")
    construct = str(detail.get("highlight") or "") or THE_QUERY
    offset = None
    if isinstance(line, int) and isinstance(column, int):
        # sqlglot's column is that of the token's last character.
        starts = [0, *(index + 1 for index, character in enumerate(sql) if character == "\n")]
        if line <= len(starts):
            offset = min(max(starts[line - 1] + column - len(construct), 0), max(len(sql) - 1, 0))
    return Refusal(construct, "is not expected here", offset=offset)


def _bound_depth(tree: exp.Expr) -> None:
    stack: list[tuple[exp.Expr, int]] = [(tree, 1)]
    while stack:
        node, depth = stack.pop()
        if depth > MAX_TREE_DEPTH:
            raise Refusal(THE_QUERY, f"has expressions nested deeper than {MAX_TREE_DEPTH} levels", offset=0)
        for child in node.iter_expressions():
            deeper = 0 if isinstance(node, _CHAINS) and type(child) is type(node) else 1
            stack.append((child, depth + deeper))
