"""The words, types and operators of the sandbox's subset of SELECT, and how other texts are refused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Final

from endpoints.errors import SandboxViolation
from endpoints.sql.lexemes import line_and_column
from logsources.allowed_functions import MAX_SUGGESTIONS

# --- Violations -------------------------------------------------------------------------------------------------------
# The form of a refusal: one sentence, and the construct, the reason, the place and what is allowed as data.
MAX_CONSTRUCT_CHARACTERS: Final = 63  # as long as an identifier can be

# Constructs that are described, not quoted.
THE_QUERY: Final = "the query"
THE_END: Final = "the end of the query"
A_STRING: Final = "a string"
_DESCRIPTIONS: Final = frozenset({THE_QUERY, THE_END, A_STRING})
# Log viewers of other services write it too.
_CLICKHOUSE: Final = re.compile(r"\blog_attributes\s*\[|\bto(?:StartOf|UnixTimestamp|DateTime)\w*\(")


def violation(
    sql: str,
    offset: int,
    *,
    construct: str,
    reason: str,
    tables: Sequence[str],
    similar: Sequence[str] = (),
) -> SandboxViolation:
    """Return the refusal of `construct` at `offset` of the consumer's text; `reason` is its predicate."""
    line, column = line_and_column(sql, offset)
    shown = construct if len(construct) <= MAX_CONSTRUCT_CHARACTERS else construct[:MAX_CONSTRUCT_CHARACTERS] + "…"
    detail: dict[str, object] = {
        "construct": shown,
        "reason": reason,
        "line": line,
        "column": column,
        "tables": list(tables),
    }
    hint = ""
    if _CLICKHOUSE.search(sql):
        hint = " This looks like ClickHouse's SQL; an endpoint reads PostgreSQL's or BigQuery's, as it is set."
    elif similar:
        detail["similar"] = list(similar)
        hint = f" Did you mean {' or '.join(f'`{name}`' for name in similar)}?"
    subject = shown if shown in _DESCRIPTIONS else f"`{shown}`"
    return SandboxViolation(f"Line {line}, column {column}: {subject} {reason}.{hint}", details=[detail])


def similar_names(name: str, known: Iterable[str]) -> list[str]:
    """Return the names near to `name`, nearest first."""
    return get_close_matches(name, sorted(known), n=MAX_SUGGESTIONS)


# --- Vocabulary -------------------------------------------------------------------------------------------------------
def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Every word that PostgreSQL 15 to 18 reserves, for everything or for functions and types (pg_get_keywords(), catcode R
# and T): never an identifier unless quoted. Other key words are identifiers wherever they begin no syntax known here.
RESERVED: Final = _words(
    """all analyse analyze and any array as asc asymmetric authorization binary both case cast check collate collation
    column concurrently constraint create cross current_catalog current_date current_role current_schema current_time
    current_timestamp current_user default deferrable desc distinct do else end except false fetch for foreign freeze
    from full grant group having ilike in initially inner intersect into is isnull join lateral leading left like limit
    localtime localtimestamp natural not notnull null offset on only or order outer overlaps placing primary references
    returning right select session_user similar some symmetric system_user table tablesample then to trailing true
    union unique user using variadic verbose when where window with"""
)
RESERVED_FUNCTIONS: Final = _words("left right")  # reserved, yet also the names of functions

# Operators of schema pg_catalog on the allowed types. No query reaches an operator of another schema.
OPERATORS: Final = _words(
    """+ - * / % ^ = <> != < > <= >= || ~ ~* !~ !~* ~~ ~~* !~~ !~~*
    -> ->> #> #>> #- @> <@ ? ?| ?& @? @@ & | # && << >> <<= >>= -|- &< &> ^@"""
)
PREFIX_OPERATORS: Final = _words("+ - ~ not")
SET_OPERATIONS: Final = _words("union intersect except")
JOIN_BEGINNINGS: Final = _words("join inner left right full cross natural")
# A literal's symbol, as `tokens` gives it, and what lists of literals have: with these no value grows.
LITERALS: Final = _words("' 0 @name null true false")
LITERAL_LISTS: Final = LITERALS | _words(", ( ) [ ] + -")
# A row before or after them is compared, column by column.
ROW_COMPARISONS: Final = _words("= <> != < > <= >= in not is isnull notnull overlaps between")
QUANTIFIERS: Final = _words("any all some")

INTERVAL_FIELDS: Final = ("year", "month", "day", "hour", "minute", "second")
EXTRACT_FIELDS: Final = _words(
    """century day decade dow doy epoch hour isodow isoyear julian microseconds millennium milliseconds minute month
    quarter second timezone timezone_hour timezone_minute week year"""
)

# Type words → their type in pg_catalog. No oid and reg* types (their input reads the catalogs), no name,
# xml, xid, tid or pg_lsn, no row types, no domains.
PINNED_TYPES: Final = {word: f'pg_catalog."{name}"' for word, name in (
    ("int", "int4"), ("integer", "int4"), ("smallint", "int2"), ("bigint", "int8"), ("real", "float4"),
    ("boolean", "bool"), ("decimal", "numeric"), ("dec", "numeric"),
    *((name, name) for name in (
        "int2", "int4", "int8", "float4", "float8", "numeric", "bool", "text", "varchar", "bpchar", "bytea",
        "date", "timestamptz", "timetz", "json", "jsonb", "jsonpath", "uuid", "inet", "cidr", "macaddr",
        "tsrange", "tstzrange", "daterange", "int4range", "int8range", "numrange",
    )),
)}  # fmt: skip
# Types with a syntax of their own, which always means the type in pg_catalog.
KEYWORD_TYPES: Final = _words("float char character time timestamp interval double")
TYPE_WORDS: Final = KEYWORD_TYPES | PINNED_TYPES.keys()
PADDED_TYPES: Final = _words("char character bpchar")  # char(n) has n characters, however short the text is
TYPES_WITH_MODIFIERS: Final = _words(
    "numeric decimal dec varchar bpchar char character float time timetz timestamp timestamptz interval"
)

# Why some words are refused everywhere; the others are just "not expected here".
_ROLE = "shows details of the database session"
_LOCK = "locks rows"
_NO_TABLE = "is not part of sandbox queries; write SELECT * FROM"
REASONS: Final = {
    **dict.fromkeys(("user", "current_user", "session_user", "system_user", "current_role"), _ROLE),
    **dict.fromkeys(("current_catalog", "current_schema"), _ROLE),
    "into": "would write a table",
    "for": _LOCK,
    "table": _NO_TABLE,
    "only": "is not part of sandbox queries",
    "tablesample": "is not part of sandbox queries",
    "collate": "is not part of sandbox queries",
    "using": "is not expected here",
    "recursive": "is not part of sandbox queries",
    "values": "is not part of sandbox queries; use unnest(array[…])",
    "operator": "is not part of sandbox queries; write the operator itself",
    ";": "is not expected here; a sandbox query is one statement",
}
