"""PARSE_TIMESTAMP and similar functions: the format as a pattern, and the field that each of its groups is."""

from __future__ import annotations

import re
from typing import Final

from sqlglot import exp

from googlesql import Refused
from googlesql.coercions import as_text
from googlesql.kinds import Kind
from googlesql.lowering import Lowering, Rule, text_of
from googlesql.refusals import origin, refusal_of
from googlesql.rules.time_formats import DIRECTIVE
from googlesql.rules.time_zones import zone_of
from googlesql.tree import Expression, call, cast, in_utc, string

_MONTHS: Final = "(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_SECONDS: Final = r"(\d{1,2}(?:\.\d*)?)"
# Directive → pattern and the letters of its groups for log_functions.parsed_moment()
_PIECES: Final = {
    **dict.fromkeys(("%Y", "%E4Y"), (r"(\d{1,4})", "Y")),
    "%y": (r"(\d{1,2})", "y"),
    "%m": (r"(\d{1,2})", "m"),
    **dict.fromkeys(("%b", "%B", "%h"), (_MONTHS, "b")),
    **dict.fromkeys(("%d", "%e"), (r"\s*(\d{1,2})", "d")),
    "%j": (r"(\d{1,3})", "j"),
    **dict.fromkeys(("%a", "%A"), ("[a-z]+", "")),
    **dict.fromkeys(("%H", "%k"), (r"\s*(\d{1,2})", "H")),
    **dict.fromkeys(("%I", "%l"), (r"\s*(\d{1,2})", "I")),
    "%M": (r"(\d{1,2})", "M"),
    **dict.fromkeys(("%S", "%E0S"), (r"(\d{1,2})", "S")),
    "%E*S": (_SECONDS, "S"),
    **{f"%E{digits}S": (_SECONDS, "S") for digits in range(1, 10)},
    **dict.fromkeys(("%p", "%P"), ("([ap]m)", "p")),
    **dict.fromkeys(("%z", "%Ez"), (r"([+-]\d\d:?\d\d|z)", "z")),
    "%Z": ("(?:utc|gmt|z)", ""),
    "%s": (r"(-?\d{1,12})", "s"),
    **dict.fromkeys(("%n", "%t"), (r"\s*", "")),
    "%%": ("%", ""),
}
_COMPOSED: Final = {
    "%F": "%Y-%m-%d", "%T": "%H:%M:%S", "%X": "%H:%M:%S", "%R": "%H:%M", "%D": "%m/%d/%y", "%x": "%m/%d/%y",
    "%c": "%a %b %e %H:%M:%S %Y", "%r": "%I:%M:%S %p",
}  # fmt: skip
_FUNCTIONS: Final[dict[type[exp.Expr], tuple[str, Kind]]] = {
    exp.StrToTime: ("PARSE_TIMESTAMP", Kind.TIMESTAMP),
    exp.ParseDatetime: ("PARSE_DATETIME", Kind.DATETIME),
    exp.StrToDate: ("PARSE_DATE", Kind.DATE),
    exp.ParseTime: ("PARSE_TIME", Kind.TIME),
}


def parse(node: exp.Func, lowering: Lowering) -> Expression:
    # parse_timestamp('%d/%m/%Y', x)  ->  parsed_moment(x, '(?i)^\s*(\d{1,2})/(\d{1,2})/(\d{1,4})$', 'dmY', 'UTC')
    name, kind = _FUNCTIONS[type(node)]
    if isinstance(node, exp.StrToDate | exp.StrToTime) and node.args.get("default_year") is None:
        raise refusal_of(node, "is not supported; use PARSE_DATE or PARSE_TIMESTAMP", construct="CAST … FORMAT")
    written = text_of(node.args.get("format"))
    if written is None:
        raise refusal_of(node, "needs a constant format", construct=name)
    pattern, fields = _pattern(written, node)
    zone = node.args.get("zone")
    at = string("UTC") if zone is None else zone_of(zone, lowering)
    if at.kind is Kind.INTERVAL:
        raise refusal_of(node, "needs the name of a time zone", construct=name)
    arguments = (as_text(lowering.lower(node.this)), string(pattern), string(fields), at)
    moment = call("parsed_moment", *arguments, kind=Kind.TIMESTAMP)
    if kind is Kind.TIMESTAMP:
        return moment
    local = in_utc(moment, Kind.DATETIME)
    return local if kind is Kind.DATETIME else cast(local, kind.value, kind)


def _pattern(written: str, node: exp.Expr) -> tuple[str, str]:
    pattern, fields = "", ""
    for piece in _directives(written):
        if piece in _PIECES:
            pattern += _PIECES[piece][0]
            fields += _PIECES[piece][1]
        elif piece.startswith("%"):
            raise Refused(piece, "is not a supported part of a time format", offset=origin(node))
        else:
            pattern += re.sub(r"\s+|[^\sA-Za-z0-9]", lambda match: _literal(match[0]), piece)
    return f"(?i)^{pattern}$", fields


def _literal(text: str) -> str:
    return r"\s*" if text.isspace() else f"\\{text}" if text.isascii() and text != "_" else text


def _directives(written: str) -> list[str]:
    pieces: list[str] = []
    for piece in DIRECTIVE.findall(written):
        pieces += DIRECTIVE.findall(_COMPOSED[piece]) if piece in _COMPOSED else [piece]
    return pieces


RULES: Final[dict[type[exp.Expr], Rule]] = dict.fromkeys(_FUNCTIONS, parse)
