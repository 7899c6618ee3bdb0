"""Pages together are the whole result: every row that was there at the first page comes once, whatever is loaded then.

Rows are loaded between any two pages, before and behind the place that the walk has reached, also by other threads
while pages are read. Rows loaded behind it may come or not; none may come twice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import orjson
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from endpoints.calling.calls import run_endpoint
from endpoints.calling.query_requests import Call
from endpoints.defining.saving import save_endpoint
from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter
from logsources.databases import owner_connection

pytestmark = pytest.mark.usefixtures("log_database")

MOMENT = datetime(2025, 6, 2, 23, 59, 59, 999_998, tzinfo=UTC)  # the next microseconds are of another day
moments = st.integers(min_value=-3, max_value=6).map(lambda step: MOMENT + timedelta(microseconds=step))
loads = st.lists(st.lists(moments, max_size=4), max_size=12)
orders = st.sampled_from(
    [
        "timestamp desc, id desc",
        "timestamp, id",
        "timestamp not null, id not null",
        "id, timestamp desc",
        "id desc, timestamp",
    ]
)
SQL = "SELECT id, timestamp, event_message FROM logs.edge_logs WHERE project = @project ORDER BY id LIMIT 2"


def pages(name: str, size: int, **arguments: str) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of each page."""
    token: str | None = ""
    while token is not None:
        call = Call(arguments={**arguments, "page_size": str(size), "page_token": token})
        body = orjson.loads(run_endpoint(name, call=call).outcome.body)
        token = body["next"]
        assert len(body["result"]) == size or token is None
        yield body["result"]


def store(connection: psycopg.Connection[Any], rows: list[tuple[str, datetime]]) -> None:
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO logs.edge_logs (id, project, timestamp, event_message, metadata)"
            " VALUES (%s, %s, %s, '', '[]')",
            [(id_, project, moment) for id_, moment in rows for project in ("acme", "globex")],
        )


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(first=st.lists(moments, max_size=16), loads=loads, size=st.integers(1, 7), order=orders)
def test_rows_loaded_between_pages_double_and_hide_none(
    log_database: psycopg.Connection[Any], first: list[datetime], loads: list[list[datetime]], size: int, order: str
) -> None:
    log_database.execute("DELETE FROM logs.edge_logs")
    Endpoint.objects.filter(name="test.whole").delete()
    endpoint = Endpoint(name="test.whole", sql=SQL, tenant_parameter="project", page_order=order)
    save_endpoint(endpoint, [DeclaredParameter("project", required=True)])
    # Their digits turned round: ids follow no order of time.
    numbers = (f"{number:04}"[::-1] for number in count())
    there = [(next(numbers), moment) for moment in first]
    store(log_database, there)

    seen: list[dict[str, Any]] = []
    later = iter(loads)
    for rows in pages("test.whole", size, project="acme"):
        seen += rows
        store(log_database, [(next(numbers), moment) for moment in next(later, [])])

    ids = [row["id"] for row in seen]
    assert len(ids) == len(set(ids))
    assert {id_ for id_, _ in there} <= set(ids)
    in_order = list(
        log_database.execute(
            f"SELECT id FROM logs.edge_logs WHERE project = 'acme' ORDER BY {order.replace(' not null', '')}"
        )
    )
    places = {id_: place for place, (id_,) in enumerate(in_order)}
    assert [places[id_] for id_ in ids] == sorted(places[id_] for id_ in ids)


@pytest.mark.parametrize("order", ["timestamp desc, id desc", "id, timestamp"])
def test_rows_loaded_by_other_threads_meanwhile_double_and_hide_none(
    log_database: psycopg.Connection[Any], order: str
) -> None:
    endpoint = Endpoint(name="test.whole", sql=SQL, tenant_parameter="project", page_order=order)
    save_endpoint(endpoint, [DeclaredParameter("project", required=True)])
    there = [(f"{number:04}"[::-1], MOMENT + timedelta(microseconds=number % 7)) for number in range(300)]
    store(log_database, there)
    over, failures = threading.Event(), []

    def load(numbers: range) -> None:
        # Not for ever: a walk ends only if it is faster than the rows that are loaded behind it.
        try:
            with owner_connection() as connection:
                for number in numbers:
                    if over.is_set():
                        return
                    store(connection, [(f"{number:04}"[::-1], MOMENT + timedelta(microseconds=number % 9))])
        except Exception as error:  # noqa: BLE001  # told by the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=load, args=(range(start, start + 400),)) for start in (1000, 2000)]
    for thread in threads:
        thread.start()
    try:
        walks = [[row["id"] for rows in pages("test.whole", size, project="acme") for row in rows] for size in (5, 64)]
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not failures
    for ids in walks:
        assert len(ids) == len(set(ids))
        assert {id_ for id_, _ in there} <= set(ids)


def test_the_shipped_endpoint_is_whole_in_pages_beyond_its_own_limit(
    log_database: psycopg.Connection[Any], insert_rows: Callable[..., None]
) -> None:
    rows = [{"id": str(n), "project": "acme", "timestamp": MOMENT + timedelta(hours=n % 60)} for n in range(1234)]
    insert_rows("edge_logs", rows)
    newest_first = sorted(rows, key=lambda row: (row["timestamp"], row["id"]), reverse=True)
    walked = [row["id"] for rows in pages("logs.all", 100, project="acme") for row in rows]
    assert walked == [row["id"] for row in newest_first]
