"""The two shipped endpoints against a plain Python computation over the same rows."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.conf import settings as django_settings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from endpoints.calling.calls import find_endpoint
from endpoints.calling.prepared_queries import stored_session
from endpoints.calling.purging import purge_cache
from endpoints.log_database.sessions import ReaderSession
from endpoints.sql.composition import compile_query
from endpoints.sql.page_orders import parse_page_order
from endpoints.sql.page_queries import compile_page
from endpoints.sql.parameters import coerce_arguments
from tests.conftest import ApiClient, iso
from tests.live.calls import until
from tests.moments import now

pytestmark = [pytest.mark.usefixtures("log_database"), pytest.mark.sql]
real_rows = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

MOMENT = datetime(2025, 6, 2, 8, 15, 2, 120450, tzinfo=UTC)
moments = st.integers(min_value=-4, max_value=4).map(lambda step: MOMENT + timedelta(microseconds=step))
projects = st.sampled_from(["acme", "globex", "acme ", "ACME"])
log_rows = st.lists(st.tuples(moments, projects), max_size=25)


@real_rows
@given(rows=log_rows, start=st.none() | moments, end=st.none() | moments)
def test_logs_all_returns_the_rows_of_the_project_inside_the_window(
    api: ApiClient,
    insert_rows: Callable[..., None],
    log_database: psycopg.Connection[Any],
    rows: list[tuple[datetime, str]],
    start: datetime | None,
    end: datetime | None,
) -> None:
    log_database.execute("TRUNCATE logs.edge_logs")
    stored = [
        {"id": str(number), "timestamp": timestamp, "project": project, "event_message": f"row {number}"}
        for number, (timestamp, project) in enumerate(rows)
    ]
    insert_rows("edge_logs", stored)

    response = api.query(
        "logs.all",
        {
            "project": "acme",
            "iso_timestamp_start": iso(start) if start else "",
            "iso_timestamp_end": iso(end) if end else "",
        },
    )

    expected = [
        row
        for row in stored
        if row["project"] == "acme"
        and (start is None or row["timestamp"] > start)
        and (end is None or row["timestamp"] <= end)
    ]
    result = response.json()["result"]
    assert response.status_code == 200
    assert {row["id"] for row in result} == {row["id"] for row in expected}
    assert [row["timestamp"] for row in result] == sorted((iso(row["timestamp"]) for row in expected), reverse=True)
    assert all(list(row) == ["id", "timestamp", "event_message", "metadata"] for row in result)


def test_logs_all_answers_with_the_newest_hundred(api: ApiClient, insert_rows: Callable[..., None]) -> None:
    insert_rows(
        "edge_logs",
        [{"id": str(n), "timestamp": MOMENT + timedelta(seconds=n), "project": "acme"} for n in range(130)],
    )
    result = api.query("logs.all", {"project": "acme"}).json()["result"]
    assert [int(row["id"]) for row in result] == list(range(129, 29, -1))


INTERVALS = {
    "minutely": (timedelta(minutes=60), timedelta(minutes=1)),
    "hourly": (timedelta(hours=1), timedelta(hours=1)),
    "daily": (timedelta(days=7), timedelta(days=1)),
}
AREAS = ("rest", "storage", "auth", "realtime")
# Seconds before the call, at a distance from every edge of a window that the test's own run time can't cross.
ages = st.one_of(
    st.integers(60, 3_540), st.integers(3_660, 86_000), st.integers(86_000, 604_700), st.integers(604_900, 900_000)
)
short_paths = [
    *("/rest/v1/x", "/storage/v1/auth/v1", "/auth/v1/rest", "/realtime/v1", "/other", "/REST", "/", "/%_"),
    None,
]
# Too long for the covering index, alone or with the URL, which ends in the path.
long_paths = ["/rest/" + "x" * 580, "/auth/" + "long/" * 300, "/" + "y" * 3_000 + "/storage"]
paths = st.sampled_from(short_paths) | st.sampled_from(long_paths)
hosts = st.sampled_from(["acme.example.com", "acmex.example.com", "globex.example.com", "my-shop.example.com"])


@real_rows
@given(
    rows=st.lists(st.tuples(ages, paths, hosts), max_size=30),
    interval=st.sampled_from(sorted(INTERVALS)),
    pattern=st.sampled_from(["acme", "my-shop", "ACME", "^https://acme\\.", "glob|acmex", "(?i)ACME", "nothing", "."]),
)
def test_usage_api_counts_equals_a_count_in_python(
    api: ApiClient,
    insert_rows: Callable[..., None],
    log_database: psycopg.Connection[Any],
    rows: list[tuple[int, str | None, str]],
    interval: str,
    pattern: str,
) -> None:
    log_database.execute("TRUNCATE logs.edge_logs")
    now = datetime.now(UTC)
    window, bucket = INTERVALS[interval]
    expected: dict[datetime, dict[str, int]] = defaultdict(lambda: dict.fromkeys(AREAS, 0))
    stored = []
    for age, path, host in rows:
        timestamp, url = now - timedelta(seconds=age), f"https://{host}{path or ''}"
        request = {"url": url} | ({"path": path} if path is not None else {})
        stored.append({"timestamp": timestamp, "project": "any", "metadata": [{"request": [request]}]})
        if timestamp >= now - window and re.search(pattern, url):
            start = datetime.fromtimestamp(
                timestamp.timestamp() // bucket.total_seconds() * bucket.total_seconds(), UTC
            )
            for area in AREAS:
                expected[start][area] += bool(path and re.search(f"/{area}", path))
    insert_rows("edge_logs", stored)
    purge_cache("usage.api-counts")

    response = api.query("usage.api-counts", {"interval": interval, "project": pattern})

    assert response.status_code == 200
    assert response.json()["result"] == [
        {"timestamp": iso(start), **{f"total_{area}_requests": counts[area] for area in AREAS}}
        for start, counts in sorted(expected.items())
    ]


def test_usage_api_counts_leaves_out_rows_from_the_future(api: ApiClient, insert_rows: Callable[..., None]) -> None:
    request = {"url": "https://acme.example.com/rest/v1", "path": "/rest/v1"}
    insert_rows(
        "edge_logs",
        [
            {
                "timestamp": datetime.now(UTC) + timedelta(hours=1),
                "project": "acme",
                "metadata": [{"request": [request]}],
            }
        ],
    )
    assert api.query("usage.api-counts", {"interval": "daily", "project": "acme"}).json() == {"result": []}


@pytest.mark.parametrize("pattern", ["(", "[a", "a{2,1}", "*a"])
def test_usage_api_counts_refuses_an_invalid_regular_expression_and_says_so(api: ApiClient, pattern: str) -> None:
    response = api.query("usage.api-counts", {"interval": "daily", "project": pattern})
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (400, "invalid_parameters")
    assert error["details"] == [{"name": "project", "reason": "is not a valid regular expression"}]


@pytest.mark.one_server("the coordinator of a cluster does not show the plans of its workers")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [("logs.all", {"iso_timestamp_start": 5, "iso_timestamp_end": 0}), ("usage.api-counts", {"interval": "minutely"})],
)
def test_stored_queries_skip_the_partitions_outside_their_window(
    log_database: psycopg.Connection[Any], name: str, arguments: dict[str, str | int]
) -> None:
    began = now()
    # With an end: right after midnight the window begins on the first day that has a partition.
    moments = {key: iso(began - timedelta(minutes=ago)) for key, ago in arguments.items() if isinstance(ago, int)}
    endpoint = find_endpoint(name)
    parameters = endpoint.parameters
    statement = compile_query(endpoint.sql, parameters, max_rows=10).statement(
        coerce_arguments(parameters, {"project": "acme", **arguments, **moments})
    )
    with psycopg.RawCursor(log_database) as cursor:
        cursor.execute("EXPLAIN (ANALYZE, COSTS OFF) " + statement.sql, statement.arguments)
        plan = "\n".join(row[0] for row in cursor)
    partitions = log_database.execute(
        "SELECT count(*) FROM pg_inherits WHERE inhparent = 'logs.edge_logs'::regclass"
    ).fetchone()
    scanned = set(re.findall(r"edge_logs_(?:p\d+|default)(?=.*actual)", plan))
    assert partitions is not None
    assert partitions[0] > 5
    # The window is of minutes, and may be over midnight.
    days = {f"edge_logs_p{day:%Y%m%d}" for day in (began, began - timedelta(days=1))}
    assert scanned
    assert scanned <= {*days, "edge_logs_default"}


@contextmanager
def reader(log_database: psycopg.Connection[Any], session: ReaderSession) -> Iterator[psycopg.Connection[Any]]:
    """A connection of the gate that has become the reader of this session."""
    gate = {**django_settings.LOGS_GATE, "dbname": log_database.info.dbname}
    with psycopg.connect(**gate, autocommit=True, cursor_factory=psycopg.RawCursor) as connection:
        for setting in session.settings("").items():
            connection.execute("SELECT set_config($1, $2, false)", setting)
        yield connection


@pytest.mark.one_server("the coordinator of a cluster does not show the plans of its workers")
def test_logs_all_takes_the_newest_rows_from_the_index_with_one_plan_for_all_arguments(
    log_database: psycopg.Connection[Any],
) -> None:
    log_database.execute(
        "INSERT INTO logs.edge_logs (id, project, timestamp, event_message, metadata)"
        " SELECT n, 'acme', now() - n * interval '1 minute', 'made up', '[]' FROM generate_series(1, 5000) AS n"
    )
    log_database.execute("VACUUM ANALYZE logs.edge_logs")
    endpoint = find_endpoint("logs.all")
    parameters = endpoint.parameters
    start = iso(datetime.now(UTC) - timedelta(days=3))
    arguments = coerce_arguments(parameters, {"project": "acme", "iso_timestamp_start": start})
    statement = compile_query(endpoint.sql, parameters, max_rows=1000).statement(arguments)
    with reader(log_database, stored_session(endpoint, arguments)) as connection:
        connection.execute(f"PREPARE newest (text, timestamptz, timestamptz) AS {statement.sql}")
        explained = connection.execute(f"EXPLAIN (ANALYZE, COSTS OFF) EXECUTE newest ('acme', '{start}', NULL)")
        plan = [line for (line,) in explained]
    read = [int(rows) for line in plan if "Scan" in line for rows in re.findall(r"rows=(\d+)", line)]
    assert any("$1" in line for line in plan)  # the plan knows no argument
    assert sum(read) < 150  # a hundred rows, and the first one of each other partition
    # Only rows of one moment are sorted, by their ids; never the whole window.
    assert any("Incremental Sort" in line for line in plan)
    assert not any(line.split("(")[0].strip(" ->") == "Sort" for line in plan)


@pytest.mark.one_server("the coordinator of a cluster does not show the plans of its workers")
@pytest.mark.parametrize("order", ["timestamp desc, id desc", "timestamp not null, id not null"])
def test_a_page_of_logs_all_far_behind_reads_no_more_than_the_first(
    log_database: psycopg.Connection[Any], order: str
) -> None:
    log_database.execute(
        "INSERT INTO logs.edge_logs (id, project, timestamp, event_message, metadata)"
        " SELECT n, project, now() - n * interval '10 seconds', 'made up', '[]'"
        " FROM generate_series(1, 20000) AS n, unnest(ARRAY['acme', 'globex']) AS project"
    )
    log_database.execute("VACUUM ANALYZE logs.edge_logs")
    log_database.execute("SET TimeZone = 'UTC'")
    behind = log_database.execute(
        f"SELECT timestamp::text, id FROM logs.edge_logs WHERE project = 'acme'"
        f" ORDER BY {order.replace(' not null', '')} OFFSET 15000 LIMIT 1"
    ).fetchone()
    endpoint, keys = find_endpoint("logs.all"), parse_page_order(order)
    arguments = coerce_arguments(endpoint.parameters, {"project": "acme"})
    read = {}
    for after in (None, behind):
        query = compile_page(endpoint.sql, endpoint.parameters, keys, after)
        statement = query.statement(arguments, after, limit=101)
        values = ", ".join("NULL" if value is None else f"'{value}'" for value in statement.arguments)
        with reader(log_database, stored_session(endpoint, arguments)) as connection:
            connection.execute(f"PREPARE page AS {statement.sql}")
            plan = [line for (line,) in connection.execute(f"EXPLAIN (ANALYZE, COSTS OFF) EXECUTE page ({values})")]
        scans = [line for line in plan if "Scan" in line]
        read[after] = sum(int(rows) for line in scans for rows in re.findall(r"rows=(\d+)", line))
        removed = [int(number) for line in plan for number in re.findall(r"Removed by Filter: (\d+)", line)]
        assert sum(removed) < 5  # the row that the page before ended with
        assert not any(" Sort (" in line and "Incremental" not in line for line in plan)
    assert max(read.values()) < 150


def vacuum(log_database: psycopg.Connection[Any]) -> None:
    """Vacuum the gateway table until every page is known to be visible to all: an older snapshot prevents it."""

    def is_done() -> bool:
        log_database.execute("VACUUM ANALYZE logs.edge_logs")
        left = log_database.execute(
            "SELECT count(*) FROM pg_inherits JOIN pg_class ON oid = inhrelid"
            " WHERE inhparent = 'logs.edge_logs'::regclass AND relallvisible < relpages"
        ).fetchone()
        return left == (0,)

    until(is_done, seconds=20)


@pytest.mark.one_server("the coordinator of a cluster does not show the plans of its workers")
def test_usage_api_counts_reads_the_covering_index_alone(log_database: psycopg.Connection[Any]) -> None:
    log_database.execute(
        "INSERT INTO logs.edge_logs (id, project, timestamp, event_message, metadata)"
        " SELECT n, 'acme', date_trunc('day', now(), 'UTC') + (1440 - n) * interval '1 minute', 'made up', %s"
        " FROM generate_series(1, 4 * 1440) AS n",  # whole days: a partition of a few rows is rightly read in sequence
        [Jsonb([{"request": [{"url": "https://acme.example.com/rest/v1", "path": "/rest/v1"}]}])],
    )
    vacuum(log_database)
    endpoint = find_endpoint("usage.api-counts")
    parameters = endpoint.parameters
    arguments = coerce_arguments(parameters, {"project": "acme", "interval": "daily"})
    statement = compile_query(endpoint.sql, parameters, max_rows=10).statement(arguments)
    with reader(log_database, stored_session(endpoint, arguments)) as connection:
        explained = connection.execute("EXPLAIN (ANALYZE, COSTS OFF) " + statement.sql, statement.arguments)
        plan = [line for (line,) in explained]
    scans = [line for line in plan if " on edge_logs_p" in line and "never executed" not in line]
    short = [line for line in scans if "Index Only Scan" in line]
    assert any(not re.search(r"rows=0\b", line) for line in short)
    # Partitions of other tests' days may be there, without rows: those are rightly read in sequence.
    filled = {name for (name,) in log_database.execute("SELECT DISTINCT tableoid::regclass::text FROM logs.edge_logs")}
    in_sequence = {found[1] for line in scans if (found := re.search(r"Seq Scan on (\w+)", line))}
    assert filled
    assert not in_sequence & {name.removeprefix("logs.") for name in filled}
    assert all(re.search(r"rows=0\b", line) for line in scans if line not in short)
