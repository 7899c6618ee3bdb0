"""What ships as data: the endpoints for existing clients ask what the endpoints of their names ask."""

from __future__ import annotations

import re

import pytest

from endpoints.defining.endpoint_files import read_endpoint_file
from tests.files import FIXTURES

OLDER_NAMES = {"postgres_logs": "database_logs", "postgrest_logs": "rest_logs", "pgbouncer_logs": "pooler_logs"}
NEWER_INTERVALS = {"minutely": "1hr", "hourly": "1day", "daily": "7day"}


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
    assert {OLDER_NAMES.get(name, name): sql for name, sql in theirs.items() if name != "supavisor_logs"} == ours


def test_usage_api_counts_for_existing_clients_differs_in_the_names_of_intervals() -> None:
    theirs = compatible("usage.api-counts")
    for ours, newer in NEWER_INTERVALS.items():
        theirs = theirs.replace(f"when @interval in ('{ours}', '{newer}')", f"when '{ours}'")
    theirs = re.sub(r"case\s+when 'minutely'", "case @interval when 'minutely'", theirs)
    assert theirs.split() == stored("usage.api-counts").split()


@pytest.mark.parametrize("name", ["logs.all", "usage.api-counts"])
def test_files_for_existing_clients_set_what_those_clients_need(name: str) -> None:
    endpoint = read_endpoint_file((FIXTURES / "compat" / f"{name}.sql").read_text())
    assert (endpoint.name, endpoint.sandbox_dialect, endpoint.timestamps_as) == (name, "bigquery", "unix_microseconds")
