"""Turns the clauses of an LQL query, as cut by the grammar, into rules; any error in a clause raises Fault.

The methods of `ClauseReader` are the grammar's rules; each takes the tokens of one rule. They run while the text is
read, so the first fault ends the reading.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from lark import Token, Transformer

from endpoints.lql.refusals import MAX_FOUND_CHARACTERS, Fault, advice_to_quote, named, quoted
from endpoints.lql.rules import (
    LEVEL_PATH,
    LEVELS,
    MESSAGE,
    METADATA,
    STRING,
    TIMESTAMP,
    Aggregate,
    Filter,
    FilterRule,
    FromRule,
    LevelRangeRule,
    Operator,
    Period,
    RangeRule,
    SelectRule,
    TimeRangeRule,
    TimeRule,
    TimeShorthandRule,
    Value,
    keys_of,
    path_of,
    unescaped,
)
from endpoints.lql.times import Instant, Interval, iso_kind, read_time
from endpoints.sql.lexemes import INVISIBLE, INVISIBLE_REASON, called

MAX_CLAUSES: Final = 100
MAX_ALIAS_CHARACTERS: Final = 63  # PostgreSQL's NAMEDATALEN - 1; a longer column name would be cut

OPERATORS: Final = {
    ":": Operator.EQUAL,
    ":>": Operator.GREATER,
    ":>=": Operator.GREATER_OR_EQUAL,
    ":<": Operator.LESS,
    ":<=": Operator.LESS_OR_EQUAL,
    ":~": Operator.REGEXP,
    ":@>": Operator.LIST_INCLUDES,
    ":@>~": Operator.LIST_INCLUDES_REGEXP,
}
PERIODS: Final = {**{period.value: period for period in Period}, **{period.value[0]: period for period in Period}}

VALUE_FORMS: Final = ("a word", "a number", "a date", "text in double quotes", "a range such as `1..10`", "`NULL`")
ORDERED_FORMS: Final = VALUE_FORMS[:4]
REGEXP_FORMS: Final = ("a regular expression without spaces", "one in double quotes")
MESSAGE_FORMS: Final = (
    "a word",
    "a phrase in double quotes",
    'a filter such as `m.status:error` or `m."x-real-ip":1`',
)
TABLE_FORMS: Final = ("a table name of letters, digits and `_`",)
CHART_FORMS: Final = ("an aggregate such as `count(*)` or `avg(m.latency)`", "`group_by(t::minute)`")
PATH_FORMS: Final = ('names joined by single dots, those with other characters in double quotes: `m."x-real-ip"`',)
SELECT_FORMS: Final = ("`*`", "a path such as `m.status`", "a path with an alias such as `m.status@status`")

_NUMBER: Final = re.compile(r"[+-]?[0-9]++(?>(?:\.[0-9]++)?)(?>(?:[eE][+-]?[0-9]{1,3})?)")
# Up to the first part of a path that is empty, or only partly in quotes.
_WHOLE_PARTS: Final = re.compile(rf"(?>(?:(?:[A-Za-z0-9_]++|{STRING})(?:\.|\Z))*)")
# What a person may mean as a filter: a path, an operator, and a value.
_MEANT: Final = re.compile(r'(?:m\.|metadata\.)?([^\s":()]+)(:(?:[<>]=?|@>~?|~)?)(\S+)')
_PLAIN_VALUE: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]|\.(?!\.))*")


@dataclass(frozen=True, slots=True)
class ChartClause:
    """One chart clause: an aggregate and its path, or a period."""

    position: int
    aggregate: Aggregate | None = None
    path: str = TIMESTAMP
    period: Period | None = None


Clause = FromRule | ChartClause | SelectRule | Filter


class ClauseReader(Transformer[Token, list[Clause]]):
    """One method per rule of the grammar; each returns a clause or raises Fault."""

    def start(self, children: list[list[Clause]]) -> list[Clause]:
        return children[0] if children else []

    def clauses(self, children: list[Any]) -> list[Clause]:
        clauses: list[Clause] = children[0] if len(children) == 2 else []
        clause: Clause = children[-1]
        if len(clauses) == MAX_CLAUSES:
            raise Fault(clause.position, f"a query may have at most {MAX_CLAUSES} clauses")
        clauses.append(clause)
        return clauses

    def clause(self, children: list[Any]) -> Clause:
        clause: Clause = children[-1]
        if len(children) == 1:
            return clause
        if isinstance(clause, FromRule | ChartClause | SelectRule):
            reason = "a dash negates a filter; it cannot come before a table, a chart or a selection"
            raise Fault(_start(children[0]), reason, found="-", expected=("a clause without dash",))
        return replace(clause, negated=True)

    def table(self, children: list[Token]) -> FromRule:
        head, name = children
        if name.type == "INVALID":
            raise Fault(_start(name), f"{named(name)} is not a table's name", found=name, expected=TABLE_FORMS)
        return FromRule(str(name), _start(head))

    def chart(self, children: list[Token]) -> ChartClause:
        head, call = children
        if call.type == "INVALID":
            raise Fault(
                _start(call), f"{named(call)} is not a chart", found=call, expected=CHART_FORMS, hint=_hint(call)
            )
        name, _, argument = call[:-1].partition("(")
        if call.type == "GROUP_BY":
            before, _, period = argument.partition("::")
            where = _start(call) + len(name) + 1 + len(before) + 2
            return ChartClause(_start(head), period=_period(period, where))
        if name not in set(Aggregate):
            names = [f"`{aggregate.value}`" for aggregate in Aggregate]
            raise Fault(_start(call), f"{named(name)} is not an aggregate", found=name, expected=names)
        path = TIMESTAMP if argument == "*" else _column_path(argument, _start(call) + len(name) + 1)
        return ChartClause(_start(head), Aggregate(name), path)

    def select(self, children: list[Token]) -> SelectRule:
        head, selected = children
        if selected.type == "INVALID":
            reason = f"{named(selected)} cannot be selected"
            raise Fault(_start(selected), reason, found=selected, expected=SELECT_FORMS, hint=_hint(selected))
        quotes_end = selected.rfind('"') + 1
        rest, at, alias = selected[quotes_end:].partition("@")
        path = selected[:quotes_end] + rest
        where = _start(selected) + len(path)
        if path == "*" and at:
            raise Fault(where, "`*` is every column and takes no alias", found=at + alias, expected=("`*` alone",))
        if at and not alias:
            raise Fault(where + 1, "the alias after `@` is missing", expected=("letters, digits and `_`",))
        if len(alias) > MAX_ALIAS_CHARACTERS:
            expected = (f"at most {MAX_ALIAS_CHARACTERS} characters",)
            raise Fault(where + 1, f"the alias has {len(alias)} characters", found=alias, expected=expected)
        return SelectRule("*" if path == "*" else _column_path(path, _start(selected)), alias or None, _start(head))

    def time(self, children: list[Token]) -> Filter:
        head, sign, written = children
        if sign.type not in ("COLON", "ORDER"):
            expected = ("`:`", "`:>`", "`:>=`", "`:<`", "`:<=`")
            raise Fault(_start(sign), f"{named(sign)} does not compare times", found=sign, expected=expected)
        time = read_time(str(written), position=_start(written))
        if isinstance(time, Instant):
            return TimeRule(OPERATORS[sign], time.moment, origin=time.origin, position=_start(head))
        if sign.type == "ORDER":
            raise _compared_interval(sign, written)
        if isinstance(time, Interval):
            return TimeRangeRule(time.lower, time.upper, origin=time.origin, position=_start(head))
        return TimeShorthandRule(time, position=_start(head))

    def comparison(self, children: list[Token]) -> Filter:
        head, sign, written = children
        path = _path(head, _start(head))
        if written.type == "RANGE":
            if sign.type != "COLON":
                raise _compared_interval(sign, written)
            return _range(path, written, _start(head))
        if sign.type != "COLON" and written == "NULL":
            reason = f"{named(sign)} cannot compare with NULL"
            raise Fault(_start(sign), reason, found=sign, expected=("`:`",), hint='Write "NULL" for the text.')
        if written.type == "BARE":
            iso_kind(written, position=_start(written))  # the day or time must exist
        is_null = written.type == "BARE" and written == "NULL"
        forms = VALUE_FORMS if sign.type == "COLON" else ORDERED_FORMS
        value = None if is_null else _value(written, head + sign, forms)
        return FilterRule(path, OPERATORS[sign], value, position=_start(head))

    def match(self, children: list[Token]) -> FilterRule:
        head, sign, written = children
        value = _value(written, head + sign, REGEXP_FORMS)
        return FilterRule(_path(head, _start(head)), OPERATORS[sign], value, position=_start(head))

    def message(self, children: list[Token]) -> FilterRule:
        written = children[-1]
        matches = len(children) == 2
        value = _value(written, "~" if matches else "", REGEXP_FORMS if matches else MESSAGE_FORMS)
        operator = Operator.REGEXP if matches else Operator.STRING_CONTAINS
        return FilterRule(MESSAGE, operator, value, position=_start(children[0]))


def _start(token: Token) -> int:
    return cast(int, token.start_pos)  # Lark's lexer gives every token its offset


def _path(written: str, position: int) -> str:
    """Return the path that identifies a field. Raises Fault for a part that is empty or only partly in quotes."""
    whole = cast(re.Match[str], _WHOLE_PARTS.match(written)).end()
    if whole < len(written) or written.endswith("."):
        is_empty = written[whole : whole + 1] in ("", ".")
        fault = "is empty" if is_empty else "is only partly in double quotes"
        reason = f"a part of the field name {named(written)} {fault}"
        raise Fault(position + max(whole - is_empty, 0), reason, found=written, expected=PATH_FORMS)
    keys = keys_of(written)
    if not all(keys):
        reason = f"a part of the field name {named(written)} is empty"
        raise Fault(position + written.index('""'), reason, found=written, expected=PATH_FORMS)
    return path_of([METADATA, *keys[1:]] if keys[0] == "m" and len(keys) > 1 else keys)


def _hint(written: str) -> str:
    """Return the hint for what would be a path if a part of it were in quotes."""
    is_odd = '"' in written or "-" in written
    return 'Put a name with other characters in double quotes, such as m."x-real-ip".' if is_odd else ""


def _column_path(written: str, position: int) -> str:
    """Return the path of a selection or an aggregate, in which `t` is short for the timestamp."""
    return TIMESTAMP if written == "t" else _path(written, position)


def _period(name: str, position: int) -> Period:
    if name in PERIODS:
        return PERIODS[name]
    names = [f"`{period.value}`" for period in Period]
    raise Fault(position, f"{named(name)} is not a period of a chart", found=name, expected=names)


def _compared_interval(sign: Token, written: Token) -> Fault:
    reason = f"{named(sign)} cannot compare with the interval {named(written)}"
    return Fault(_start(sign), reason, found=sign, expected=("`:`",))


def _range(path: str, written: Token, position: int) -> Filter:
    lower, upper = str(written).split("..")
    middle = _start(written) + len(lower) + 2
    lower_kind, upper_kind = _range_kind(lower, _start(written)), _range_kind(upper, middle)
    if path == LEVEL_PATH and None in (lower_kind, upper_kind):
        for level, where in ((lower, _start(written)), (upper, middle)):
            if level not in LEVELS:
                names = [f"`{name}`" for name in LEVELS]
                raise Fault(where, f"{named(level)} is not a level", found=level, expected=names)
        return LevelRangeRule(lower, upper, position=position)
    if lower_kind is None or lower_kind != upper_kind:
        kinds = f"{lower_kind or 'text'} and {upper_kind or 'text'}"
        reason = f"the ends of the range {named(written)} are {kinds}"
        expected = ("two numbers", "two dates", "two times with zone", "two times without zone")
        hint = "Text with two dots in a row is a range unless it is in double quotes."
        raise Fault(_start(written), reason, found=written, expected=expected, hint=hint)
    return RangeRule(path, Value(lower), Value(upper), position=position)


def _range_kind(end: str, position: int) -> str | None:
    return "number" if _NUMBER.fullmatch(end) else iso_kind(end, position=position)


def _value(written: Token, head: str, expected: Sequence[str]) -> Value:
    """Return the value; `head` is the text before it, for a message that shows the right form."""
    match written.type:
        case "QUOTED" | "PARENTHESES":
            return Value(unescaped(written[1:-1]), quoted=True)
        case "UNCLOSED_QUOTE":
            reason, expected = "the quote is never closed", ('a closing `"`',)
            raise Fault(_start(written), reason, found=written, expected=expected)
        case "UNCLOSED_PARENTHESIS":
            reason, expected = "the parenthesis is never closed", ("a closing `)`",)
            raise Fault(_start(written), reason, found=written, expected=expected)
        case "INVALID":
            raise _invalid_value(written, head, expected)
        case _:
            return Value(str(written))


def _invalid_value(written: Token, head: str, expected: Sequence[str]) -> Fault:
    at = _start(written)
    if not head and re.match(r'[A-Za-z0-9_.]+\."', written):
        reason = f"{named(written)} is not a path with an operator behind it"
        expected = ('a filter such as `m."x-real-ip":1`',)
        hint = "A part in double quotes must be closed, and stand between dots."
    elif written[0] in '"(':
        what = "quote" if written[0] == '"' else "parenthesis"
        reason = f"white space must follow the closing {what}"
        hint = 'Inside quotes, write a quote as \\".'
        if not head and what == "quote":
            hint += ' A field in quotes has m. in front: m."x-real-ip":1.'
    elif written[0] in ":<>=~@" and head:
        reason = f"{named(written)} is used where a value should begin"
        hint = "Write one operator between a field and its value; a value in double quotes may contain any text."
    else:
        reason = f"{named(written)} needs double quotes"
        if hidden := INVISIBLE.search(written):
            at, reason = at + hidden.start(), f"{called(hidden.group())} {INVISIBLE_REASON}"
        is_address = written.startswith("//")  # http://example.com is a word, not a field named http
        hint = advice_to_quote("", head + written) if is_address else advice_to_quote(head, written)
        meant = None if head else _MEANT.fullmatch(written)
        if meant and len(written) <= MAX_FOUND_CHARACTERS:
            hint = _advice_to_quote_part(written, *meant.groups())
    return Fault(at, reason, found=written, expected=expected, hint=hint)


def _advice_to_quote_part(written: str, path: str, sign: str, value: str) -> str:
    """Return the hint for what is a filter of a field, or text with a colon."""
    field = path_of(["m", *filter(None, path.split("."))])
    if '"' in value:
        return f"The field is written {field}."
    value = value if _PLAIN_VALUE.fullmatch(value) else quoted(value)
    return f"Write {field}{sign}{value} for the field, or {quoted(written)} for the text."
