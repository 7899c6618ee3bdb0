"""What happens when two do the same thing at the same moment: real threads on committed rows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db import connection

from endpoints.access.access_tokens import issue_access_token
from endpoints.access.known_records import KnownRecords
from endpoints.defining.saving import save_endpoint
from endpoints.models import AccessToken, Endpoint

NOON = datetime(2025, 6, 2, 12, tzinfo=UTC)
Wrapper = Callable[..., Any]


def at_the_same_moment(count: int, beginning: str, work: Callable[[int], None]) -> list[int]:
    """Run `work(0)`, `work(1)`, … in threads that meet right before their first statement with this beginning.

    Returns how many rows each of these statements touched.
    """
    barrier = threading.Barrier(count)
    touched: list[int] = []

    def run(number: int) -> None:
        met = False

        def meet(execute: Wrapper, sql: str, params: Any, many: bool, context: Any) -> Any:
            nonlocal met
            if met or not sql.startswith(beginning):
                return execute(sql, params, many, context)
            met = True
            barrier.wait(timeout=10)
            result = execute(sql, params, many, context)
            touched.append(context["cursor"].rowcount)
            return result

        try:
            with connection.execute_wrapper(meet):
                work(number)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return touched


def test_of_many_processes_one_writes_the_last_use(committed: None) -> None:
    issued = issue_access_token(name="busy")
    processes = [KnownRecords(lambda: None) for _ in range(4)]
    token = processes[0].access_token(issued.access_token.prefix)
    assert token is not None
    try:
        touched = at_the_same_moment(4, "UPDATE", lambda number: processes[number].note_use(token, now=NOON))
    finally:
        issued.access_token.delete()
        AccessToken.history.filter(name="busy").delete()
    assert sorted(touched) == [0, 0, 0, 1]


def test_of_many_threads_one_writes_the_last_use(committed: None) -> None:
    issued = issue_access_token(name="busy")
    known = KnownRecords(lambda: None)
    token = known.access_token(issued.access_token.prefix)
    assert token is not None
    try:
        assert at_the_same_moment(1, "UPDATE", lambda number: known.note_use(token, now=NOON)) == [1]
        assert at_the_same_moment(3, "UPDATE", lambda number: known.note_use(token, now=NOON)) == []
    finally:
        issued.access_token.delete()
        AccessToken.history.filter(name="busy").delete()


def test_savers_of_one_endpoint_get_different_versions(committed: None) -> None:
    endpoint = save_endpoint(Endpoint(name="test.saved-by-many", sql="SELECT 0 AS a"), [])

    def save(number: int) -> None:
        draft = Endpoint.objects.get(pk=endpoint.pk)
        draft.sql = f"SELECT {number + 1} AS a"
        save_endpoint(draft, [])

    try:
        at_the_same_moment(3, 'SELECT "endpoints_endpoint"."version"', save)
        history = list(endpoint.history.order_by("version").values_list("version", "sql"))
        saved = Endpoint.objects.get(pk=endpoint.pk)
    finally:
        endpoint.delete()
        Endpoint.history.filter(name="test.saved-by-many").delete()
    assert [version for version, _ in history] == [1, 2, 3, 4]
    assert {sql for _, sql in history} == {f"SELECT {number} AS a" for number in range(4)}
    assert (saved.version, saved.sql) == history[-1]


def test_of_two_new_endpoints_of_one_name_one_is_saved_and_one_told(committed: None) -> None:
    refusals: list[ValidationError] = []

    def save(number: int) -> None:
        try:
            save_endpoint(Endpoint(name="test.twice", sql=f"SELECT {number} AS a"), [])
        except ValidationError as refusal:
            refusals.append(refusal)

    try:
        at_the_same_moment(2, 'INSERT INTO "endpoints_endpoint"', save)
        saved = list(Endpoint.objects.filter(name="test.twice"))
    finally:
        Endpoint.objects.filter(name="test.twice").delete()
        Endpoint.history.filter(name="test.twice").delete()
    assert [endpoint.version for endpoint in saved] == [1]
    assert [list(refusal.message_dict) for refusal in refusals] == [["name"]]
