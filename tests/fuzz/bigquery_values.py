"""Random expressions that GoogleSQL accepts, each of a known type, over the columns that a query has.

`{I}`, `{S}` and so on stand for an expression of that type. A table has the shapes that cannot fail in a row: a
division by zero or a text that is no number would end the whole query in BigQuery, while it is NULL here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

# I INT64, F FLOAT64, S STRING, B BOOL, T TIMESTAMP, D DATE, L DATETIME, M TIME, A ARRAY<STRING>, N ARRAY<INT64>
CONSTANTS: Final[Mapping[str, Sequence[str]]] = {
    "I": ("0", "1", "2", "-3", "200", "404", "1000"),
    "F": ("0.5", "2.5", "-1.25", "100.0", "1e3"),
    "S": ("'GET'", "'rest'", "''", "'a'", "'x,y'", "'5'", "'%o%'", "'Ä ö'", "'/'", "'2025-06-02T08:15:02Z'"),
    "B": ("true", "false"),
    "T": ("timestamp '2025-06-02T08:15:02Z'", "timestamp('2025-06-02 08:15:40.5')", "timestamp_seconds(1748852102)"),
    "D": ("date '2025-06-02'", "date '2024-12-31'", "date(2025, 3, 30)"),
    "L": ("datetime '2025-06-02 08:15:40.5'", "datetime '2024-02-29 00:00:00'"),
    "M": ("time '08:15:02.5'", "time(23, 59, 59)"),
    "A": ("['a', 'b']", "['b']", "split('a,b,,c')", "split('x y z', ' ')"),
    "N": ("[1, 2, 3]", "[5]", "generate_array(1, 4)"),
}
_UNITS: Final = ("microsecond", "millisecond", "second", "minute", "hour", "day")
_DATE_UNITS: Final = ("day", "week", "isoweek", "week(monday)", "month", "quarter", "year")
SHAPES: Final[Mapping[str, Sequence[str]]] = {
    "M": (
        "time({T})", "time({L})", "time_trunc({M}, {timeunit})", "time_add({M}, interval 5 minute)",
        "time_sub({M}, interval 90 second)", "time({T}, 'Europe/Berlin')", "if({B}, {M}, {M})", "cast({L} as time)",
    ),
    "I": (
        "extract(hour from {M})", "extract(microsecond from {M})", "time_diff({M}, {M}, {timeunit})",
        "regexp_instr({S}, '[a-z]', 2)", "instr({S}, 'e', 1, 2)", "extract(week(tuesday) from {D})",
        "datetime_diff({L}, {L}, {dateunit})", "date_diff({D}, {D}, isoyear)", "date_diff({D}, {D}, week(wednesday))",
        "unix_micros(timestamp({L}))", "octet_length({S})", "unicode({S})",
        "array_length(json_query_array({J}, '$.a.b'))",
        "safe_add({I}, {I})", "safe_subtract({I}, 1)", "cast(trunc({F}) as int64)", "ifnull(sign({I}), {I})",
        "{I} + {I}", "{I} - {I}", "({I}) * {i}", "-({I})", "abs({I})", "sign({I})", "mod({I}, {p})", "div({I}, {p})",
        "length({S})", "char_length({S})", "strpos({S}, {S})", "array_length({A})", "array_length({N})",
        "ifnull({I}, {I})", "coalesce({I}, {I}, {I})", "nullif({I}, {I})", "if({B}, {I}, {I})",
        "case when {B} then {I} when {B} then {I} else {I} end", "case {I} when {i} then {I} else {I} end",
        "greatest({I}, {I})", "least({I}, {I}, {I})", "cast({B} as int64)", "cast({F} as int64)",
        "safe_cast({S} as int64)",
        "extract({part} from {T})", "extract({datepart} from {D})", "extract({part} from {L})",
        "extract(hour from {T} at time zone 'Europe/Berlin')",
        "unix_seconds({T})", "unix_millis({T})", "unix_micros({T})", "timestamp_diff({T}, {T}, {unit})",
        "date_diff({D}, {D}, {dateunit})", "datetime_diff({L}, {L}, {unit})", "unix_date({D})",
        "{I} & {I}", "{I} | {I}", "{I} ^ {I}", "~({I})", "{i} << 3", "instr({S}, {S})", "{N}[safe_offset(1)]",
        "cast(floor({F}) as int64)", "(select count(*) from unnest({A}))", "(select sum(x) from unnest({N}) as x)",
        "(select max(x) from unnest({N}) x where x > {i})", "byte_length({S})", "ascii('x')",
        "bit_count({I})", "array_length(regexp_extract_all({S}, r'[a-z]+'))", "regexp_instr({S}, '[a-z]')",
        "cast(format_timestamp('%s', {T}) as int64)", "int64(parse_json('5'))", "array_length(generate_array(1, 7, 2))",
        "instr({S}, {S}, -1)", "instr({S}, {S}, 1, 2)", "unicode({S})", "safe_add({I}, {I})", "safe_negate({I})",
        "abs({I}) >> 2",
        "extract(week(thursday) from {D})", "time_diff(time({T}), time({L}), minute)", "date_diff({D}, {D}, isoyear)",
        "datetime_diff({L}, {L}, {dateunit})", "regexp_instr({S}, '([a-z])', 1, 2)",
        "extract({part} from {T} at time zone '+05:30')",
        "zeroifnull({I})", "nullifzero({I})",
    ),
    "F": (
        "{F} + {F}", "{I} + {F}", "{F} - {F}", "{I} / {p}", "safe_divide({F}, {I})", "safe_divide({I}, {I})",
        "round({F}, 1)", "round({F})", "trunc({F}, 1)", "trunc({F})", "ceil({F})", "floor({F})", "abs({F})",
        "sqrt(abs({F}))",
        "pow({F}, 2)", "cast({I} as float64)", "ifnull({F}, {F})", "if({B}, {F}, {I})", "safe_cast({S} as float64)",
        "greatest({F}, {F})", "least({F}, {I})", "exp({f})", "ln(abs({F}) + 1)", "log10(abs({F}) + 1)", "log(8, 2)",
        "sign({F})", "-({F})", "(select avg(x) from unnest({N}) as x)", "cast({I} as float64) * 0.5",
        "round({F}, 2)", "round({F}, -1)", "cbrt({F})", "sin({F})", "zeroifnull({F})", "log({p}, 3)",
        "safe_cast({S} as float64)",
        "safe_multiply({F}, {F})", "safe_add({F}, 1.5)", "safe_negate({F})", "mod({I}, {p}) / 4",
    ),
    "S": (
        "format_time('%H:%M:%E3S %p', {M})", "cast({M} as string)", "format_timestamp('%c %D %x %X', {T})",
        "format_date('%A %B %U %W %Q', {D})", "format('%t|%T', {I}, {I})", "format('%.3f|%10.1f', {F}, {F})",
        "format('%+d|%6d', {I}, {I})", "substr({S}, 0)", "substr({S}, -10, 12)", "left({S}, {i})",
        "cast(round({F}, 3) as string)",
        "json_extract({J}, '$.a')", "json_extract({J}, '$')", "to_json_string(round({F}, 3))", "to_json_string({L})",
        "to_json_string([{S}, 'b'])",
        "to_json_string(struct(round({F}, 2) as f, [{T}] as ts, {D} as d, struct({B} as b) as s))",
        "to_hex(sha512({S}))", "to_base64(sha256({S}))", "ifnull({S}, 'x') || cast({D} as string)",
        "upper(substr({S}, 2, 4))",
        "format_timestamp('%Y-%m-%dT%H:%M:%E6S%Ez', {T})", "chr({p})",
        "regexp_replace({S}, r'(\\w)(\\w)', r'\\2\\1')", "regexp_extract({S}, r'(?:GET|info) (.*)')",
        "initcap({S}, ' |')",
        "{S} || {S}", "concat({S}, {S}, '-')", "lower({S})", "upper({S})", "substr({S}, 2)", "substr({S}, 1, 3)",
        "substr({S}, -3)", "substr({S}, -3, 2)", "substr({S}, {i}, 2)", "left({S}, 3)", "right({S}, 3)", "trim({S})",
        "ltrim({S})", "rtrim({S})", "trim({S}, '/ ')", "replace({S}, {S}, 'x')", "replace({S}, '/', '')",
        "reverse({S})",
        "initcap({S})", "initcap({S}, '/')", "regexp_extract({S}, r'/([a-z]+)')", "regexp_extract({S}, '[0-9]+')",
        "regexp_replace({S}, r'[0-9]', '#')", "regexp_replace({S}, r'([a-z]+)/', r'\\1-')",
        "format_timestamp('%Y-%m-%d %H:%M:%S', {T})", "format_timestamp('%F %T %a %b %j', {T})",
        "format_timestamp('%e %u %w %V %G %y %p %I', {T})", "format_timestamp('%E4Y %E*S %E3S', {T})",
        "format_timestamp('%FT%T%Ez', {T}, 'America/New_York')", "format_date('%d/%m/%Y', {D})",
        "format_datetime('%F %H', {L})", "cast({I} as string)", "cast({B} as string)", "cast({D} as string)",
        "cast({T} as string)", "cast({L} as string)", "string({T})", "cast(round({F}, 2) as string)",
        "ifnull({S}, {S})", "coalesce({S}, {S}, '?')", "nullif({S}, {S})", "if({B}, {S}, {S})",
        "case when {B} then {S} else {S} end", "case {S} when 'GET' then {S} end", "greatest({S}, {S})",
        "least({S}, {S})", "split({S}, '/')[safe_offset(1)]", "{A}[safe_offset(0)]", "{A}[safe_ordinal(2)]",
        "array_to_string({A}, '-')", "array_to_string({A}, '-', '?')", "to_hex(md5({S}))", "to_hex(sha256({S}))",
        "json_value({J}, '$.a.b[1]')", "json_query({J}, '$.a')", "json_value({J}, '$.n')", "json_query({J}, '$.t')",
        "json_extract_scalar({J}, '$.t')", "to_json_string({S})", "to_json_string({I})", "to_json_string({A})",
        "to_json_string({T})", "to_json_string(struct({S} as a, {I} as b, {T} as c))", "to_json_string({B})",
        "format_timestamp('%z %Ez %Z', {T}, 'Asia/Kolkata')", "format_timestamp('%s|%C|%Q|%U|%W', {T})",
        "format_datetime('%E4Y %E*S %j', {L})", "format_time('%T|%E*S', time({T}))", "substr({S}, {I})",
        "left({S}, {i})",
        "substr({S}, {I}, {i})", "to_json_string({L})", "to_json_string(round({F}, 3))", "to_json_string([{S}, {S}])",
        "to_json_string(struct([{I}, 1] as z, struct({S} as y) as x))", "cast(round({F}, 3) as string)",
        "cast(time({T}) as string)",
        "to_hex(sha512({S}))", "format('%5.1f|%e|%g', {F}, {F}, {F})", "format('%+d|%-4d|%t', {I}, {I}, {S})",
        "array_to_string(split({S}, ''), '.')", "rpad({S}, 70, 'ab')", "initcap({S}, 'e')",
        "lpad({S}, 6)", "lpad({S}, 8, '*')", "rpad({S}, 8, 'ab')", "repeat({S}, 2)", "net.host({S})",
        "format('%d-%s', {I}, ifnull({S}, 'n'))", "format('%05d|%5s|%-5s|%x', {i}, 'a', 'b', 255)",
        "(select string_agg(x, '+' order by x) from unnest({A}) x)", "regexp_substr({S}, '[a-z]+')",
        "struct({S} as a, {I} as b).a", "chr(65)", "translate({S}, 'ae', '43')", "cast({I} as string) || 'x'",
        "array_to_string(array_concat({A}, {A}), ',')", "array_to_string(array_reverse({A}), ',')",
        "array_to_string(regexp_extract_all({S}, '[a-z]([a-z])'), '|')", "regexp_extract({S}, '[a-z]+', 2)",
        "regexp_extract({S}, '[a-z]+', 1, 2)", "string(parse_json('\"x\"'))",
        "(select any_value(x) from unnest([{S}]) x)",
        "array_to_string(array(select upper(x) from unnest({A}) x order by x), '')",
    ),
    "B": (
        "is_nan({F})", "is_inf({F})", "{M} < {M}", "{D} between {D} and {D}", "{N} is not null",
        "({S}, {I}) in (('GET', 200), ('a', 1))", "{S} not like any ('a%', '%z')", "not ({I} > {I} and {S} is null)",
        "{I} = {I}", "{I} < {I}", "{I} >= {F}", "{F} > {F}", "{S} = {S}", "{S} != {S}", "{S} < {S}", "{T} < {T}",
        "{T} >= {T}", "{D} = {D}", "{L} > {L}", "{B} and {B}", "{B} or {B}", "not {B}", "{S} is null",
        "{I} is not null",
        "{B} is true", "{B} is not false", "{I} in (200, 404, {i})", "{S} in ('GET', 'info', {S})",
        "{S} not in ('GET', 'PUT')", "{I} not in (200, {I})", "{I} between {I} and {I}", "{I} not between 1 and {I}",
        "{T} between {T} and {T}", "{S} like '%e%'", "{S} not like 'G_T'", "{S} like {S}",
        "regexp_contains({S}, r'^/[a-z]+')",
        "regexp_contains({S}, '(?i)get|error')", "starts_with({S}, {S})", "ends_with({S}, {S})", "'a' in unnest({A})",
        "{I} in unnest({N})", "{S} in (select x from unnest({A}) x)",
        "exists(select 1 from unnest({A}) x where x = 'a')",
        "if({B}, {B}, {B})", "ifnull({B}, false)", "{I} is distinct from {I}", "{S} is not distinct from {S}",
        "{S} like any ('%a%', 'G%')", "{S} like all ('%e%', '%o%')", "safe_cast({S} as bool)", "cast({I} as bool)",
        "{A} is null", "coalesce({B}, {B}, true)", "{I} != {I} or {B}", "{S} || 'x' = {S}",
    ),
    "T": (
        "timestamp_trunc({T}, week(thursday))", "timestamp_trunc({T}, isoyear)", "parse_timestamp('%s', '1748852102')",
        "parse_timestamp('%d/%b/%Y:%H:%M:%S %z', '02/Jun/2025:08:15:02 +0200')",
        "timestamp_bucket({T}, interval 7 day)",
        "timestamp(date '2025-03-30', 'Europe/Berlin')", "timestamp_add({T}, interval -3 {unit})",
        "timestamp_seconds({p})",
        "timestamp_trunc({T}, {truncunit})", "timestamp_add({T}, interval {i} {unit})",
        "timestamp_sub({T}, interval 2 hour)",
        "timestamp({D})", "timestamp({L})", "timestamp({L}, 'Europe/Berlin')", "timestamp_millis({I})",
        "timestamp_micros(unix_micros({T}))", "cast('2025-06-02 08:15:02+02' as timestamp)", "cast({D} as timestamp)",
        "parse_timestamp('%Y-%m-%dT%H:%M:%E*SZ', '2025-06-02T08:15:02.25Z')", "ifnull({T}, {T})", "if({B}, {T}, {T})",
        "greatest({T}, {T})", "least({T}, {T})", "{T} - interval 90 second", "{T} + interval 1 day",
        "timestamp_trunc({T}, day, 'Asia/Kolkata')", "timestamp '2025-06-02 08:15:02 Europe/Berlin'",
        "timestamp('2025-06-02 08:15:02', 'America/New_York')", "safe_cast({S} as timestamp)",
        "timestamp_trunc({T}, week(friday))", "timestamp_trunc({T}, isoyear, 'America/New_York')",
        "timestamp_bucket({T}, interval 2 day, {T})", "parse_timestamp('%s', '1748852102')",
        "parse_timestamp('%d/%b/%Y:%H:%M:%S %z', '02/Jun/2025:08:15:02 +0200')",
        "timestamp_bucket({T}, interval 15 minute)", "coalesce({T}, {T})", "struct({T} as t, 1 as one).t",
    ),
    "D": (
        "date_trunc({D}, week(friday))", "date_trunc({D}, isoyear)", "last_day({D}, week)", "last_day({D}, quarter)",
        "parse_date('%d %b %Y', '02 Jun 2025')", "date_sub({D}, interval 5 quarter)", "{D} + 3", "{D} - {i}",
        "date_bucket({D}, interval 3 day)", "extract(date from {L})", "least({D}, {D})",
        "date_add({D}, interval 1 year)",
        "date({T})", "date({T}, 'Europe/Berlin')", "date({L})", "date_trunc({D}, {dateunit})", "extract(date from {T})",
        "date_add({D}, interval {i} {plaindateunit})", "date_sub({D}, interval 1 month)", "cast({T} as date)",
        "safe_cast('2025-06-02' as date)", "last_day({D})", "ifnull({D}, {D})", "date(2024, 2, 29)",
        "greatest({D}, {D})",
        "last_day({D}, {lastunit})", "date_bucket({D}, interval 3 day)", "array_last([{D}, {D}])",
        "parse_date('%Y-%m-%d', '2025-06-02')", "last_day({D}, year)", "date_from_unix_date({i})",
    ),
    "L": (
        "datetime_bucket({L}, interval 2 hour)", "parse_datetime('%F %T', '2025-06-02 08:15:02')", "datetime({D}, {M})",
        "datetime_trunc({L}, week(monday))", "datetime_add({L}, interval 1 quarter)", "datetime({D})",
        "datetime({T})", "datetime({T}, 'Europe/Berlin')", "cast({T} as datetime)", "datetime_trunc({L}, {dateunit})",
        "datetime_add({L}, interval {i} {unit})", "datetime_sub({L}, interval 1 month)",
        "datetime(2025, 6, 2, 8, 15, 40)",
        "datetime({D}, time({T}))", "datetime_trunc({L}, isoyear)", "datetime_bucket({L}, interval 5 hour)",
        "datetime_trunc({L}, hour)", "cast({D} as datetime)", "if({B}, {L}, {L})", "ifnull({L}, {L})",
    ),
    "A": (
        "json_query_array({J}, '$.a.b')", "json_extract_string_array({J}, '$.a.b')", "split({S})", "[{S}, {S}]",
        "array(select distinct x from unnest({A}) x where x like '%a%' order by x desc)",
        "split({S}, '/')", "array_concat({A}, {A})", "array_reverse({A})",
        "array(select x from unnest({A}) x order by x)",
        "regexp_extract_all({S}, '[a-z]+')", "if({B}, {A}, {A})",
        "array(select distinct x from unnest({A}) x order by 1)",
        "ifnull({A}, ['q'])", "json_value_array('[\"p\", \"q\"]', '$')", "split({S}, '')",
    ),
    "N": ("generate_array(1, {p})", "array_concat({N}, {N})",
    "array(select x * 2 from unnest({N}) x where x > 1 order by x)",
          "generate_array(10, 1, -3)", "array_reverse({N})"),
}  # fmt: skip
_ATOMS: Final[Mapping[str, Sequence[str]]] = {
    "i": ("0", "1", "2", "3", "5"), "p": ("1", "2", "3", "7"), "f": ("0.5", "-2.0", "1.5"),
    "timeunit": ("microsecond", "millisecond", "second", "minute", "hour"),
    "unit": _UNITS, "dateunit": _DATE_UNITS, "plaindateunit": ("day", "week", "month", "quarter", "year"),
    "lastunit": ("week", "week(tuesday)", "isoweek", "month", "quarter", "year", "isoyear"),
    "truncunit": (*_UNITS, *_DATE_UNITS),
    "part": ("microsecond", "millisecond", "second", "minute", "hour", "day", "dayofweek", "dayofyear", "week",
             "isoweek", "month", "quarter", "year", "isoyear", "week(monday)"),
    "datepart": ("day", "dayofweek", "dayofyear", "week", "isoweek", "month", "quarter", "year", "isoyear"),
    "J": ("event_message", "'{\"a\": {\"b\": [1, \"x\"]}, \"n\": 2.50}'", "'[1]'", "'not json'"),
}  # fmt: skip
_PLACE: Final = re.compile(r"\{([A-Za-z]+)\}")


class Values:
    """Makes expressions from a source of chance; `columns` has the paths of each type that are in scope."""

    def __init__(self, random: Random, columns: Mapping[str, Sequence[str]]) -> None:
        self._random = random
        self._columns = columns

    def value(self, type_: str, depth: int = 2) -> str:
        """Return an expression of the type, in brackets where it needs any."""
        if depth <= 0 or self._random.random() < 0.35:
            return self._plain(type_)
        shape = self._random.choice(SHAPES[type_])
        made = _PLACE.sub(lambda place: self._at(place[1], depth - 1), shape)
        return f"({made})"

    def _at(self, name: str, depth: int) -> str:
        if name in _ATOMS:
            return self._random.choice(_ATOMS[name])
        return self.value(name, depth)

    def _plain(self, type_: str) -> str:
        columns = self._columns.get(type_, ())
        if columns and self._random.random() < 0.8:
            return self._random.choice(columns)
        return self._random.choice(CONSTANTS[type_])
