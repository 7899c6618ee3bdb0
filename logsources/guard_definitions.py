"""The twins in schema log_functions that refuse operands too large for a function or operator (logsources.guards).

There are three forms, so that a query over rows pays almost nothing:

* ``CASE WHEN octet_length(pattern) > 64 THEN <slow> ELSE <PostgreSQL's own> END`` as a SQL expression. PostgreSQL
  inlines it, and with a constant pattern folds it away while planning. The slow half is PL/pgSQL, which measures both
  operands and looks at the clock; each row takes only one of the two, so no operand is computed twice.
* ``(…)::domain``: a domain's CHECK looks at the value in a few nanoseconds, and the value is computed once. A domain
  over a constant is not folded, so patterns are never cast to one.
* Only PL/pgSQL, for arrays and jsonb, whose size has to be measured.

No domain here may have the name of a function here: PostgreSQL takes `name(value)` for a cast to a type of that name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final

from logsources.guards import (
    BOUNDED_RESULTS,
    FACTORS,
    FORMAT_WIDTH,
    GUARD_MESSAGE,
    GUARD_SQLSTATE,
    HASHES,
    LARGEST_EXPONENT,
    LARGEST_HASHED,
    LARGEST_PRODUCT,
    LARGEST_VALUE,
    LARGEST_VALUE_SETTING,
    LINEAR,
    LONGEST_FORMAT,
    MOST_DECIMALS,
    MOST_DIGITS,
    MOST_DIGITS_OF_SERIES,
    PASSED_ON,
    SEARCHES,
    SERIES,
    SMALL_VALUE,
    SQUARED,
    Search,
)

BYTES_OF_ELEMENT: Final = 4  # of a built array, at least
LARGEST_GROWTH: Final = 8 * LARGEST_VALUE  # bytes that replace() may produce on the way


def _may_be_built(size: str) -> str:
    # Every name is qualified, for functions without a search path of their own, which takes a microsecond to set.
    most = " OPERATOR(pg_catalog.<=) "
    return f"({size}){most}{SMALL_VALUE} OR ({size}){most}log_functions.largest_value()"


def _elements_may_be_built(value: str) -> str:
    elements = _may_be_built(f"pg_catalog.cardinality({value}) OPERATOR(pg_catalog.*) {BYTES_OF_ELEMENT}")
    return f"({elements}) AND ({_may_be_built(f'log_functions.stored_size({value}) OPERATOR(pg_catalog./) 8')})"


# A row may have a value larger than a long query may build, and the query hundreds of calls over it, each of up to
# 0.2 s. PL/pgSQL looks at the clock with each of its statements, so any function in it bounds the sum.
_MAY_BE_SEARCHED: Final = (
    f"octet_length(VALUE) <= {SMALL_VALUE}"
    f" OR octet_length(VALUE) <= {LARGEST_VALUE} AND log_functions.largest_value() IS NOT NULL"
)


# Domain → its type and its check.
DOMAINS: Final = {
    "searched_text": ("text", _MAY_BE_SEARCHED),
    "searched_bytea": ("bytea", _MAY_BE_SEARCHED),
    "hashed_text": ("text", f"octet_length(VALUE) <= {LARGEST_HASHED}"),
    "hashed_bytea": ("bytea", f"octet_length(VALUE) <= {LARGEST_HASHED}"),
    "built_text": ("text", _may_be_built("octet_length(VALUE)")),
    "built_bytea": ("bytea", _may_be_built("octet_length(VALUE)")),
    "built_json": ("json", _may_be_built("octet_length(VALUE::text)")),
    "built_texts": ("text[]", _elements_may_be_built("VALUE")),
    "short_numeric": (
        "numeric",
        f"VALUE < 1e{MOST_DIGITS} AND VALUE > -1e{MOST_DIGITS} AND scale(VALUE) <= {MOST_DECIMALS}"
        " OR VALUE IN ('NaN', 'Infinity', '-Infinity')",
    ),
    "short_format": ("text", f"octet_length(VALUE) <= {LONGEST_FORMAT}"),
    "format_template": ("text", f"VALUE !~ '{FORMAT_WIDTH}'"),
}
_RAISE: Final = f"RAISE EXCEPTION USING ERRCODE = '{GUARD_SQLSTATE}', MESSAGE = '{GUARD_MESSAGE}';"
# For functions that compare the elements of both arrays with each other; 64 comparisons need no measuring.
_BOTH_ARRAYS: Final = f"""
    cardinality($1)::bigint * cardinality($2) > 64
    AND log_functions.stored_size($1)::bigint * cardinality($2)
        + log_functions.stored_size($2)::bigint * cardinality($1) > {4 * LARGEST_PRODUCT}"""
_BOTH_DOCUMENTS: Final = (
    f"log_functions.stored_size($1)::bigint * log_functions.stored_size($2) > {4 * LARGEST_PRODUCT}"
)
_KEYS: Final = f"log_functions.stored_size($1)::bigint * cardinality($2) > {LARGEST_PRODUCT}"
_BUILT: Final = f"NOT ({_may_be_built('log_functions.stored_size($1)::bigint + log_functions.stored_size($2)')})"


@dataclass(frozen=True, slots=True)
class GuardFunction:
    """A function to create: its name, the types of its arguments, and the rest of its definition."""

    name: str
    arguments: tuple[str, ...]
    definition: str

    def create(self) -> str:
        """Return the statement that makes it."""
        arguments = ", ".join(self.arguments)
        statement = f"CREATE OR REPLACE FUNCTION log_functions.{self.name}({arguments}) RETURNS {self.definition}"
        return statement


@dataclass(frozen=True, slots=True)
class GuardOperator:
    """An operator that hides PostgreSQL's own with the same name and types; its function, and how it is planned."""

    name: str
    left: str
    right: str
    function: str
    options: str

    def create(self) -> str:
        """Return the statement that makes it."""
        options = f", {self.options}" if self.options else ""
        statement = (
            f"CREATE OPERATOR log_functions.{self.name}"
            f" (FUNCTION = log_functions.{self.function}, LEFTARG = {self.left}, RIGHTARG = {self.right}{options})"
        )
        return statement

    def alter(self) -> str:
        """Return the statement that gives an operator that exists these estimators, "" if it has none."""
        if not self.options:
            return ""
        return f"ALTER OPERATOR log_functions.{self.name} ({self.left}, {self.right}) SET ({self.options})"


Made = tuple[tuple[GuardFunction, ...], tuple[GuardOperator, ...]]


def _inlined(returns: str, expression: str, *, volatility: str = "IMMUTABLE") -> str:
    return f"{returns} LANGUAGE sql {volatility} PARALLEL SAFE RETURN {expression}"


def _measured(returns: str, too_large: str, expression: str, *, strict: str = " STRICT") -> str:
    # The search path is set where names could mean something else: in PL/pgSQL they are read at each session's first
    # call. SET keeps an expression from being inlined, which PL/pgSQL never is.
    return f"""{returns} LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE{strict} SET search_path = pg_catalog
        AS $$ BEGIN IF {too_large} THEN {_RAISE} END IF; RETURN {expression}; END $$"""


def _call(name: str, places: int) -> str:
    return f"pg_catalog.{name}({', '.join(f'${place}' for place in range(1, places + 1))})"


def _short(place: int) -> str:
    return f"${place}::log_functions.short_numeric::numeric"


def _divided(division: str) -> str:
    """Return the body of a division `{} by {}`: a constant divisor is looked at while planning."""
    constant, other = (division.format(_short(1), divisor) for divisor in ("$2", _short(2)))
    is_short = f"$2 BETWEEN -1e{MOST_DIGITS} AND 1e{MOST_DIGITS} AND scale($2) <= {MOST_DECIMALS}"
    return f"CASE WHEN {is_short} THEN {constant} ELSE {other} END"


def _series(name: str, places: int) -> tuple[GuardFunction, GuardFunction]:
    types = ("numeric",) * places
    operands = [f"${place}" for place in range(1, places + 1)]
    most = f"1e{MOST_DIGITS_OF_SERIES}"
    # What is not finite has no scale, and is larger than what is.
    sizes = [
        f"scale({one}) > {MOST_DIGITS_OF_SERIES} OR abs({one}) >= {most} AND abs({one}) < 'Infinity'"
        for one in operands
    ]
    small = [f"{one} BETWEEN -1e18 AND 1e18 AND scale({one}) <= 30" for one in operands]
    if name in ("exp", "power", "pow"):
        # The digits of the result are the exponent times the digits of the base.
        base = "1" if name == "exp" else "ln(nullif(abs($1), 0)::float8)"
        sizes.append(f"{operands[-1]}::float8 * {base} > {LARGEST_EXPONENT}")
        small.append(f"{operands[-1]} BETWEEN -20 AND 20")
    measured = f"log_functions.measured_{name}({', '.join(operands)})"
    body = f"CASE WHEN {' AND '.join(small)} THEN {_call(name, places)} ELSE {measured} END"
    return (
        GuardFunction(f"measured_{name}", types, _measured("numeric", " OR ".join(sizes), _call(name, places))),
        GuardFunction(name, types, _inlined("numeric", body)),
    )


def _search(search: Search) -> tuple[GuardFunction, GuardFunction]:
    # position(needle, haystack) of pg_catalog has its operands in the order of strpos().
    slow = f"measured_{search.name}"
    native = f'"{search.name}"'
    numbers = ", ".join(f"${place}" for place in range(1, len(search.arguments) + 1))
    value = f"$1::log_functions.searched_{search.arguments[0]}::{search.arguments[0]}"
    too_large = f"octet_length($1)::bigint * octet_length($2) > {LARGEST_PRODUCT}"
    long_pattern = f"octet_length($2) > {search.straight}"
    direct = f"pg_catalog.{native}({value}{numbers[2:]})"
    measured = f"pg_catalog.{native}({numbers})"
    if search.grows:
        growth = f"octet_length($1)::bigint * octet_length($3) / greatest(octet_length($2), 1) > {LARGEST_GROWTH}"
        too_large = f"{too_large} OR octet_length($3) > {search.straight} AND {growth}"
        long_pattern = f"{long_pattern} OR octet_length($3) > {search.straight}"
        direct = f"({direct})::log_functions.built_text::text"
        measured = f"({measured})::log_functions.built_text::text"
    name = f'"{search.name}"'
    return (
        GuardFunction(
            slow,
            search.arguments,
            _measured(search.returns, too_large, measured, strict=""),
        ),
        GuardFunction(
            name,
            search.arguments,
            _inlined(
                search.returns,
                f"CASE WHEN {long_pattern} THEN log_functions.{slow}({numbers}) ELSE {direct} END",
            ),
        ),
    )


def _array_to_string(arguments: tuple[str, ...]) -> tuple[GuardFunction, GuardFunction]:
    # PostgreSQL's own is stable because the elements' output functions may be.
    native = _call("array_to_string", len(arguments))
    slow = native.replace("pg_catalog.", "log_functions.measured_")
    too_large = f"cardinality($1)::bigint * octet_length($2) > {LARGEST_VALUE}"
    bounded = f"({native})::log_functions.built_text::pg_catalog.text"
    body = f"CASE WHEN pg_catalog.octet_length($2) OPERATOR(pg_catalog.>) 64 THEN {slow} ELSE {bounded} END"
    measured = _measured("text", too_large, bounded, strict="").replace("IMMUTABLE", "STABLE")
    return (
        GuardFunction("measured_array_to_string", arguments, measured),
        GuardFunction("array_to_string", arguments, f"text LANGUAGE sql STABLE PARALLEL SAFE AS $$ SELECT {body} $$"),
    )


def _like(operator: str, left: str, right: str, number: int) -> Made:
    native = f"$1 OPERATOR(pg_catalog.{operator}) $2"
    slow, twin = f"measured_like_{number}", f"like_{number}"
    too_large = f"octet_length($1)::bigint * octet_length($2) > {LARGEST_PRODUCT}"
    functions = (
        GuardFunction(slow, (left, right), _measured("boolean", too_large, native)),
        GuardFunction(
            twin,
            (left, right),
            _inlined("boolean", f"CASE WHEN octet_length($2) > 64 THEN log_functions.{slow}($1, $2) ELSE {native} END"),
        ),
    )
    # nlikesel() would look for the operator's negator, which a twin does not have, and fail.
    restrict, join = {
        "~~": ("likesel", "likejoinsel"),
        "~~*": ("iclikesel", "iclikejoinsel"),
        "!~~": ("neqsel", "nlikejoinsel"),
        "!~~*": ("neqsel", "icnlikejoinsel"),
    }[operator]
    options = f"RESTRICT = {restrict}, JOIN = {join}"
    return functions, (GuardOperator(operator, left, right, twin, options),)


def _numeric_functions() -> Iterator[GuardFunction]:
    for name, places in FACTORS:
        operands = ", ".join(_short(place) for place in range(1, places + 1))
        body = (
            _divided(f"pg_catalog.{name}({{}}, {{}})") if name in ("mod", "div") else f"pg_catalog.{name}({operands})"
        )
        yield GuardFunction(name, ("numeric",) * places, _inlined("numeric", body))
    yield GuardFunction(SQUARED, ("numeric",), _inlined("numeric", _short(1)))
    for function in SERIES:
        yield from _series(*function)


def _named_functions() -> Iterator[GuardFunction]:
    """Yield the twins that the checker calls by name."""
    for search in SEARCHES:
        yield from _search(search)
    for name, arguments, returns, body in PASSED_ON:
        if returns.startswith("SETOF"):
            definition = f"{returns} LANGUAGE sql IMMUTABLE PARALLEL SAFE BEGIN ATOMIC SELECT {body}; END"
            yield GuardFunction(name, arguments, definition)
        else:
            yield GuardFunction(name, arguments, _inlined(returns, body.format(name=name)))
    for name in HASHES:
        for type_ in ("text", "bytea") if name == "md5" else ("bytea",):
            body = f"pg_catalog.{name}($1::log_functions.hashed_{type_}::{type_})"
            yield GuardFunction(name, (type_,), _inlined("text" if name == "md5" else "bytea", body))
    for name in LINEAR:
        yield GuardFunction(
            name, ("text",), _inlined("text", f"pg_catalog.{name}($1::log_functions.searched_text::text)")
        )
    yield from _numeric_functions()
    for delimiters in (("text",), ("text", "text")):
        yield from _array_to_string(("anyarray", *delimiters))
    for name, types in BOUNDED_RESULTS.items():
        yield from (GuardFunction(name, (type_,), _bounded(type_)) for type_ in types)


def _likes() -> Iterator[Made]:
    operands = (("text", "text"), ("bpchar", "text"), ("bytea", "bytea"))
    pairs = product(("~~", "!~~", "~~*", "!~~*"), operands)
    for number, (operator, (left, right)) in enumerate(pairs):
        if left != "bytea" or not operator.endswith("*"):
            yield _like(operator, left, right, number)


def _containments() -> Iterator[Made]:
    for name, operator, left, right, options in _MEASURED_OPERATORS:
        too_large, returns = _MEASURES[name]
        definition = _measured(returns, too_large, f"$1 OPERATOR(pg_catalog.{operator}) $2")
        twin = GuardFunction(name, (left, right), definition)
        yield (twin,), (GuardOperator(operator, left, right, name, options),)
    for name, operator, small in (("document_contains", "@>", "$2"), ("document_contained", "<@", "$1")):
        native = f"$1 OPERATOR(pg_catalog.{operator}) $2"
        slow = f"log_functions.measured_{name}($1, $2)"
        body = f"CASE WHEN octet_length({small}::text) > 256 THEN {slow} ELSE {native} END"
        functions = (
            GuardFunction(f"measured_{name}", ("jsonb", "jsonb"), _measured("boolean", _BOTH_DOCUMENTS, native)),
            GuardFunction(name, ("jsonb", "jsonb"), _inlined("boolean", body)),
        )
        yield functions, (GuardOperator(operator, "jsonb", "jsonb", name, _CONTAINS),)


def _arithmetic() -> Iterator[Made]:
    # Of a product it is enough to look at the result: it has the digits of both.
    for name, operator, body in (
        ("multiplied", "*", "($1 OPERATOR(pg_catalog.*) $2)::log_functions.short_numeric::numeric"),
        ("divided", "/", _divided("{} OPERATOR(pg_catalog./) {}")),
        ("mod", "%", ""),
        ("power", "^", ""),
    ):
        functions = (GuardFunction(name, ("numeric", "numeric"), _inlined("numeric", body)),) if body else ()
        yield functions, (GuardOperator(operator, "numeric", "numeric", name, ""),)


def _concatenations() -> Iterator[Made]:
    for number, (left, right, returns, body, volatility) in enumerate(_CONCATENATIONS):
        name = f"concatenated_{number}"
        definition = _inlined(returns, body, volatility=volatility)
        if volatility == "STABLE":
            # Polymorphic arguments need a body in quotes, in which every name is qualified.
            definition = definition.replace(f"RETURN {body}", f"AS $$ SELECT {body} $$")
        yield (GuardFunction(name, (left, right), definition),), (GuardOperator("||", left, right, name, ""),)
    for name, left, right, returns in _ARRAY_CONCATENATIONS:
        definition = _measured(returns, _BUILT, "$1 OPERATOR(pg_catalog.||) $2", strict="")
        yield (GuardFunction(name, (left, right), definition),), (GuardOperator("||", left, right, name, ""),)


# The domains call both, with the owner's rights: hardening takes current_setting() and pg_column_size() from readers.
# Outside a sandbox query there is no setting, or an empty one if this session had one before.
LARGEST_VALUE_FUNCTION: Final = GuardFunction(
    "largest_value",
    (),
    "integer LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog AS $$ BEGIN RETURN"
    f" coalesce(nullif(current_setting('{LARGEST_VALUE_SETTING}', true), '')::integer, {LARGEST_VALUE}); END $$",
)
STORED_SIZE_FUNCTION: Final = GuardFunction(
    "stored_size",
    ("anyelement",),
    "integer LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SECURITY DEFINER"
    " AS $$ BEGIN RETURN pg_catalog.pg_column_size($1); END $$",
)

_CONTAINS: Final = "RESTRICT = contsel, JOIN = contjoinsel"
_ARRAY_CONTAINS: Final = "RESTRICT = arraycontsel, JOIN = arraycontjoinsel"
_MEASURED_OPERATORS: Final = (
    ("arrays_overlap", "&&", "anyarray", "anyarray", _ARRAY_CONTAINS),
    ("array_contains", "@>", "anyarray", "anyarray", _ARRAY_CONTAINS),
    ("array_contained", "<@", "anyarray", "anyarray", _ARRAY_CONTAINS),
    ("without_keys", "-", "jsonb", "text[]", ""),
    ("has_any_key", "?|", "jsonb", "text[]", _CONTAINS),
    ("has_all_keys", "?&", "jsonb", "text[]", _CONTAINS),
)
_MEASURES: Final = {
    "arrays_overlap": (_BOTH_ARRAYS, "boolean"),
    "array_contains": (_BOTH_ARRAYS, "boolean"),
    "array_contained": (_BOTH_ARRAYS, "boolean"),
    "without_keys": (_KEYS, "jsonb"),
    "has_any_key": (_KEYS, "boolean"),
    "has_all_keys": (_KEYS, "boolean"),
}
_TEXT: Final = "({})::log_functions.built_text::pg_catalog.text"
# For values of other types PostgreSQL's own are SQL functions too, and stable because the output function may be.
_CONCATENATIONS: Final = (
    ("text", "text", "text", _TEXT.format("$1 OPERATOR(pg_catalog.||) $2"), "IMMUTABLE"),
    ("text", "anynonarray", "text", _TEXT.format("$1 OPERATOR(pg_catalog.||) $2::pg_catalog.text"), "STABLE"),
    ("anynonarray", "text", "text", _TEXT.format("$1::pg_catalog.text OPERATOR(pg_catalog.||) $2"), "STABLE"),
    (
        "bytea",
        "bytea",
        "bytea",
        "($1 OPERATOR(pg_catalog.||) $2)::log_functions.built_bytea::bytea",
        "IMMUTABLE",
    ),
)
_ARRAY_CONCATENATIONS: Final = (
    ("documents_joined", "jsonb", "jsonb", "jsonb"),
    ("arrays_joined", "anycompatiblearray", "anycompatiblearray", "anycompatiblearray"),
    ("array_appended", "anycompatiblearray", "anycompatible", "anycompatiblearray"),
    ("array_prepended", "anycompatible", "anycompatiblearray", "anycompatiblearray"),
)


def _bounded(type_: str) -> str:
    if type_ in ("text", "bytea", "json"):
        return _inlined(type_, f"$1::log_functions.built_{type_}::{type_}")
    fits = _may_be_built("log_functions.stored_size($1)")
    if type_ == "anyarray":
        fits = _elements_may_be_built("$1")
    return _measured(type_, f"NOT ({fits})", "$1").replace(" SET search_path = pg_catalog", "")


_MADE: Final = (*_likes(), *_containments(), *_arithmetic(), *_concatenations())
FUNCTIONS: Final = (
    LARGEST_VALUE_FUNCTION,
    STORED_SIZE_FUNCTION,
    *_named_functions(),
    *(function for functions, _ in _MADE for function in functions),
)
OPERATORS: Final = tuple(operator for _, operators in _MADE for operator in operators)
