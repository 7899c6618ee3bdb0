"""The ends of types beside GoogleSQL's own engine: the calendar's, ambiguous local times, texts that are cast, NaN."""

from __future__ import annotations

import pytest

from endpoints.log_database.execution import StatementFailed
from tests.fuzz.googlesql import GoogleSQLError
from tests.googlesql.conftest import BothEngines

pytestmark = pytest.mark.sql

DATETIME_FIELD_OVERFLOW = "22008"

# Without a moment of the years 1 to 9999 as a result: an error, and NULL as a SAFE. function.
OUTSIDE = """
timestamp_add(timestamp '9999-12-31', interval 2 day)
timestamp_add(timestamp '9999-12-31 23:59:59.999999', interval 1 microsecond)
timestamp_sub(timestamp '0001-01-01', interval 1 second)
date_add(date '9999-12-31', interval 1 day)
date_add(date '2025-12-31', interval 9000 year)
date_sub(date '0001-01-01', interval 2 month)
datetime_add(datetime '9999-12-31 23:00:00', interval 2 hour)
datetime_sub(datetime '0001-01-01 00:00:00', interval 1 microsecond)
timestamp_seconds(253402300800)
timestamp_seconds(-62135596801)
timestamp_millis(253402300800000)
timestamp_micros(253402300800000000)
date_from_unix_date(9999999)
date_from_unix_date(-719163)
timestamp('9999-12-31 23:59:59', 'America/New_York')
timestamp('0001-01-01 00:00:00', 'Asia/Kolkata')
datetime(timestamp '9999-12-31 23:59:59', 'Asia/Kolkata')
date(timestamp '9999-12-31 23:59:59', 'Asia/Kolkata')
timestamp_trunc(timestamp '0001-01-01', week)
timestamp_trunc(timestamp '0001-01-01', week(tuesday))
timestamp_trunc(timestamp '0001-01-02', week, 'Europe/Berlin')
date_trunc(date '0001-01-01', week)
datetime_trunc(datetime '0001-01-01', week)
last_day(date '9999-12-31', week)
last_day(date '9999-12-31', isoyear)
""".strip().splitlines()
# The same without SAFE.
OUTSIDE_AS_OPERATORS = """
date '9999-12-31' + 1
date '0001-01-01' - 1
timestamp '9999-12-31' + interval 2 day
date '9999-12-31' + interval 2 day
datetime '0001-01-01 00:00:00' - interval 1 second
""".strip().splitlines()
# Inside, at the very ends of it.
INSIDE = """
timestamp_add(timestamp '9999-12-31', interval 86399999999 microsecond)
timestamp_sub(timestamp '0001-01-02', interval 1 day)
date_add(date '9999-12-30', interval 1 day)
timestamp_seconds(253402300799)
timestamp_seconds(-62135596800)
date_from_unix_date(2932896)
date_from_unix_date(-719162)
safe.timestamp_add(timestamp_add(timestamp '9999-12-30', interval 1 day), interval 1 day)
safe.timestamp_add(cast(null as timestamp), interval 1 day)
last_day(date '9999-12-31')
last_day(date '9999-12-31', year)
timestamp_trunc(timestamp '0001-01-01', isoyear)
timestamp_trunc(timestamp '9999-12-31 23:59:59', week)
date(2025, 6, 2)
date(1, 1, 1)
date(25, 1, 1)
datetime(2025, 6, 2, 8, 15, 2)
time(8, 15, 2)
time(23, 59, 60)
safe.date(12025, 1, 1)
safe.date(cast('12025' as int64), 1, 1)
safe.date(2025, 13, 1)
safe.date(-1, 1, 1)
safe.datetime(10000, 1, 1, 0, 0, 0)
safe.time(24, 0, 0)
safe.timestamp('9999-12-31 23:59:59-05')
safe.timestamp('0001-01-01 00:00:00+05')
safe.timestamp(concat('0001-01-01 00:00:00', '+05'))
safe.parse_timestamp('%s', '253402300800')
safe.parse_timestamp('%Y-%m-%d %H:%M:%S %z', '9999-12-31 23:00:00 -0200')
safe.parse_time('%H:%M', '24:00')
safe.parse_time('%H:%M:%S', '23:59:60')
""".strip().splitlines()
# Local times that a zone has twice, or never.
ZONES = """
timestamp('2026-10-25 02:30:00', 'Europe/Berlin')
timestamp('2026-10-25 01:59:59', 'Europe/Berlin')
timestamp('2026-10-25 02:00:00', 'Europe/Berlin')
timestamp('2026-10-25 02:59:59.999999', 'Europe/Berlin')
timestamp('2026-10-25 03:00:00', 'Europe/Berlin')
timestamp('2026-10-25 12:00:00', 'Europe/Berlin')
timestamp('2026-03-29 01:59:59', 'Europe/Berlin')
timestamp('2026-03-29 02:00:00', 'Europe/Berlin')
timestamp('2026-03-29 02:30:00', 'Europe/Berlin')
timestamp('2026-03-29 03:00:00', 'Europe/Berlin')
timestamp('2026-03-29 12:00:00', 'Europe/Berlin')
timestamp('2026-11-01 01:30:00', 'America/New_York')
timestamp('2026-03-08 02:30:00', 'America/New_York')
timestamp('2026-04-05 02:30:00', 'Australia/Sydney')
timestamp('2026-04-05 01:45:00', 'Australia/Lord_Howe')
timestamp('2026-10-04 02:15:00', 'Australia/Lord_Howe')
timestamp('2011-12-30 12:00:00', 'Pacific/Apia')
timestamp('2026-06-02 12:00:00', '+05:30')
timestamp('2026-06-02 12:00:00', 'UTC')
timestamp(datetime '2026-10-25 02:30:00', 'Europe/Berlin')
timestamp(date '2018-11-04', 'America/Sao_Paulo')
timestamp '2026-10-25 02:30:00 Europe/Berlin'
timestamp '2026-03-29 02:30:00 Europe/Berlin'
cast('2026-10-25 02:30:00 Europe/Berlin' as timestamp)
cast(concat('2026-10-25 02:30:00', ' Europe/Berlin') as timestamp)
cast(concat('2026-03-29 02:30:00', ' Europe/Berlin') as timestamp)
cast(concat('2026-10-25 02:30:00', ' UTC') as timestamp)
parse_timestamp('%Y-%m-%d %H:%M:%S', '2026-10-25 02:30:00', 'Europe/Berlin')
parse_timestamp('%Y-%m-%d %H:%M:%S', '2026-03-29 02:30:00', 'Europe/Berlin')
timestamp_trunc(timestamp '2026-10-25 01:30:00+00', hour, 'Europe/Berlin')
timestamp_trunc(timestamp '2026-10-25 00:30:00+00', hour, 'Europe/Berlin')
timestamp_trunc(timestamp '2026-10-25 00:30:20+00', minute, 'Europe/Berlin')
timestamp_trunc(timestamp '2026-10-25 01:30:00+00', day, 'Europe/Berlin')
timestamp_trunc(timestamp '2026-10-25 01:30:00+00', week, 'Europe/Berlin')
timestamp_trunc(timestamp '2026-11-01 12:30:00+00', week, 'America/Havana')
timestamp_trunc(timestamp '2026-04-04 15:15:00+00', hour, 'Australia/Lord_Howe')
extract(hour from timestamp '2026-10-25 01:30:00+00' at time zone 'Europe/Berlin')
datetime(timestamp '2026-10-25 00:30:00+00', 'Europe/Berlin')
format_timestamp('%F %T %Ez', timestamp '2026-10-25 00:30:00+00', 'Europe/Berlin')
""".strip().splitlines()
# Type → texts that may be written so, or not.
TEXTS = {
    "int64": """0x1F|-0x1f|0X1F|+0x1F| 0xaB |0x|0xG|0x1F1|0x7FFFFFFFFFFFFFFF|-0x8000000000000000|0x8000000000000000
        |0xFFFFFFFFFFFFFFFF|0x10000000000000000|0x00000000000000000000000000001F| 12 |+12|- 12|--12|012|1_000|1.0|1e3
        ||true|9223372036854775807|9223372036854775808|-9223372036854775808""",
    "float64": """1.5| 1.5 |+1.5|.5|5.|1e5|1e|1 e5||1f|0x1F|1.7976931348623157e308|1.5e308|1e-310|12a|1_0""",
    "bool": "true|TRUE|False| true |t|1|yes|",
    "numeric": "1.5| 1.5 |1e3|0x1F|nan|inf||1.5.5",
    "time": """24:00:00|23:59:60|23:59:59|1:2:3|12:30:15.1234567|12:30:15.5| 12:30:15|12:30:15 |12:30:15+02|12:30:15Z
        |12:30:15 UTC|12:60:00|25:00:00|2025-06-02||12:30:15 Europe/Berlin""",
    "date": """2025-06-02|2025-6-2|2025-02-30| 2025-06-02|2025-06-02 |2025/06/02|20250602|25-06-02|2025-06-02 10:00:00
        |0000-01-01|0001-01-01|9999-12-31|10000-01-01|""",
    "datetime": """2025-06-02 10:11:12|2025-06-02T10:11:12|2025-06-02t10:11:12|2025-06-02|2025-06-02 24:00:00
        |2025-06-02 23:59:60|2025-06-02 10:11:12.1234567|2025-06-02  10:11:12| 2025-06-02 10:11:12|0001-01-01 00:00:00
        |9999-12-31 23:59:59.999999""",
    "timestamp": """2025-06-02 10:11:12|2025-06-02 10:11:12+02|2025-06-02 10:11:12+2|2025-06-02 10:11:12-02:30
        |2025-06-02 10:11:12+0230|2025-06-02 10:11:12 +02|2025-06-02 10:11:12+15|2025-06-02 10:11:12+14:00
        |2025-06-02 10:11:12+14:01|2025-06-02 10:11:12Z|2025-06-02 10:11:12z|2025-06-02 10:11:12 Z
        |2025-06-02 10:11:12 UTC|2025-06-02 10:11:12 Europe/Berlin|2025-06-02+02|2025-06-02|2025-06-02 10
        |2025-06-02 24:00:00|2025-06-02 23:59:60|2025-06-02 23:60:00|2025-06-02 10:11:12.1234567
        |2025-06-02T10:11:12.123456789Z| 2025-06-02 10:11:12|2025-06-02 10:11:12 |2025-02-30 10:11:12
        |0000-06-02 10:11:12|0001-01-01 00:00:00|9999-12-31 23:59:59.999999|9999-12-31 23:59:59-01""",
}
CASTS = [
    (type_, text.rstrip("\n")) for type_, texts in TEXTS.items() for text in texts.replace("\n        ", "").split("|")
]
# NaN equals nothing, and comes before all numbers. As text, or as a condition: JSON has no NaN.
FLOATS = "(select t, cast(t as float64) as x from unnest(['1', 'nan', '-inf', 'inf', null, 'nan']) as t)"
NAN = [
    *(f"select t from {FLOATS} where {condition}" for condition in (
        "x = x", "x <> x", "x < 5", "x <= x", "x > 0", "x >= 0", "0 < x", "5 >= x", "not x > 0", "not x = x", "x != 1",
        "x between 0 and 5", "x not between 0 and 5", "x in (1.0, 2.0)", "x is distinct from 1", "is_nan(x)", "x < x",
        "x > 0 or x <= 0", "if(x > 0, true, false)", "case when x < 9 then true else false end",
    )),
    *(f"select {value} as v from {FLOATS}" for value in (
        "x = x", "x < 1", "x >= 1", "cast(least(x, 1.0) as string)", "cast(greatest(x, 1.0) as string)",
        "cast(least(1, x, 2) as string)", "cast(min(x) over () as string)", "cast(max(x) over () as string)",
    )),
    *(f"select {value} as v from {FLOATS}" for value in (
        "cast(min(x) as string)", "cast(max(x) as string)", "cast(avg(x) as string)", "cast(sum(x) as string)",
        "count(distinct x)", "count(x)", "countif(x > 0)",
    )),
    *(f"select {value} as v from {FLOATS} where not is_nan(x)" for value in (
        "cast(min(x) as string)", "cast(max(x) as string)",
    )),
    f"select cast(x as string) as v, count(*) as n from {FLOATS} group by x",
    f"select distinct cast(x as string) as v from {FLOATS}",
    f"select t, cast(min(x) as string) as v from {FLOATS} group by t having min(x) <= 1",
    "select ieee_divide(0, 0) = ieee_divide(0, 0) as a, ieee_divide(-1, 0) < 0 as b, ieee_divide(1, 0) > 1e308 as c",
    "select 3 / 2 = 1.5 as a, 3 / 2 > 1 as b, 1 < 3 / 2 as c, avg(x) > 1 as d from unnest([1, 2]) as x",
    "select min(cast(t as float64)) as v from unnest(['1', '0', '-3', null]) as t",
]  # fmt: skip


@pytest.mark.parametrize("call", OUTSIDE)
def test_a_safe_function_is_null_outside_of_the_calendar(both_engines: BothEngines, call: str) -> None:
    assert both_engines.same(f"select safe.{call} as v")


@pytest.mark.parametrize("value", [*OUTSIDE, *OUTSIDE_AS_OPERATORS])
def test_what_leaves_the_calendar_is_an_error_otherwise(both_engines: BothEngines, value: str) -> None:
    with pytest.raises(GoogleSQLError):
        both_engines.google.answer(f"select {value} as v")
    with pytest.raises(StatementFailed) as failure:
        both_engines.sandbox.rows(f"select {value} as v")
    assert failure.value.sqlstate == DATETIME_FIELD_OVERFLOW


@pytest.mark.parametrize("value", [*INSIDE, *ZONES])
def test_a_moment_is_the_same(both_engines: BothEngines, value: str) -> None:
    assert both_engines.same(f"select {value} as v")


@pytest.mark.parametrize(("type_", "text"), CASTS)
def test_a_text_is_read_alike(both_engines: BothEngines, type_: str, text: str) -> None:
    assert both_engines.same(f"select safe_cast('{text}' as {type_}) as v")
    # Of a row, not a constant.
    assert both_engines.same(f"select safe_cast(t as {type_}) as v from unnest(['{text}', null]) as t")


@pytest.mark.parametrize("text", NAN)
def test_nan_is_compared_alike(both_engines: BothEngines, text: str) -> None:
    assert both_engines.same(text)
