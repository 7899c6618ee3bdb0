"""Which functions and operators of sandbox queries are guarded against large operands, and how.

PostgreSQL looks at its clock between rows and in some loops, but not inside most functions. If the time of one call
is a product of two sizes, a consumer's kilobyte of SQL makes it minutes, which neither statement_timeout nor
pg_terminate_backend() ends. So these are called by twins in the schema log_functions (logsources.guard_definitions),
which refuse operands that are too large together:

* `SEARCHES`: functions of a text and a pattern; the checker pins their names to log_functions instead of pg_catalog;
* `OPERATORS`: the search path of sandbox queries has log_functions before pg_catalog, and an operator there hides
  PostgreSQL's own of the same name and types. Syntax such as LIKE finds it too, and no precedence changes;
* `BOUNDED_RESULTS`: functions that can make large values; the checker puts the twin of the same name around the call.
  `largest_value` says for each query how large they may be;
* `LINEAR`: their operand has no bound below that of `SEARCHES`, but is a look at the clock as it is there;
* array_to_string(): its delimiter times the elements;
* arithmetic of numerics: the digits of the one times the digits of the other, and for a series more than that;
* `HASHES`: linear, but a row can have hundreds of them: their operand is bounded;
* widths that a query writes down: `FORMAT_WIDTH`, `LARGEST_WIDTH`.

A twin is a SQL expression that PostgreSQL inlines: with a short literal as the pattern only the
function itself is left. Everything else of the allowlist ends in time by itself: tests/fuzz/large_operands.py tries it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product
from typing import Final

# PostgreSQL does 50 to 500 million steps a second in these functions: about half a second for one call.
LARGEST_PRODUCT: Final = 50_000_000  # bytes of the one operand times bytes of the other
LARGEST_VALUE: Final = 4 * 1024 * 1024  # bytes of a text or binary string that is built or searched
# A query is a chain of calls, each over a value that it has built, and PostgreSQL looks at its clock between rows only:
# the longer the text, the smaller the values it may build. upper() does 300 million bytes a second.
SMALL_VALUE: Final = 64 * 1024  # bytes that every query may build
LARGEST_CHAIN: Final = 2_500_000_000  # characters of the text times bytes of a value; a call takes 20 characters
LARGEST_VALUE_SETTING: Final = "log_functions.largest_value"
LARGEST_HASHED: Final = 1024 * 1024  # bytes
LARGEST_WIDTH: Final = 9_999  # characters, of char(n) and of what format() pads to
# `%40000s` takes a width from the template, `%*s` from an argument.
FORMAT_WIDTH: Final = r"%(\d+\$)?-*(\*|0*[1-9]\d{4,})"

# Of numerics that are multiplied or divided: 1,500 of them take a tenth of a second. A sum has hardly more digits than
# its parts, so it needs no bound.
MOST_DIGITS: Final = 1_000  # before the point
MOST_DECIMALS: Final = 500  # after it
# exp(), ln() and the like add up a series of such products.
MOST_DIGITS_OF_SERIES: Final = 100
LARGEST_EXPONENT: Final = 600  # of e: 260 digits
LONGEST_FORMAT: Final = 1_000  # bytes; to_char() and to_number() do 20 million a second

GUARD_SQLSTATE: Final = "LQ001"  # the twins raise it; of no class that PostgreSQL has
GUARD_MESSAGE: Final = "the operands are too large together"


@dataclass(frozen=True, slots=True)
class Search:
    """A function whose time is the size of its first argument times the size of its second.

    `straight` is the size in bytes up to which a pattern goes to PostgreSQL's own without a check of the product.
    With `grows` the third argument replaces what is found.
    """

    name: str
    arguments: tuple[str, ...]
    returns: str
    straight: int = 64
    grows: bool = False


_TRIMS: Final = ("btrim", "ltrim", "rtrim")
SEARCHES: Final = (
    # Each character of the text is looked for in the set, one by one.
    Search("translate", ("text", "text", "text"), "text", straight=16),
    *(Search(name, ("text", "text"), "text", straight=16) for name in _TRIMS),
    *(Search(name, ("bytea", "bytea"), "bytea", straight=16) for name in _TRIMS),
    # Boyer-Moore-Horspool, which is a product in its worst case (varlena.c, text_position_next).
    Search("strpos", ("text", "text"), "integer"),
    Search("position", ("text", "text"), "integer"),
    Search("position", ("bytea", "bytea"), "integer"),
    Search("replace", ("text", "text", "text"), "text", grows=True),
    Search("split_part", ("text", "text", "integer"), "text"),
    Search("string_to_array", ("text", "text"), "text[]"),
    Search("string_to_array", ("text", "text", "text"), "text[]"),
)
# Functions of numerics → how many they take. Here each operand is bounded, there all are measured.
FACTORS: Final = (("mod", 2), ("div", 2), ("gcd", 2), ("lcm", 2), ("sqrt", 1))
SERIES: Final = (("exp", 1), ("ln", 1), ("log", 1), ("log", 2), ("log10", 1), ("power", 2), ("pow", 2))
# These square what they add up, which has this function around it.
SQUARING: Final = frozenset({"stddev", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp"})
SQUARED: Final = "squared"
# Overloads and forms of the same names that need no guard, or get it from another twin: name, arguments, result, body.
PASSED_ON: Final = (
    *((name, ("text",), "text", "pg_catalog.{name}($1)") for name in _TRIMS),
    ("string_to_table", ("text", "text"), "SETOF text", "unnest(log_functions.string_to_array($1, $2))"),
    ("string_to_table", ("text", "text", "text"), "SETOF text", "unnest(log_functions.string_to_array($1, $2, $3))"),
    *((name, ("float8",), "float8", "pg_catalog.{name}($1)") for name in ("exp", "ln", "log", "log10", "sqrt")),
    *((name, ("float8", "float8"), "float8", "pg_catalog.{name}($1, $2)") for name in ("power", "pow")),
    *(
        (name, (type_, type_), type_, "pg_catalog.{name}($1, $2)")
        for name, type_ in product(("gcd", "lcm", "mod"), ("int4", "int8"))
    ),
    ("mod", ("int2", "int2"), "int2", "pg_catalog.{name}($1, $2)"),
    *((SQUARED, (type_,), type_, "$1") for type_ in ("int2", "int4", "int8", "float4", "float8")),
)
HASHES: Final = ("md5", "sha224", "sha256", "sha384", "sha512")
# Linear, but slow with ICU: 75 ms for the largest row, hundreds of times in one query. Looked at like what is searched.
LINEAR: Final = ("initcap",)

# Name → the types of its result. The twin takes and returns the result itself.
BOUNDED_RESULTS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("format", "concat", "concat_ws"), ("text",)),
    # Each makes some times as much of its operand, and of its own result again.
    **dict.fromkeys(("encode", "jsonb_pretty", "regexp_replace", "to_char"), ("text",)),
    **dict.fromkeys(("quote_ident", "quote_literal", "quote_nullable"), ("text",)),
    # Each byte that is no ASCII can become two of them again.
    **dict.fromkeys(("convert_from", "jsonb_extract_path_text"), ("text",)),
    "convert_to": ("bytea",),
    **dict.fromkeys(("array_append", "array_cat", "array_prepend", "array_replace"), ("anyarray",)),
    **dict.fromkeys(("json_build_array", "json_build_object", "to_json"), ("json",)),
    **dict.fromkeys(("row_to_json", "array_to_json"), ("json",)),
    **dict.fromkeys(("jsonb_build_array", "jsonb_build_object", "to_jsonb", "jsonb_object"), ("jsonb",)),
    **dict.fromkeys(("jsonb_insert", "jsonb_set", "jsonb_set_lax"), ("jsonb",)),
    # `$[0, 0]` takes an element twice.
    **dict.fromkeys(("jsonb_path_query_array", "jsonb_path_query_array_tz"), ("jsonb",)),
    # Forms with a syntax of their own.
    "overlay": ("text", "bytea"),
    "array": ("anyarray",),
    "row": ("anyelement",),
    # Of this service, for the BigQuery dialect.
    "array_text": ("text",),
    **dict.fromkeys(("split_text", "pattern_matches"), ("jsonb",)),
    **dict.fromkeys(("number_series", "date_series"), ("jsonb",)),
    "string_agg": ("text", "bytea"),
    "array_agg": ("anyarray",),
    **dict.fromkeys(("json_agg", "json_agg_strict", "json_object_agg", "json_object_agg_strict"), ("json",)),
    **dict.fromkeys(("json_object_agg_unique",), ("json",)),
    **dict.fromkeys(("jsonb_agg", "jsonb_agg_strict", "jsonb_object_agg", "jsonb_object_agg_strict"), ("jsonb",)),
    **dict.fromkeys(("jsonb_object_agg_unique",), ("jsonb",)),
}
# Type of a cast → the domain between, which looks at the size; texts of rows, arrays and documents can be far larger.
BOUNDED_CASTS: Final = {
    **dict.fromkeys(("text", "varchar", "bpchar", "char", "character"), "built_text"),
    **dict.fromkeys(("text[]", "varchar[]", "bpchar[]", "char[]", "character[]"), "built_texts"),
}
# Functions whose second argument is a format.
FORMATTING: Final = frozenset({"to_char", "to_number", "to_date", "to_timestamp"})
# What the checker pins to log_functions.
GUARDED_FUNCTIONS: Final = frozenset(
    {
        *(search.name for search in SEARCHES),
        *(passed[0] for passed in PASSED_ON),
        *HASHES,
        *LINEAR,
        "array_to_string",
        "div",
    }
)

# `||` has the precedence of OPERATOR(), so one can replace the other.
GUARDED_CONCATENATION: Final = "OPERATOR(log_functions.||)"
NESTED_OPERATORS: Final = ("*", "/", "%", "^", GUARDED_CONCATENATION)  # of twins that operands of twins can have
MAX_APPENDED_ARGUMENTS: Final = 4  # `|| @name` in one query that PostgreSQL's own operator joins

_WIDE: Final = re.compile(FORMAT_WIDTH)


def largest_value(sql: str) -> int:
    """Return how many bytes a value may have that this query builds; LARGEST_VALUE_SETTING passes it to the twins."""
    return max(SMALL_VALUE, min(LARGEST_VALUE, LARGEST_CHAIN // max(1, len(sql))))


def is_wide_template(template: str) -> bool:
    """Return whether format() would pad to more than `LARGEST_WIDTH` characters, or to a width that is an argument."""
    return _WIDE.search(template) is not None
