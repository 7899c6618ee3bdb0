"""What ships as data: the endpoints for existing clients ask what the endpoints of their names ask."""

from __future__ import annotations

import re

import pytest

from endpoints.defining.endpoint_files import read_endpoint_file
from tests.files import FIXTURES

OLDER_NAMES = {"postgres_logs": "database_logs", "postgrest_logs": "rest_logs", "pgbouncer_logs": "pooler_logs"}
NEWER_INTERVALS = {"minutely": "1hr", "hourly": "1day", "daily": "7day"}
ONE_HOUR = "now() - interval '1 hour'"


def stored(name: str) -> str:
    return (FIXTURES / f"{name}.sql").read_text()


def compatible(name: str) -> str:
    return read_endpoint_file((FIXTURES / "compat" / f"{name}.sql").read_text()).sql


def parts(sql: str) -> dict[str, str]:
    """The CTEs by name and the final query under "", white space and comments evened out."""
    plain = " ".join(re.sub(r"--.*", "", sql).split())
    ctes = dict(re.findall(r"(\w+) as \( (select .*? desc) \)", plain))
    return {**ctes, "": plain[plain.rindex(") select ") + 2 :]}


def test_logs_all_for_existing_clients_reads_the_same_rows_under_their_names() -> None:
    ours, theirs = parts(stored("logs.all")), parts(compatible("logs.all"))
    assert len(ours) == 10
    without_order = theirs["postgres_logs"].removesuffix(" order by t.timestamp desc, t.id desc")
    assert theirs.pop("pg_cron_logs").startswith(without_order)
    without_identifier = {name: sql.replace(" t.project as identifier,", "") for name, sql in theirs.items()}
    assert {OLDER_NAMES.get(name, name): sql for name, sql in without_identifier.items()} == ours


@pytest.mark.parametrize("sql", [stored("logs.all"), compatible("logs.all")], ids=["logs.all", "compat"])
def test_every_newest_first_order_ends_in_the_id(sql: str) -> None:
    orders = re.findall(r"order by t\.timestamp.*", sql)
    assert len(orders) >= 10
    assert set(orders) == {"order by t.timestamp desc, t.id desc"}


def test_every_table_of_existing_clients_has_the_same_columns() -> None:
    sql = compatible("logs.all").partition("\nselect ")[0]
    columns = "select t.timestamp, t.id, t.project as identifier, t.event_message, t.metadata"
    assert sql.count(" as (") == sql.count(columns) == 16


def test_usage_api_counts_for_existing_clients_differs_in_intervals_and_in_whose_rows_it_counts() -> None:
    theirs = " ".join(re.sub(r"--.*", "", compatible("usage.api-counts")).split())
    ours = " ".join(re.sub(r"--.*", "", stored("usage.api-counts")).split())
    for name, newer in NEWER_INTERVALS.items():
        theirs = theirs.replace(f"when @interval in ('{name}', '{newer}')", f"when '{name}'")
    theirs = theirs.replace("case when '", "case @interval when '")
    theirs = theirs.replace("date_bin('1 hour', now(), '2000-01-01 00:00:00+00') - interval '23 hours'", ONE_HOUR)
    theirs = re.sub(r"and \( t\.project = @project or (case when .*? end) \)", r"and \1", theirs)
    assert theirs == ours


@pytest.mark.parametrize("name", ["logs.all", "usage.api-counts"])
def test_files_for_existing_clients_set_what_those_clients_need(name: str) -> None:
    endpoint = read_endpoint_file((FIXTURES / "compat" / f"{name}.sql").read_text())
    assert (endpoint.name, endpoint.sandbox_dialect, endpoint.timestamps_as) == (name, "bigquery", "unix_microseconds")
