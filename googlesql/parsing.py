"""Tokens → sqlglot's tree, with a bound on the work: sqlglot tries nested alternatives again and again, unbounded.

``struct(struct(struct(…)))`` doubles its work with every level. This parser counts the tokens that it goes back over,
and refuses a text that is read again and again, and a tree that is too deep for the later stages.
"""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Sequence
from typing import Any, Final

from sqlglot import exp
from sqlglot.dialects.bigquery import BigQuery
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.parsers.bigquery import BigQueryParser
from sqlglot.tokenizer_core import Token, TokenType

from googlesql import Refused

# --- Source text ------------------------------------------------------------------------------------------------------
# The consumer's text → sqlglot's tokens, within bounds, with BigQuery's literals as BigQuery reads them.
#
# sqlglot reads BigQuery's lexical rules with three differences that matter: it drops the backslash of an escape that
# BigQuery does not know (``'\d'`` in a pattern), it reads ``'\'`` after ESCAPE as a string that never ends, and it
# has no bounds. See "Lexical structure and syntax" in BigQuery's reference.
MAX_TOKENS: Final = 3_000
MAX_DEPTH: Final = 32  # nested brackets; the checker of the result has the same bound
THE_QUERY: Final = "the query"


class QuietBigQuery(BigQuery):
    """sqlglot's BigQuery, except that formats of time and JSONPaths stay as they are written.

    sqlglot would log the parts of a path that it cannot read.
    """

    TIME_MAPPING: dict[str, str] = {}

    def to_json_path(self, path: exp.Expr | None) -> exp.Expr | None:
        return path


DIALECT: Final = QuietBigQuery()

# As in any other sandbox query: some tools read them as blanks, some do not; lone surrogates cannot be sent.
_UNWANTED: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff\ud800-\udfff]")
# Blanks that are none, and what no screen shows: copied from a page, they end names and begin others.
_INVISIBLE: Final = re.compile("[\u00a0\u00ad\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]")
# A fast rough count of the lexemes: a text that certainly has too many never reaches the tokenizer.
_ROUGH_LEXEME: Final = re.compile(
    r"--[^\n\r]*+|#[^\n\r]*+|/[*][\s\S]*?[*]/|'[^'\n]*+'|\"[^\"\n]*+\"|[A-Za-z_0-9]++|\s++|[\s\S]"
)
# escape '\'  ->  escape'\\': the same length, so that all places in the text stay correct.
_ESCAPE_BACKSLASH: Final = re.compile(r"""(?i)\b(escape)\s(\s*)(?:'\\'|"\\")(?![\\'"])""")
_ESCAPES: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "?": "?", '"': '"', "'": "'", "`": "`",
}  # fmt: skip
_ESCAPE: Final = re.compile(r"\\(?:([0-3][0-7]{2})|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([\s\S]))")
_LITERAL: Final = re.compile(r"([rRbB]{0,2})('''|\"\"\"|'|\")([\s\S]*)\2")
_OPENING: Final = {TokenType.L_PAREN: 1, TokenType.L_BRACKET: 1, TokenType.CASE: 1}
_CLOSING: Final = {TokenType.R_PAREN: 1, TokenType.R_BRACKET: 1, TokenType.END: 1}
_BEGINNINGS: Final = frozenset({TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN})
_STRINGS: Final = frozenset({TokenType.STRING, TokenType.RAW_STRING})
_ARROWS: Final = frozenset({TokenType.ARROW, TokenType.DARROW, TokenType.HASH_ARROW, TokenType.DHASH_ARROW})
_OF_RECORDS: Final = (
    "is PostgreSQL's; name fields of records with dots, as in `select m.level from edge_logs cross join"
    " unnest(metadata) as m`"
)
_BEFORE_NAMES: Final = frozenset({TokenType.FROM, TokenType.JOIN, TokenType.WITH})
_BEHIND_SELECT_LIST: Final = frozenset({TokenType.FROM, TokenType.R_PAREN})


def tokens_of(sql: str) -> list[Token]:
    """Return the tokens of one statement, without a ``;`` at its end or a comma before FROM. Raises Refused."""
    if unwanted := _UNWANTED.search(sql):
        raise Refused(f"U+{ord(unwanted.group()):04X}", "cannot be part of a query", offset=unwanted.start())
    if len(_ROUGH_LEXEME.findall(sql)) > 2 * MAX_TOKENS + 1:
        raise Refused(THE_QUERY, f"has more than {MAX_TOKENS} words and signs", offset=0)
    try:
        tokens = DIALECT.tokenize(_ESCAPE_BACKSLASH.sub(r"\1\2'\\\\'", sql))
    except TokenError as error:
        raise Refused("a string or comment", "is never closed", offset=_end(sql)) from error
    if len(tokens) > MAX_TOKENS:
        raise Refused(THE_QUERY, f"has more than {MAX_TOKENS} words and signs", offset=tokens[MAX_TOKENS].start)
    _bound_brackets(tokens)
    tokens = _single_statement(tokens)
    may_hide = _INVISIBLE.search(sql) is not None
    for token in tokens:
        if token.token_type in _STRINGS:
            _read_literal(token, sql)
        elif token.token_type in _ARROWS:
            raise Refused(token.text, _OF_RECORDS, offset=token.start)
        elif may_hide and (hidden := _INVISIBLE.search(sql, token.start, token.end + 1)):
            name = f"U+{ord(hidden.group()):04X} ({unicodedata.name(hidden.group(), 'no name')})"
            raise Refused(name, "cannot be seen and is no blank; leave it out, or write a blank", offset=hidden.start())
    return _without_trailing_commas(_joined_strings(tokens, sql))


def _end(sql: str) -> int:
    return max(len(sql) - 1, 0)


def _bound_brackets(tokens: Sequence[Token]) -> None:
    depth = 0
    for token in tokens:
        if token.token_type in _OPENING:
            depth += 1
            if depth > MAX_DEPTH:
                raise Refused(token.text, f"is nested deeper than {MAX_DEPTH} levels", offset=token.start)
        elif token.token_type in _CLOSING:
            depth -= 1


def _single_statement(tokens: list[Token]) -> list[Token]:
    if tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens = tokens[:-1]
    if not tokens:
        raise Refused(THE_QUERY, "is empty", offset=0)
    if tokens[0].token_type not in _BEGINNINGS:
        # Other statements never reach sqlglot, which would log the text of a statement that it does not know.
        reason = "cannot begin a query; begin with SELECT or WITH"
        raise Refused(tokens[0].text, reason, offset=tokens[0].start)
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            raise Refused(";", "ends the query; send only one statement", offset=token.start)
    return tokens


def _read_literal(token: Token, sql: str) -> None:
    """Read the literal once more from the text, as BigQuery does; an escape it does not know stays as it is."""
    match = _LITERAL.fullmatch(sql, token.start, token.end + 1)
    token.token_type = TokenType.STRING
    if match is None:  # escape'\\', which differs from the text
        token.text = "\\"
    elif "r" in match[1].lower():
        token.text = match[3]
    else:
        token.text = _ESCAPE.sub(_unescape, match[3])


def _joined_strings(tokens: list[Token], sql: str) -> list[Token]:
    """Refuse strings in place of names, and several in a row; 'it''s' is such a row, from other dialects."""
    joined: list[Token] = []
    for token in tokens:
        before = joined[-1] if joined else None
        if token.token_type is not TokenType.STRING or before is None:
            joined.append(token)
        elif before.token_type is TokenType.STRING:
            quote = sql[token.start]
            if before.end + 1 != token.start or quote != sql[before.end]:
                raise Refused("a string", "is not expected here", offset=token.start)
            before.text += quote + token.text
            before.end = token.end
        elif before.token_type in _BEFORE_NAMES and not _ends_comparison(joined):
            raise Refused("a string", "is not a table; write names alone or in backticks", offset=token.start)
        else:
            joined.append(token)
    return joined


def _ends_comparison(tokens: list[Token]) -> bool:
    # x is distinct from 'a'
    return len(tokens) > 1 and tokens[-2].token_type is TokenType.DISTINCT


def _unescape(match: re.Match[str]) -> str:
    octal, *hexadecimal, character = match.groups()
    if octal:
        return chr(int(octal, 8))
    for digits in hexadecimal:
        if digits:
            return chr(int(digits, 16)) if int(digits, 16) < 0x110000 else match.group()
    return _ESCAPES.get(character, match.group())


def _without_trailing_commas(tokens: list[Token]) -> list[Token]:
    # select a, b, from t  ->  select a, b from t
    return [
        token
        for token, behind in zip(tokens, [*tokens[1:], None], strict=True)
        if token.token_type is not TokenType.COMMA
        or (behind is not None and behind.token_type not in _BEHIND_SELECT_LIST)
    ]


# --- Parsing ----------------------------------------------------------------------------------------------------------
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

    # sqlglot's own for BigQuery takes a column in backquotes apart at its dots: m.`log.level` would be another field.
    def _parse_column(self) -> exp.Expr | None:
        return super(BigQueryParser, self)._parse_column()

    # sqlglot reads no comparison here: group by rollup(x > 2), grouping sets (x > 2, ())
    def _parse_cube_or_rollup(self, with_prefix: bool = False) -> exp.Cube | exp.Rollup | None:
        if with_prefix or self._curr.token_type not in (TokenType.CUBE, TokenType.ROLLUP):
            return super()._parse_cube_or_rollup(with_prefix)
        kind = exp.Cube if self._match(TokenType.CUBE) else exp.Rollup
        self._match(TokenType.ROLLUP)
        return self.expression(kind(expressions=self._parse_wrapped_csv(self._parse_disjunction)))

    def _parse_grouping_set(self) -> exp.Expr | None:
        return self._parse_grouping_sets() or self._parse_cube_or_rollup() or self._parse_disjunction()


def parse(sql: str, tokens: Sequence[Token]) -> exp.Expr:
    """Return the tree of the one statement. Raises Refused if sqlglot cannot read it in reasonable time."""
    parser = BoundedParser(dialect=DIALECT, error_level=ErrorLevel.IMMEDIATE)
    parser.steps_left = STEPS_BACK_PER_TOKEN * (len(tokens) + 10)
    try:
        statements = parser.parse(list(tokens), sql)
    except ParseError as error:
        raise _syntax_error(error, sql) from error
    except _FAULTS as error:
        # These are not sqlglot's own errors: the code that builds a call's node trusts that its arguments exist.
        token = parser._curr or parser._prev
        raise Refused(token.text if token else THE_QUERY, "is not expected here", offset=_start(token)) from error
    except (_TooMuchWork, RecursionError) as error:
        raise Refused(THE_QUERY, "is nested too deeply to be read", offset=0) from error
    statement = statements[0] if len(statements) == 1 else None
    if statement is None:
        raise Refused(THE_QUERY, "is not one SELECT", offset=0)
    _bound_depth(statement)
    return statement


def _start(token: Token | None) -> int:
    return token.start if token else 0


def _syntax_error(error: ParseError, sql: str) -> Refused:
    detail: dict[str, Any] = dict(error.errors[0]) if error.errors else {}
    line, column = detail.get("line"), detail.get("col")
    construct = str(detail.get("highlight") or "") or THE_QUERY
    offset = None
    if isinstance(line, int) and isinstance(column, int):
        # sqlglot's column is that of the token's last character.
        starts = [0, *(index + 1 for index, character in enumerate(sql) if character == "\n")]
        if line <= len(starts):
            offset = min(max(starts[line - 1] + column - len(construct), 0), max(len(sql) - 1, 0))
    reason = "is PostgreSQL's; write regexp_contains(text, pattern)" if construct == "~" else "is not expected here"
    return Refused(construct, reason, offset=offset)


def _bound_depth(tree: exp.Expr) -> None:
    stack: list[tuple[exp.Expr, int]] = [(tree, 1)]
    while stack:
        node, depth = stack.pop()
        if depth > MAX_TREE_DEPTH:
            raise Refused(THE_QUERY, f"has expressions nested deeper than {MAX_TREE_DEPTH} levels", offset=0)
        for child in node.iter_expressions():
            deeper = 0 if isinstance(node, _CHAINS) and type(child) is type(node) else 1
            stack.append((child, depth + deeper))
