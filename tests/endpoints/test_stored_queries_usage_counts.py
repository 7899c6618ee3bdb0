"""usage.api-counts against a count in Python over the same rows: the edges of the window, every plan, NULL."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any, Final

import orjson
import psycopg
import pytest

from endpoints.calling.calls import find_endpoint
from endpoints.defining.endpoint_files import read_endpoint_file
from endpoints.results.outcomes import Statement
from endpoints.sql.composition import compile_query
from logsources.topology import read_topology
from tests.files import FIXTURES

pytestmark = [pytest.mark.usefixtures("log_database"), pytest.mark.sql]

WINDOWS: Final = {
    "minutely": (timedelta(minutes=60), timedelta(minutes=1)),
    "hourly": (timedelta(hours=1), timedelta(hours=1)),
    "daily": (timedelta(days=7), timedelta(days=1)),
}
AREAS: Final = ("rest", "storage", "auth", "realtime")
COMPATIBLE: Final = FIXTURES / "compat" / "usage.api-counts.sql"
MICROSECOND: Final = timedelta(microseconds=1)
# The covering index takes 1,200 bytes of path and URL together.
PATHS: Final = (
    *("/rest/v1/x", "/storage/v1/auth", "/auth", "rest", "/REST/", "/other/realtime/rest", "", None),
    *("/rest/" + "x" * 570, "/" + "y" * 3_000 + "/storage", "/auth/" + "%_" * 700),
)
HOSTS: Final = ("acme.example.com", "my-shop_1.example.com", "my-shopX1.example.com", None)
PATTERNS: Final = ("acme", "my-shop_1", "ACME", "^https://acme\\.", "acme|shop", "(?i)ACME", "nothing", "", ".", None)
MODES: Final = ("force_custom_plan", "force_generic_plan")

Row = tuple[datetime, str | None, str | None]  # its timestamp, path and URL


def moments(now: datetime, interval: str) -> list[datetime]:
    """Moments in every bucket but the third, on every edge of window and buckets, and beside them."""
    window, bucket = WINDOWS[interval]
    first = start_of(now - window, interval)
    edges = [now - window, now, *(first + number * bucket for number in range(window // bucket + 2) if number != 3)]
    near = {edge + step for edge in edges for step in (-MICROSECOND, timedelta(0), MICROSECOND)}
    far = {now - 3 * window, now + window, now - window / 2}
    return sorted(moment for moment in near | far if start_of(moment, interval) != first + 2 * bucket)


def start_of(moment: datetime, interval: str) -> datetime:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return moment - (moment - epoch) % WINDOWS[interval][1]


def insert(connection: psycopg.Connection[Any], rows: Sequence[Row]) -> None:
    stored = []
    for number, (timestamp, path, url) in enumerate(rows):
        request = {name: value for name, value in {"path": path, "url": url}.items() if value is not None}
        stored.append((str(number), timestamp, orjson.dumps([{"request": [request]}]).decode()))
    connection.cursor().executemany(
        "INSERT INTO logs.edge_logs (id, project, timestamp, event_message, metadata) VALUES (%s, 'any', %s, '', %s)",
        stored,
    )


def expected(rows: Sequence[Row], now: datetime, interval: str, pattern: str | None) -> list[tuple[Any, ...]]:
    counts: dict[datetime, list[int]] = defaultdict(lambda: [0] * len(AREAS))
    for timestamp, path, url in rows:
        if now - WINDOWS[interval][0] <= timestamp <= now and None not in (url, pattern) and re.search(pattern, url):
            of_bucket = counts[start_of(timestamp, interval)]
            for number, area in enumerate(AREAS):
                of_bucket[number] += f"/{area}" in (path or "")
    return [(start, *counts[start]) for start in sorted(counts)]


def statement(interval: str | None, pattern: str | None, *, compatible: bool = False) -> Statement:
    endpoint = find_endpoint("usage.api-counts")
    sql = read_endpoint_file(COMPATIBLE.read_text()).sql if compatible else endpoint.sql
    compiled = compile_query(sql, endpoint.parameters, max_rows=endpoint.max_rows)
    return compiled.statement({"interval": interval, "project": pattern})


def counted(connection: psycopg.Connection[Any], asked: Statement, mode: str) -> list[tuple[Any, ...]]:
    # A generic plan is an error on a cluster, where nothing stays prepared.
    is_possible = mode != "force_generic_plan" or not read_topology(connection).is_distributed
    connection.execute(f"SET plan_cache_mode = {mode if is_possible else 'auto'}")
    with psycopg.RawCursor(connection) as cursor:
        return cursor.execute(asked.sql, asked.arguments, prepare=True).fetchall()


@pytest.mark.parametrize("interval", sorted(WINDOWS))
def test_rows_on_and_beside_every_edge_are_counted_in_their_bucket(
    log_database: psycopg.Connection[Any], interval: str
) -> None:
    with log_database.transaction(force_rollback=True):  # now() stands still in it
        (now,) = log_database.execute("SELECT now()").fetchone() or ()
        kinds = list(product(PATHS, HOSTS))
        rows = []
        for number, moment in enumerate(moments(now, interval)):
            for path, host in (
                kinds[number % len(kinds)],
                kinds[(7 * number + 3) % len(kinds)],
                ("/rest/v1", HOSTS[0]),
            ):
                rows.append((moment, path, host and f"https://{host}{path or ''}"))
        insert(log_database, rows)
        for pattern, mode in product(PATTERNS, MODES):
            result = counted(log_database, statement(interval, pattern), mode)
            assert result == expected(rows, now, interval, pattern), (pattern, mode)


def test_the_bucket_in_which_the_window_begins_has_the_rows_of_the_window_alone(
    log_database: psycopg.Connection[Any],
) -> None:
    with log_database.transaction(force_rollback=True):
        (now,) = log_database.execute("SELECT now()").fetchone() or ()
        begin = now - WINDOWS["daily"][0]
        insert(log_database, [(moment, "/auth", "acme") for moment in (begin - MICROSECOND, begin)])
        result = counted(log_database, statement("daily", "acme"), "auto")
    assert result == [(start_of(begin, "daily"), 0, 0, 1, 0)]


@pytest.mark.parametrize("mode", MODES)
def test_an_unknown_interval_has_no_rows(log_database: psycopg.Connection[Any], mode: str) -> None:
    with log_database.transaction(force_rollback=True):
        insert(log_database, [(datetime.now(UTC), "/rest", "acme")])
        assert counted(log_database, statement(None, "acme"), mode) == []
        assert counted(log_database, statement("weekly", "acme"), mode) == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("pattern", ["(", "[a", "a{2,1}", "*a"])
def test_an_invalid_expression_fails_without_rows_in_every_plan(
    log_database: psycopg.Connection[Any], pattern: str, mode: str
) -> None:
    with pytest.raises(psycopg.errors.InvalidRegularExpression):
        counted(log_database, statement("daily", pattern), mode)
    log_database.execute("RESET plan_cache_mode")


def test_both_halves_carry_the_project_so_that_a_cluster_may_distribute_by_it() -> None:
    arms = re.findall(r"select\s+edge\.project,", find_endpoint("usage.api-counts").sql)
    assert len(arms) == 2


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("interval", ["1day", "hourly"])
def test_a_day_for_existing_clients_is_the_hour_under_way_and_the_23_before_it(
    log_database: psycopg.Connection[Any], interval: str, mode: str
) -> None:
    with log_database.transaction(force_rollback=True):
        (now,) = log_database.execute("SELECT now()").fetchone() or ()
        this_hour = now.replace(minute=0, second=0, microsecond=0)
        first = this_hour - timedelta(hours=23)
        moments = [*(first + timedelta(hours=number) for number in range(25)), first - MICROSECOND, now]
        insert(log_database, [(moment, "/rest/v1", None) for moment in moments])
        result = counted(log_database, statement(interval, "any", compatible=True), mode)
    # The rows of this hour: the one of its beginning and the one of now.
    counts = [(first + timedelta(hours=number), 1 if number < 23 else 2, 0, 0, 0) for number in range(24)]
    assert result == counts
