"""What is not supported is a 400 that names the construct and its place in the consumer's text, and nothing else."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from endpoints.dialects import DIALECTS
from endpoints.errors import EndpointError, RequestTooLarge, SandboxViolation
from endpoints.results.outcomes import Column
from endpoints.sql.parameters import DeclaredParameter
from endpoints.sql.sandbox import SandboxLimits, check_sandbox_query
from googlesql import Refused, translating

COLUMNS = (
    Column("timestamp", "timestamp with time zone"),
    Column("id", "uuid"),
    Column("event_message", "text"),
    Column("metadata", "jsonb"),
)
TABLES = {"edge_logs": COLUMNS, "auth_logs": COLUMNS}
BIGQUERY = DIALECTS["bigquery"]


def refusal(text: str) -> SandboxViolation:
    with pytest.raises(SandboxViolation) as raised:
        BIGQUERY.check(text, tables=TABLES)
    return raised.value


def status(text: str) -> int:
    try:
        BIGQUERY.check(text, tables=TABLES)
    except EndpointError as error:
        return error.status
    return 200


@pytest.mark.parametrize(
    ("text", "construct", "instead"),
    [
        ("select metadata->>'level' from edge_logs", "->>", "`select m.level from"),
        ("select metadata->'level' from edge_logs", "->", "`select m.level from"),
        ("select metadata #>> '{0,level}' from edge_logs", "#>>", "`select m.level from"),
        ("select metadata #> '{0,level}' from edge_logs", "#>", "`select m.level from"),
        ("select date_trunc('hour', timestamp) from edge_logs", "DATE_TRUNC", "timestamp_trunc(timestamp, hour)"),
        ("select DATE_TRUNC('Day', t.timestamp) from edge_logs t", "DATE_TRUNC", "timestamp_trunc(timestamp, Day)"),
        ("select extract(epoch from timestamp) from edge_logs", "EXTRACT(EPOCH …)", "unix_seconds(timestamp)"),
        ("select id from edge_logs where event_message ~ 'x'", "~", "regexp_contains(text, pattern)"),
    ],
)
def test_what_is_postgresqls_says_what_is_bigquerys(text: str, construct: str, instead: str) -> None:
    error = refusal(text)
    assert error.details[0]["construct"] == construct
    assert instead in str(error)


def test_a_text_can_have_the_name_of_a_unit() -> None:
    assert status("select date_trunc(date '2026-01-02', month), 'hour', '->>' from edge_logs") == 200


@pytest.mark.parametrize(
    "text",
    [
        "select id, log_attributes['severity'] from logs where source = 'postgres_logs'",
        "select toStartOfMinute(timestamp) as t, count() from logs group by t",
        "select id from logs where timestamp > toDateTime('2026-01-02 00:00:00') and log_attributes ['x'] = 'y'",
    ],
)
def test_clickhouses_texts_are_told_apart_in_both_dialects(text: str) -> None:
    for check in (BIGQUERY.check, check_sandbox_query):
        with pytest.raises(
            SandboxViolation, match="looks like ClickHouse's SQL; an endpoint reads PostgreSQL's or Big"
        ):
            check(text, tables=TABLES if check is not check_sandbox_query else [])
    assert "ClickHouse" not in str(refusal("select id from logs"))


@pytest.mark.parametrize(
    ("text", "construct", "line", "column"),
    [
        ("select id from log_edge", "log_edge", 1, 16),
        ("select id\nfrom edge_logs,\n  other_logs", "other_logs", 3, 3),
        ("select id from p.d.edge_logs", "p.d.edge_logs", 1, 16),
        ("select x from edge_logs", "x", 1, 8),
        ("select t.x from edge_logs t", "t.x", 1, 8),
        ("select id.x from edge_logs", "id", 1, 8),
        ("select frobnicate(id) from edge_logs", "frobnicate", 1, 8),
        ("select percentile_cont(1, 1.5) over () from edge_logs", "PERCENTILE_CONT", 1, 8),
        ("select percentile_disc(id, 0.5) over (order by id) from edge_logs", "PERCENTILE_DISC", 1, 8),
        ("select id,\n  net.reg_domain(event_message) from edge_logs", "NET.REG_DOMAIN", 2, 7),
        ("select lpad(event_message, 10000) from edge_logs", "LPAD", 1, 8),
        ("select rpad(event_message, length(event_message)) from edge_logs", "RPAD", 1, 8),
        ("select repeat(event_message, -1) from edge_logs", "REPEAT", 1, 8),
        ("select lpad(event_message, 5, '') from edge_logs", "LPAD", 1, 8),
        ("select format(event_message, 5) from edge_logs", "FORMAT", 1, 8),
        ("select format('%d') from edge_logs", "FORMAT", 1, 8),
        ("select format('%d', 1, 2) from edge_logs", "FORMAT", 1, 8),
        ("select format('%*d', 1, 2) from edge_logs", "%*d", 1, 8),
        ("select chr(0) from edge_logs", "CHR", 1, 12),
        ("select rand() from edge_logs", "RAND", 1, 8),
        ("select farm_fingerprint(event_message) from edge_logs", "FARM_FINGERPRINT", 1, 8),
        ("select to_hex(sha1(event_message)) from edge_logs", "SHA1", 1, 15),
        ("select from_base64(event_message) from edge_logs", "FROM_BASE64", 1, 8),
        ("select collate(event_message, 'und:ci') from edge_logs", "COLLATE", 1, 8),
        ("select cast(timestamp as string format 'YYYY') from edge_logs", "CAST … FORMAT", 1, 13),
        ("select safe_cast(event_message as date format 'YYYY') from edge_logs", "CAST … FORMAT", 1, 18),
        ("select date(timestamp, event_message) from edge_logs", "the time zone", 1, 24),
        ("select date(timestamp, 'not a zone') from edge_logs", "the time zone", 1, 24),
        ("select timestamp_bucket(timestamp, interval 1 month) from edge_logs", "timestamp_bucket", 1, 8),
        (
            "select generate_timestamp_array(timestamp, timestamp, interval 1 day) from edge_logs",
            "GENERATE_TIMESTAMP_ARRAY",
            1,
            8,
        ),
        ("select 1 << length(event_message) from edge_logs", "<<", 1, 8),
        ("select round(1.5, 0, 'ROUND_HALF_EVEN') from edge_logs", "ROUND", 1, 8),
        ("select to_json_string(metadata, true) from edge_logs", "TO_JSON_STRING", 1, 8),
        ("select interval '1-2-3' year to month from edge_logs", "INTERVAL … YEAR TO MONTH", 1, 17),
        ("select date_diff(date(timestamp), date(timestamp), century) from edge_logs", "a difference in CENTURY", 1, 8),
        ("select cast(id as bytes) from edge_logs", "CAST to BYTES", 1, 13),
        ("select parse_timestamp('%G', event_message) from edge_logs", "%G", 1, 8),
        ("select parse_timestamp(event_message, event_message) from edge_logs", "PARSE_TIMESTAMP", 1, 8),
        ("select format_timestamp('%J', timestamp) from edge_logs", "%J", 1, 8),
        ("select regexp_contains(event_message, r'(?U)x') from edge_logs", "the pattern", 1, 39),
        ("select regexp_contains(event_message, r'(a)\\1') from edge_logs", "the pattern", 1, 39),
        ("select json_value(event_message, '$.a[*]') from edge_logs", "the JSON path", 1, 34),
        ("select id from edge_logs qualify id = 'x'", "QUALIFY", 1, 34),
        ("select id from edge_logs where row_number() over () = 1", "ROW_NUMBER", 1, 32),
        ("select sum(percentile_cont(1, 0.5) over ()) over () from edge_logs", "a percentile with OVER", 1, 12),
        (
            "select 1 from edge_logs a join auth_logs b on percentile_cont(1, 0) over () = 1",
            "a percentile with OVER",
            1,
            47,
        ),
        ("select id, rank() over (order by id) as r from edge_logs group by id having r = 1", "RANK", 1, 12),
        ("select sum(1) over (rows between current row and 1 preceding) from edge_logs", "the window frame", 1, 8),
        ("select sum(1) over (rows 1 following) from edge_logs", "the window frame", 1, 8),
        ("select sum(1) over (rows unbounded following) from edge_logs", "the window frame", 1, 8),
        ("select sum(1) over w from edge_logs", "w", 1, 20),
        ("select sum(1) over w from edge_logs window v as (), v as ()", "v", 1, 53),
        ("select sum(1) over (w order by id) from edge_logs window w as (order by id)", "w", 1, 21),
        ("select sum(1) over (w partition by id) from edge_logs window w as ()", "w", 1, 21),
        ("select sum(1) over (order by id range 1 preceding) from edge_logs", "RANGE with a distance", 1, 39),
        ("select sum(1) over (rows 1.5 preceding) from edge_logs", "the distance in a ROWS frame", 1, 26),
        ("select sum(1) over (order by id groups 1 preceding) from edge_logs", "a GROUPS frame", 1, 40),
        ("select upper(id) over () from edge_logs", "UPPER", 1, 8),
        ("select rank() over () from edge_logs", "RANK", 1, 8),
        ("select lag(id ignore nulls) over (order by id) from edge_logs", "IGNORE NULLS", 1, 8),
        ("select lag(id, -1) over (order by id) from edge_logs", "the distance in LAG", 1, 17),
        ("select ntile(0) over (order by id) from edge_logs", "NTILE", 1, 8),
        ("select sum(distinct 1) over () from edge_logs", "DISTINCT", 1, 8),
        ("select count(distinct id) over (order by id) from edge_logs", "COUNT(DISTINCT …)", 1, 8),
        ("select array_agg(id order by id) over () from edge_logs", "ORDER BY", 1, 8),
        ("select sum(1 having max id) from edge_logs", "HAVING MAX", 1, 12),
        ("select approx_top_count(id, 0) from edge_logs", "APPROX_TOP_COUNT", 1, 8),
        ("select grouping(id, timestamp) from edge_logs group by 1", "GROUPING", 1, 8),
        ("select id like any 'x' from edge_logs", "LIKE ANY", 1, 20),
        ("select id from edge_logs where (id, 1) = (id, 2, 3)", "(…, …)", 1, 43),
        ("with recursive a as (select 1 as x) select x from a", "WITH RECURSIVE", 1, 16),
        ("select id from edge_logs union all select id, timestamp from edge_logs", "UNION ALL", 1, 8),
        ("select string_agg(event_message limit 0) from edge_logs", "LIMIT in an aggregate", 1, 19),
        ("select id from edge_logs order by 3", "ORDER BY 3", 1, 35),
        ("select id from edge_logs where", "where", 1, 26),
        ("select id frm edge_logs", "edge_logs", 1, 15),
        ("select id from edge_logs; drop table edge_logs", ";", 1, 25),
        ('select id from "edge_logs"', "a string", 1, 16),
        ("select 'a' 'b'", "a string", 1, 12),
        ("select 1;;", ";", 1, 9),
        ("select\x1f1", "U+001F", 1, 7),
        ("select 'never closed", "a string or comment", 1, 20),
        ("delete from edge_logs", "delete", 1, 1),
        ("from edge_logs |> where true", "from", 1, 1),
        ("", "the query", 1, 1),
        ("-- only this", "the query", 1, 1),
    ],
)
def test_names_the_construct_and_its_place(text, construct, line, column):
    error = refusal(text)
    (detail,) = error.details
    assert (detail["construct"], detail["line"], detail["column"]) == (construct, line, column)
    assert error.status == 400
    assert detail["tables"] == ["edge_logs", "auth_logs"]
    assert error.message.startswith(f"Line {line}, column {column}: ")


@pytest.mark.parametrize(
    ("text", "construct", "line", "column"),
    [
        ("select id,\n  @nobody as x from edge_logs", "@nobody", 1, 8),
        ("select 'a\nb' as x, 1 as `caf\u00e9` from edge_logs", '"caf\u00e9"', 2, 10),
        ("select pg_sleep(1)", "pg_sleep", 1, 8),
    ],
)
def test_tells_what_the_checker_refuses_at_its_place_in_the_consumers_text(text, construct, line, column):
    (detail,) = refusal(text).details
    assert (detail["construct"], detail["line"], detail["column"]) == (construct, line, column)


@pytest.mark.parametrize(
    ("text", "name", "column"),
    [
        ('select 1 as x, 2 as `a", id as "b` from edge_logs', '"a"", id as ""b"', 16),
        ('select 1 as `a" --`, 2 as b', '"a"" --"', 8),
        ('select 1 as `a" /*`, 2 as `*/ b`', '"a"" /*"', 8),
        ('select m.`a"b` from edge_logs, unnest(metadata) m', '"a""b"', 8),
        ('with `a"b` as (select 1 as c) select 1 from `a"b`', '"a""b"', 1),
    ],
)
def test_a_quote_in_a_name_ends_no_name(text: str, name: str, column: int) -> None:
    error = refusal(text)
    assert "is not a name" in error.message
    assert (error.details[0]["construct"], error.details[0]["column"]) == (name, column)


def test_maps_postgresqls_positions_to_the_consumers_text():
    text = "select m.level,\n  upper(id) as x\nfrom edge_logs cross join unnest(metadata) m"
    query, _ = BIGQUERY.check(text, tables=TABLES)
    statement = query.statement({}, max_rows=5).sql
    at = query.original_offset(statement.index('"upper"'))
    assert text[at:].startswith("upper")
    assert text[query.original_offset(statement.index("'level'")) :].startswith("m.level")
    assert text[query.original_offset(statement.index('"edge_logs" AS')) :].startswith("edge_logs")


def test_refuses_a_text_over_the_limit():
    with pytest.raises(RequestTooLarge):
        BIGQUERY.check("select '" + "é" * 8_200 + "'", tables=TABLES)
    with pytest.raises(RequestTooLarge):
        BIGQUERY.check("select 1 from edge_logs", tables=TABLES, limits=SandboxLimits(bytes=10))


def test_checks_what_it_made_against_the_same_limits():
    with pytest.raises(SandboxViolation, match="one FROM item too many"):
        BIGQUERY.check(f"select 1 from edge_logs{', unnest(metadata) m' * 24}", tables=TABLES)


def test_knows_the_types_of_parameters():
    text = "select id from edge_logs where timestamp > @since"
    query, _ = BIGQUERY.check(text, tables=TABLES, parameters=[DeclaredParameter("since")])
    assert '"try_timestamp" ( ($1::text) ::' in query.sql


SIXTEEN_KIB = 16 * 1024


def filled(prefix: str, piece: str, suffix: str = "") -> str:
    return prefix + piece * ((SIXTEEN_KIB - len(prefix) - len(suffix)) // len(piece)) + suffix


HOSTILE = {
    "brackets": filled("select ", "("),
    "square brackets": filled("select ", "["),
    "quotes": filled("select ", "'"),
    "triple quotes": filled("select '''", "'"),
    "backticks": filled("select ", "`"),
    "digits": filled("select ", "9"),
    "an exponent": filled("select 1e", "9"),
    "a long index": "select metadata[" + "9" * 5_000 + "] from edge_logs",
    "pluses": "select " + "+".join(["1"] * 1_400),
    "nots": filled("select ", "not ", "1"),
    "minuses": filled("select 1", "- "),
    "dots": "select m" + ".a" * 1_400 + " from edge_logs, unnest(metadata) m",
    "subscripts": "select metadata" + "[0]" * 900 + " from edge_logs",
    "commas": filled("select ", ","),
    "semicolons": filled("select 1", ";"),
    "comments": filled("select 1 ", "/**/"),
    "structs": "select " + "struct(" * 30 + "1" + ")" * 30,
    "array lengths": "select " + "array_length(" * 28 + "[1]" + ")" * 28,
    "array types": "select cast(1 as " + "array<" * 2_000 + "int64",
    "cases": filled("select ", "case when "),
    "intervals": filled("select ", "interval "),
    "subqueries": "select * from " + "(select * from " * 31 + "edge_logs" + ")" * 31,
    "stars": "with a0 as (select 1 as x, 2 as y)"
    + "".join(f", a{n} as (select p.*, q.* from a{n - 1} p, a{n - 1} q)" for n in range(1, 18))
    + " select * from a17",
    "bare fields": "select " + ",".join(f"x{n}" for n in range(300)) + " from edge_logs "
    + " ".join(f"cross join unnest(metadata) as m{n}" for n in range(30)),
    "aliases in HAVING": "select " + "+".join(["1"] * 90) + " as a from edge_logs group by id having "
    + " or ".join(["a > 1"] * 400),
    "named windows": "select " + ",".join(["sum(1) over w"] * 300) + " from edge_logs window w as (partition by "
    + ",".join(["id"] * 300) + ")",
    "windows that begin with windows": "select sum(1) over w299 from edge_logs window w0 as (partition by id)"
    + "".join(f", w{n} as w{n - 1}" for n in range(1, 300)),
    "aliases in QUALIFY": "select " + "+".join(["1"] * 90) + " as a from edge_logs qualify row_number() over () > 1 or "
    + " or ".join(["a > 1"] * 400),
    "nested QUALIFY": "select x from " + "(select x from " * 29 + "(select 1 as x)"
    + " qualify row_number() over () = 1)" * 29,
    "percentiles": "select " + ",".join(["percentile_cont(1, 0.5) over ()"] * 200),
    "patterns": "select " + "||".join(["'a'"] * 200) + " like any (" + ",".join(["'a'"] * 400) + ")",
    "tuples": "select (" + ",".join(["1"] * 50) + ") in (" + ",".join(["(" + ",".join(["1"] * 50) + ")"] * 20) + ")",
    "grouping sets": "select 1 from edge_logs group by " + ",".join(["cube(id, timestamp, event_message)"] * 200),
    "nested grouping sets": "select 1 from edge_logs group by " + "grouping sets (" * 28 + "id" + ")" * 28,
    "joins": filled("select 1 from edge_logs t", " join edge_logs using (id)"),
    "unions": filled("select 1", " union all select 1"),
    "a pattern of brackets": "select regexp_contains('a', '" + "(" * 7_000 + "')",
    "a pattern of sets": "select regexp_contains('a', '" + "[" * 7_000 + "')",
    "a long path": "select json_value('a', '$" + "[0]" * 3_000 + "')",
    "control characters": "select \x00",
    "a surrogate": "select '\ud800'",
}  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_ends_soon_whatever_is_sent(text):
    started = time.thread_time()
    assert status(text) in (200, 400, 413)
    assert time.thread_time() - started < 2  # seconds; most take a few milliseconds


def test_does_not_log_the_text_of_statements_it_does_not_know(caplog):
    for text in (
        "call secret_procedure('value')",
        "explain select 'value'",
        "show tables",
        "select json_value('', 'x[')",
    ):
        refusal(text)
    assert caplog.records == []


VOCABULARY = r"""
    select from edge_logs where ( ) , * m . id as union all with 1 'x' "y" unnest(metadata) cross join left on true
    group by order timestamp_trunc( minute case when then end array_agg( struct( [ ] ; -- count(*) interval day null is
    not in between and or cast( int64) `a b` @p limit having over( approx_quantiles( offset(95) json_value( '$.a'
    regexp_contains( r'\d' safe. extract( hour if( distinct except replace qualify window w partition by rows range 1
    preceding current row ignore nulls rollup( cube( grouping sets like any( percentile_cont( 0.5 any_value( max"""
WORDS = st.sampled_from(VOCABULARY.split())


@settings(max_examples=200, deadline=None)
@given(st.lists(WORDS, max_size=25))
def test_answers_any_words(words):
    assert status("select " + " ".join(words)) in (200, 400)


@pytest.mark.parametrize(
    "text",
    [
        "select m.level from edge_logs t, t.metadata as (metadata)",
        "select m.level from edge_logs t, unnest(t.metadata) as m, m.request as (r)",
        "select 1 from edge_logs t cross join unnest(t.metadata) as m (a, b)",
        "select replace('a', 'b')",
        "select safe.case((select 1), hour) from edge_logs",
        "select net_func(id) from edge_logs",
        "select replace('a')",
        "select strpos('a')",
    ],
)
def test_what_the_translator_misses_a_part_of_is_refused(text: str) -> None:
    assert isinstance(refusal(text).__cause__, Refused | None)


@pytest.mark.parametrize(
    "text",
    [
        "with x as (select 1 as a) set a = 'secret' from x",
        "with x as (select 1) merge into y using x on 'secret' = 'secret'",
        "(select 1) set a = 'secret'",
        "with x as (select 1) call y('secret')",
        "with x as (select json_value(a, '$.secret[') as a from edge_logs) select * from x",
    ],
)
def test_nothing_of_a_text_is_logged(text: str, caplog: pytest.LogCaptureFixture, capfd: Any) -> None:
    status(text)
    assert (caplog.text, capfd.readouterr().err) == ("", "")


def test_a_fault_of_the_translator_is_a_refusal_that_quotes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise KeyError("secret")

    monkeypatch.setattr(translating, "translate_query", fail)
    with capture_logs() as lines:
        error = refusal("select 'secret' from edge_logs")
    assert error.status == 400
    assert error.message == "Line 1, column 1: the query cannot be translated; write it in a simpler way."
    (line,) = lines
    assert (line["event"], line["cause"]) == ("bigquery_translation_failed", "KeyError")
    assert line["place"].endswith(" fail")
    assert "secret" not in repr((error.details, line))
