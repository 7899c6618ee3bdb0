"""The functions a sandbox query may call: an allowlist, in groups that the documentation and the grants are made from.

A function is here only if it computes its result from its arguments (and, for times, the clock): it reads no row and
no file, keeps no effect, runs no text as SQL, and reveals nothing about the server, its roles, settings or catalogs.
That must be true for **every** function of that name in schema pg_catalog, because a query chooses its arguments'
types; a query reaches no value of a type it may not name, such as age()'s xid. Of other schemas a query reaches only
`OWN_FUNCTIONS`, which this service makes itself (logsources.log_functions). A name that a server does not have yet is
harmless.

Left out although they compute: functions that only fill memory (repeat, lpad, rpad), and those that read types or
rows by name (json_populate_record, pg_typeof, the xml functions).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from googlesql import FUNCTIONS
from logsources.guards import GUARDED_FUNCTIONS

MAX_SUGGESTIONS: Final = 3  # similar names in the message about a misspelt one


@dataclass(frozen=True, slots=True)
class FunctionGroup:
    """Functions that belong together: a heading, one sentence for the documentation, and their names."""

    title: str
    purpose: str
    names: frozenset[str]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


AGGREGATES: Final = FunctionGroup(
    "Aggregates",
    "Turn many rows into one value; they take DISTINCT, ORDER BY, FILTER, WITHIN GROUP and OVER.",
    _names(
        """count sum avg min max any_value every bool_and bool_or bit_and bit_or bit_xor
        string_agg array_agg json_agg jsonb_agg json_agg_strict jsonb_agg_strict
        json_object_agg jsonb_object_agg json_object_agg_strict jsonb_object_agg_strict
        json_object_agg_unique jsonb_object_agg_unique range_agg range_intersect_agg
        stddev stddev_pop stddev_samp variance var_pop var_samp corr covar_pop covar_samp
        regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy
        percentile_cont percentile_disc mode"""
    ),
)
WINDOW_FUNCTIONS: Final = FunctionGroup(
    "Window functions",
    "Look at neighbouring rows; they need OVER. The ranks are also aggregates with WITHIN GROUP.",
    _names("row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value last_value nth_value"),
)
MATHEMATICS: Final = FunctionGroup(
    "Mathematics",
    "Compute with numbers; random() cannot be seeded.",
    _names(
        """abs ceil ceiling floor round trunc mod div power pow sqrt cbrt ln log log10 exp sign random pi degrees
        radians sin cos tan cot asin acos atan atan2 sinh cosh tanh width_bucket gcd lcm scale min_scale trim_scale"""
    ),
)
TEXT: Final = FunctionGroup(
    "Text",
    "Read, cut and build text; hash and encode bytes.",
    _names(
        """length char_length character_length octet_length bit_length upper lower initcap btrim ltrim rtrim left right
        substr substring strpos split_part replace translate reverse concat concat_ws format starts_with ascii chr
        to_hex quote_literal quote_ident quote_nullable encode decode convert_from convert_to
        md5 sha224 sha256 sha384 sha512"""
    ),
)
REGULAR_EXPRESSIONS: Final = FunctionGroup(
    "Regular expressions",
    "Match POSIX regular expressions and cut text by them.",
    _names(
        """regexp_count regexp_instr regexp_like regexp_substr regexp_match regexp_matches regexp_replace
        regexp_split_to_array regexp_split_to_table"""
    ),
)
TIME: Final = FunctionGroup(
    "Time",
    "Read the clock, cut, build and format times and intervals.",
    _names(
        """now clock_timestamp statement_timestamp transaction_timestamp date_trunc date_part date_bin date_add
        date_subtract age to_char to_date to_timestamp to_number make_date make_time make_timestamp make_timestamptz
        make_interval justify_days justify_hours justify_interval isfinite timezone date"""
    ),
)
JSON: Final = FunctionGroup(
    "JSON",
    "Build, read and change json and jsonb values; jsonb also by jsonpath.",
    _names(
        """to_json to_jsonb row_to_json array_to_json json_build_object jsonb_build_object json_build_array
        jsonb_build_array jsonb_object json_array_length jsonb_array_length json_array_elements jsonb_array_elements
        json_array_elements_text jsonb_array_elements_text json_each jsonb_each json_each_text jsonb_each_text
        json_object_keys jsonb_object_keys json_extract_path jsonb_extract_path json_extract_path_text
        jsonb_extract_path_text json_typeof jsonb_typeof json_strip_nulls jsonb_strip_nulls jsonb_set jsonb_set_lax
        jsonb_insert jsonb_pretty jsonb_path_exists jsonb_path_match jsonb_path_query jsonb_path_query_array
        jsonb_path_query_first jsonb_path_exists_tz jsonb_path_match_tz jsonb_path_query_tz jsonb_path_query_array_tz
        jsonb_path_query_first_tz json_to_record jsonb_to_record json_to_recordset jsonb_to_recordset"""
    ),
)
ARRAYS: Final = FunctionGroup(
    "Arrays",
    "Read, search, build and unfold arrays.",
    _names(
        """array_length array_position array_positions array_append array_prepend array_cat array_remove array_replace
        array_lower array_upper array_ndims array_dims array_reverse array_sort cardinality trim_array string_to_array
        string_to_table array_to_string unnest generate_subscripts"""
    ),
)
NETWORK: Final = FunctionGroup(
    "Network addresses",
    "Read the parts of inet and cidr values.",
    _names("""host family masklen netmask network broadcast hostmask abbrev set_masklen inet_same_family inet_merge"""),
)
RANGES: Final = FunctionGroup(
    "Ranges",
    "Build ranges and read their bounds.",
    _names(
        """isempty lower_inc upper_inc lower_inf upper_inf range_merge tstzrange tsrange daterange numrange int4range
        int8range"""
    ),
)
LOG_FUNCTIONS: Final = FunctionGroup(
    "Functions that never fail on a row",
    "Functions of this service: json_elements returns the elements of an array, and an object as one element; the "
    "others read text or jsonb, and return NULL if it is not a number, boolean, timestamp, date or JSON.",
    _names("json_elements try_number try_float try_integer try_boolean try_json try_timestamp try_date hexadecimal"),
)
# Name and types of the arguments, of each function that googlesql needs.
GOOGLESQL_SIGNATURES: Final = tuple(
    (name, tuple(argument.rpartition(" ")[2] for argument in arguments.split(", ")))
    for name, arguments in re.findall(r"(?m)^CREATE .* log_functions\.(\w+)\((.+)\)", FUNCTIONS.read_text())
)
GOOGLESQL_FUNCTIONS: Final = FunctionGroup(
    "Functions with the results of GoogleSQL",
    "Functions of this service that the BigQuery dialect needs; they fail on no row, but in_range may, and what "
    "would be too large is NULL. json_text writes JSON without blanks, number_text, moment_text and time_text write as "
    "BigQuery does.",
    frozenset(name for name, _ in GOOGLESQL_SIGNATURES),
)
# All of this service, in schema log_functions.
OWN_FUNCTIONS: Final = LOG_FUNCTIONS.names | GOOGLESQL_FUNCTIONS.names
OTHERS: Final = FunctionGroup(
    "Others",
    "Series of numbers or times, identifiers, and counting nulls.",
    _names("generate_series gen_random_uuid num_nulls num_nonnulls"),
)

FUNCTION_GROUPS: Final = (
    AGGREGATES,
    WINDOW_FUNCTIONS,
    MATHEMATICS,
    TEXT,
    REGULAR_EXPRESSIONS,
    TIME,
    JSON,
    ARRAYS,
    NETWORK,
    RANGES,
    LOG_FUNCTIONS,
    GOOGLESQL_FUNCTIONS,
    OTHERS,
)
ALLOWED_FUNCTIONS: Final = frozenset().union(*(group.names for group in FUNCTION_GROUPS))

# Where a name of the allowlist is found: consumers write it without a schema, and what runs names the schema. Whoever
# may send `sql` may use all of them; a translation of another dialect is checked like any other text. Of guarded
# functions it is the twin that runs.
LOG_FUNCTIONS_SCHEMA: Final = "log_functions"
FUNCTION_SCHEMAS: Final = dict.fromkeys(OWN_FUNCTIONS | GUARDED_FUNCTIONS, LOG_FUNCTIONS_SCHEMA)

# What PostgreSQL calls for SQL's own syntax (gram.y, SystemFuncName): not callable by these names unless they are
# also listed above, but the reader of a sandbox query needs the right to execute them.
SYNTAX_FUNCTIONS: Final = {
    "EXTRACT(… FROM …)": _names("extract"),
    "SUBSTRING(… FROM … FOR …)": _names("substring"),
    "OVERLAY(… PLACING … FROM …)": _names("overlay"),
    "POSITION(… IN …)": _names("position"),
    "TRIM(… FROM …)": _names("btrim ltrim rtrim"),
    "AT TIME ZONE": _names("timezone"),
    "OVERLAPS": _names("overlaps"),
    "LIKE … ESCAPE …": _names("like_escape"),
    "SIMILAR TO": _names("similar_to_escape"),
}

# Functions that return rows, the only ones a FROM clause takes, and the columns PostgreSQL surely gives a FROM item
# made from them when the query names none. None: one column, called like the FROM item itself. unnest has none that is
# sure: an array of rows unfolds into the columns of those rows, several arrays into several columns.
SET_RETURNING: Final[dict[str, frozenset[str] | None]] = {
    **dict.fromkeys(_names("json_array_elements jsonb_array_elements"), _names("value")),
    **dict.fromkeys(_names("json_array_elements_text jsonb_array_elements_text"), _names("value")),
    **dict.fromkeys(_names("json_each jsonb_each json_each_text jsonb_each_text"), _names("key value")),
    **dict.fromkeys(_names("json_object_keys jsonb_object_keys jsonb_path_query jsonb_path_query_tz")),
    **dict.fromkeys(_names("regexp_matches regexp_split_to_table string_to_table")),
    **dict.fromkeys(_names("generate_series generate_subscripts")),
    **dict.fromkeys(_names("json_elements")),
    **dict.fromkeys(_names("unnest json_to_record jsonb_to_record json_to_recordset jsonb_to_recordset"), frozenset()),
}
# These return `record`: the query must name the columns and their types.
RECORD_RETURNING: Final = _names("json_to_record jsonb_to_record json_to_recordset jsonb_to_recordset")


def similar_functions(name: str) -> list[str]:
    """Return the allowed functions whose names are near to `name`, nearest first."""
    return get_close_matches(name, sorted(ALLOWED_FUNCTIONS), n=MAX_SUGGESTIONS)
