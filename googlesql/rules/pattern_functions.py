"""REGEXP_CONTAINS and similar functions; `patterns` translates the pattern itself."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from sqlglot import exp

from googlesql import Refused
from googlesql.coercions import as_text
from googlesql.kinds import Kind
from googlesql.lowering import Lowering, Rule, number_of, offset_of, text_of
from googlesql.patterns import PatternError, has_groups, translate_pattern
from googlesql.refusals import refusal_of
from googlesql.tree import (
    Call,
    Chain,
    Constant,
    Expression,
    Subscript,
    call,
    chain,
    infix,
    integer,
    string,
)

_LEADING_FLAGS: Final = re.compile(r"\(\?([is]+)\)")
_BACKREFERENCE: Final = re.compile(r"\\(\\|\d)")


def pattern(node: exp.Expr, lowering: Lowering) -> Expression:
    """Return PostgreSQL's form of the pattern; a pattern known only per row stays as it is, except for `.`."""
    value = as_text(lowering.lower(node))
    if isinstance(value, Constant) and value.text is not None:
        try:
            return string(translate_pattern(value.text), origin=value.origin)
        except PatternError as error:
            raise Refused("the pattern", str(error), offset=_known(value.origin, node)) from error
    flags = "p"
    if isinstance(value, Chain) and isinstance(first := value.operands[0], Constant) and first.text is not None:
        match = _LEADING_FLAGS.match(first.text)
        if match is not None:
            # (?i) must stay at the very beginning.
            flags = match[1].replace("s", "") + ("" if "s" in match[1] else "p")
            rest = string(first.text[match.end() :], origin=first.origin)
            value = replace(value, operands=(rest, *value.operands[1:]))
    return chain("||", string(f"(?{flags})") if flags else string(""), value, kind=Kind.TEXT)


def _known(offset: int, node: exp.Expr) -> int | None:
    found = offset if offset >= 0 else offset_of(node)
    return found if found >= 0 else None


def contains_pattern(node: exp.RegexpLike, lowering: Lowering) -> Expression:
    value = as_text(lowering.lower(node.this))
    return infix(value, "~", pattern(node.expression, lowering), kind=Kind.BOOLEAN)


def extract(node: exp.RegexpExtract, lowering: Lowering) -> Expression:
    # regexp_extract(x, 'a(b)')  ->  (regexp_match(x, 'a(b)'))[1]
    # regexp_extract(x, 'a(b)', 3, 2)  ->  pattern_matches(substr(x, 3), 'a(b)') ->> 1
    place, occurrence = (_number(node, name) for name in ("position", "occurrence"))
    value, wanted = as_text(lowering.lower(node.this)), pattern(node.expression, lowering)
    if place > 1:
        value = call("substr", value, integer(place), kind=Kind.TEXT)
    if occurrence > 1:
        matches = call("pattern_matches", value, wanted, kind=Kind.JSON)
        return infix(matches, "->>", integer(occurrence - 1), kind=Kind.TEXT)
    return Subscript(kind=Kind.TEXT, operand=call("regexp_match", value, wanted, kind=Kind.OTHER), index="1")


def _number(node: exp.Expr, name: str) -> int:
    """Return the number of an argument that counts from 1, which is also its default."""
    written = node.args.get(name)
    number = 1 if written is None else number_of(written)
    if number is None or not 1 <= number < 2**31:
        raise refusal_of(node, f"needs a constant {name}, counted from 1")
    return number


def extract_all(node: exp.RegexpExtractAll, lowering: Lowering) -> Expression:
    return call(
        "pattern_matches", as_text(lowering.lower(node.this)), pattern(node.expression, lowering), kind=Kind.JSON
    )


def found_at(node: exp.RegexpInstr, lowering: Lowering) -> Expression:
    # regexp_instr(x, 'a(b)', 1, 2)  ->  regexp_instr(x, 'a(b)', 1, 2, 0, '', 1): where the group is, if there is one
    wanted = pattern(node.expression, lowering)
    if not isinstance(wanted, Constant) or wanted.text is None:
        raise refusal_of(node, "needs a constant pattern")
    place, occurrence = (_number(node, name) for name in ("position", "occurrence"))
    end = number_of(node.args["option"]) if node.args.get("option") is not None else 0
    if end not in (0, 1):
        raise refusal_of(node, "needs 0 or 1 as its last argument")
    numbers = (integer(place), integer(occurrence), integer(end))
    group = integer(1 if has_groups(wanted.text) else 0)
    value = as_text(lowering.lower(node.this))
    return call("regexp_instr", value, wanted, *numbers, string(""), group, kind=Kind.INTEGER)


def pattern_replacement(node: exp.RegexpReplace, lowering: Lowering) -> Expression:
    values = [as_text(lowering.lower(node.this)), pattern(node.expression, lowering)]
    written = text_of(node.args.get("replacement"))
    if written is None:
        values.append(as_text(lowering.lower(node.args.get("replacement"))))
    else:
        # the whole match is \0 in BigQuery and \& here
        text = _BACKREFERENCE.sub(lambda match: r"\&" if match[1] == "0" else match.group(), written)
        values.append(string(text))
    return Call(kind=Kind.TEXT, name="regexp_replace", arguments=(*values, string("g")))


RULES: Final[dict[type[exp.Expr], Rule]] = {
    exp.RegexpLike: contains_pattern,
    exp.RegexpExtract: extract,
    exp.RegexpExtractAll: extract_all,
    exp.RegexpInstr: found_at,
    exp.RegexpReplace: pattern_replacement,
}
