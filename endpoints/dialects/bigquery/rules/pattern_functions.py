"""REGEXP_CONTAINS and similar functions; `patterns` translates the pattern itself."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from sqlglot import exp

from endpoints.dialects.bigquery.coercions import as_text
from endpoints.dialects.bigquery.kinds import Kind
from endpoints.dialects.bigquery.lowering import Lowering, Rule, number_of, offset_of, text_of
from endpoints.dialects.bigquery.patterns import PatternError, translate_pattern
from endpoints.dialects.bigquery.refusals import Refusal, refusal_of
from endpoints.dialects.bigquery.tree import Call, Chain, Constant, Expression, Subscript
from endpoints.dialects.bigquery.values import call, chain, infix, string

_LEADING_FLAGS: Final = re.compile(r"\(\?([is]+)\)")
_BACKREFERENCE: Final = re.compile(r"\\(\\|\d)")


def pattern(node: exp.Expr, lowering: Lowering) -> Expression:
    """Return PostgreSQL's form of the pattern; a pattern known only per row stays as it is, except for `.`."""
    value = as_text(lowering.lower(node))
    if isinstance(value, Constant) and value.text is not None:
        try:
            return string(translate_pattern(value.text), origin=value.origin)
        except PatternError as error:
            raise Refusal("the pattern", str(error), offset=_known(value.origin, node)) from error
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


def contains(node: exp.RegexpLike, lowering: Lowering) -> Expression:
    value = as_text(lowering.lower(node.this))
    return infix(value, "~", pattern(node.expression, lowering), kind=Kind.BOOLEAN)


def extract(node: exp.RegexpExtract, lowering: Lowering) -> Expression:
    # regexp_extract(x, 'a(b)')  ->  (regexp_match(x, 'a(b)'))[1]
    if number_of(node.args.get("position")) not in (None, 1) or number_of(node.args.get("occurrence")) not in (None, 1):
        raise refusal_of(node, construct="REGEXP_EXTRACT with a position")
    found = call(
        "regexp_match", as_text(lowering.lower(node.this)), pattern(node.expression, lowering), kind=Kind.OTHER
    )
    return Subscript(kind=Kind.TEXT, operand=found, index="1")


def extract_all(node: exp.RegexpExtractAll, lowering: Lowering) -> Expression:
    raise refusal_of(node, construct="REGEXP_EXTRACT_ALL")


def replacement(node: exp.RegexpReplace, lowering: Lowering) -> Expression:
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
    exp.RegexpLike: contains,
    exp.RegexpExtract: extract,
    exp.RegexpExtractAll: extract_all,
    exp.RegexpReplace: replacement,
}
