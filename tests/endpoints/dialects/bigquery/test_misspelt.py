"""A name that is a column's with a slip is refused, and the refusal says which name was probably meant."""

from __future__ import annotations

import pytest
from sqlglot.parsers.bigquery import BigQueryParser

from endpoints.dialects import MisspeltName, SampledFields
from endpoints.dialects.bigquery import check_bigquery, forget_translations, log_table, translate
from endpoints.dialects.bigquery.function_names import FUNCTION_NAMES
from endpoints.dialects.bigquery.spellings import nearest
from endpoints.dialects.field_paths import FieldPath, FieldUse
from endpoints.errors import EndpointError, SandboxViolation
from endpoints.results.outcomes import Column
from tests.linear import work_of

COLUMNS = (
    Column("timestamp", "timestamp with time zone"),
    Column("id", "uuid"),
    Column("event_message", "text"),
    Column("metadata", "jsonb"),
)
TABLES = (log_table("edge_logs", COLUMNS), log_table("auth_logs", COLUMNS))
UNNESTED = "from edge_logs t cross join unnest(metadata) m left join unnest(m.request) request"


def refusal(text: str) -> SandboxViolation:
    with pytest.raises(SandboxViolation) as raised:
        check_bigquery(text, tables=TABLES)
    return raised.value


def is_accepted(text: str, **sampled: frozenset[str]) -> bool:
    try:
        translate(text, tables=TABLES, sampled=SampledFields(**sampled))
    except MisspeltName:
        return False
    return True


def test_says_which_column_was_meant() -> None:
    error = refusal(f"select event_massage {UNNESTED}")
    assert error.message == "Line 1, column 8: `event_massage` is not a column here. Did you mean `event_message`?"
    (detail,) = error.details
    assert detail["similar"] == ["event_message"]
    assert (detail["construct"], detail["line"], detail["column"]) == ("event_massage", 1, 8)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (f"select evnet_mesage {UNNESTED}", "event_message"),
        (f"select id {UNNESTED} where Event_Mesage = 'x'", "event_message"),
        (f"select id {UNNESTED} order by timestmp", "timestamp"),
        (f"select upper(requst) {UNNESTED}", "request"),
        (f"select count(*) as total, m.level {UNNESTED} group by 2 order by totl", "total"),
        (f"select count(*) as total, m.level {UNNESTED} group by level having totla > 1", "total"),
        (f"select count(*) as total, m.level {UNNESTED} group by levle", "level"),
        (f"with w as (select m.path as where_to, metadata {UNNESTED}) select wher_to from w, unnest(metadata) m",
         "where_to"),
        (f"select (select max(x) from unnest(m.tags) x where timestamps_ is null) {UNNESTED}", "timestamp"),
    ],
)  # fmt: skip
def test_knows_columns_and_aliases_in_scope(text: str, meant: str) -> None:
    assert f"Did you mean `{meant}`?" in refusal(text).message


@pytest.mark.parametrize(
    "text",
    [
        f"select level, path, host, status_code {UNNESTED}",
        f"select timestamps {UNNESTED}",  # a plural is a name of its own
        f"select requests {UNNESTED}",
        f"select it {UNNESTED}",  # too short to be a slip
        f"select m.event_massage {UNNESTED}",  # certainly a field
        f"select event_massage.x {UNNESTED}",
        f"select count(*) as total {UNNESTED} where totl = 1",  # aliases are not in scope in WHERE
        "select event_massage from edge_logs, unnest(split(event_message)) m",  # nobody could look whether it exists
    ],
)
def test_other_names_are_fields(text: str) -> None:
    assert is_accepted(text)


def test_a_name_that_sampled_records_have_is_a_field() -> None:
    text = f"select event_massage {UNNESTED}"
    assert not is_accepted(text)
    assert is_accepted(text, present=frozenset({"event_massage"}))


def test_tells_where_the_field_would_be() -> None:
    with pytest.raises(MisspeltName) as raised:
        translate(f"select event_massage {UNNESTED}", tables=TABLES)
    paths = [FieldPath("edge_logs", "metadata", steps) for steps in (("event_massage",), ("request", "event_massage"))]
    assert raised.value.name == "event_massage"
    assert raised.value.field == FieldUse(tuple(paths))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("select t.event_massage from edge_logs t", "`t.event_massage` is not a column. Did you mean `event_message`?"),
        ("select event_massage from edge_logs", "is not a column or a table here. Did you mean `event_message`?"),
        ("select id from edge_lgs", "is not a table that this query may read. Did you mean `edge_logs`"),
        ("select timestmp_trunc(timestamp, hour) from edge_logs", "Did you mean `timestamp_trunc`"),
    ],
)
def test_what_is_no_name_at_all_is_refused_with_a_suggestion(text: str, message: str) -> None:
    assert message in refusal(text).message


def test_suggests_nothing_where_nothing_is_near() -> None:
    assert "similar" not in refusal("select zzz from edge_logs").details[0]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("levle", "level"),  # swapped
        ("levl", "level"),
        ("leevel", "level"),
        ("lexel", "level"),
        ("LEVLE", "level"),
        ("lxvxl", None),  # two slips in a short name
        ("lev", None),
        ("levels", None),
        ("evnet_mesage", "event_message"),
        ("event_massages", "event_message"),
        ("xvxnt_mxssage", None),
        ("", None),
        ("x" * 10_000, None),
    ],
)
def test_a_slip_is_a_letter_or_two(name: str, found: str | None) -> None:
    assert nearest(name, ["id", "level", "event_message"]) == found


def test_the_nearest_name_is_meant() -> None:
    assert nearest("request_id", ["reqest_idx", "request_in", "requestid"]) == "request_in"


def test_suggested_functions_exist() -> None:
    known = {*BigQueryParser.FUNCTIONS, *BigQueryParser.FUNCTION_PARSERS, *BigQueryParser.NO_PAREN_FUNCTION_PARSERS}
    special = {"cast", "if", "left", "right"}  # words of their own
    assert {name for name in FUNCTION_NAMES - special if name.upper() not in known} == set()


@pytest.mark.parametrize("columns", [6, 1_000])
def test_bare_fields_cost_little_beside_wide_tables(columns: int) -> None:
    ones = ",".join(f"1 as timestamp_{index}" for index in range(columns))
    names = " and ".join(f"tymestump_{index} = 1" for index in range(400))
    text = f"with w as (select {ones}) select 1 from w a, w b, w c, edge_logs, unnest(metadata) m where {names}"
    everything = SampledFields(present=frozenset(f"tymestump_{index}" for index in range(400)))

    def check() -> None:
        forget_translations()
        translate(text, tables=TABLES, sampled=everything)

    assert work_of(check, refusals=(EndpointError,)) < 2_500_000


def test_wide_tables_bound_the_search_for_a_slip() -> None:
    ones = ",".join(f"1 as timestamp_{index}" for index in range(350))
    names = " and ".join(f"xyz{index}abcd = 1" for index in range(400))
    text = f"with w as (select {ones}) select 1 from w a, w b, w c, edge_logs, unnest(metadata) m where {names}"

    def check() -> None:
        forget_translations()
        translate(text, tables=TABLES)

    assert work_of(check, refusals=(EndpointError,)) < 2_500_000
