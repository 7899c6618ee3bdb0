"""Every change makes a new marker, and while it is under way there is none."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import pytest
import structlog
from django.core.cache import cache
from django.db import connections, transaction
from django.test import Client
from django.utils import timezone

from endpoints.access import change_marker as marker
from endpoints.access.access_tokens import issue_access_token, revoke_access_tokens
from endpoints.access.change_marker import changing, current_marker
from endpoints.access.known_records import KnownRecords
from endpoints.cache import connection as cache_connection
from endpoints.defining.endpoint_files import write_endpoint_file
from endpoints.defining.saving import save_endpoint
from endpoints.defining.transfers import ImportOutcome, import_endpoint_files
from endpoints.defining.upkeep import delete_endpoints
from endpoints.definition import Definition
from endpoints.models import AccessToken, Endpoint

pytestmark = pytest.mark.django_db
Committing = Callable[..., AbstractContextManager[Any]]


@pytest.fixture(autouse=True)
def redis_not_met_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_connection, "_breaker", cache_connection._Breaker())


@pytest.fixture
def committing(django_capture_on_commit_callbacks: Any) -> Committing:
    """As if what is inside were committed at its end: a test's own transaction never is."""
    return lambda: django_capture_on_commit_callbacks(execute=True)


def test_stays_the_same_while_nothing_changes() -> None:
    first = current_marker()
    assert first
    assert [current_marker() for _ in range(3)] == [first] * 3


def test_a_change_makes_a_new_one_and_none_counts_while_it_is_under_way(committing: Committing) -> None:
    before = current_marker()
    with committing(), transaction.atomic():
        with changing():
            assert current_marker() is None
        assert current_marker() is None, "not yet committed"
    after = current_marker()
    assert after not in (before, None)


def test_of_two_changes_at_once_the_last_to_end_ends_it(committing: Committing) -> None:
    with committing(), changing():
        # In a thread: another process, as far as these know of each other. Nothing there waits for a commit.
        with ThreadPoolExecutor(1) as other:
            other.submit(changed).result()
        assert current_marker() is None
    assert current_marker() is not None


def changed() -> None:
    try:
        with changing():
            pass
    finally:
        connections.close_all()  # this thread's own


def test_a_change_of_many_parts_is_one_that_waits_once(committing: Committing, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    wait = cache_connection.wait_until_expired
    monkeypatch.setattr(cache_connection, "wait_until_expired", lambda: (waits.append(time.monotonic()), wait()))
    before = current_marker()
    with committing(), changing():
        for _ in range(3):
            with changing():
                assert current_marker() is None
            with pytest.raises(ZeroDivisionError), changing():
                raise ZeroDivisionError
            assert current_marker() is None, "the whole change is still under way"
    assert len(waits) == 1
    assert current_marker() not in (before, None)


def test_an_import_of_many_endpoints_is_one_change(committing: Committing, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(cache_connection, "wait_until_expired", lambda: waits.append(time.monotonic()))
    names = [f"test.imported{number}" for number in range(3)]
    files = {f"{name}.sql": write_endpoint_file(Definition(name=name, sql="SELECT 1 AS a")).encode() for name in names}
    with committing():
        results = import_endpoint_files(files, dry_run=False)
    assert [result.outcome for result in results] == [ImportOutcome.CREATED] * 3
    assert len(waits) == 1


def test_a_change_that_fails_is_over_at_once() -> None:
    before = current_marker()
    with pytest.raises(ZeroDivisionError), changing():
        raise ZeroDivisionError
    assert current_marker() not in (before, None)


def test_a_change_whose_process_dies_is_over_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marker, "CHANGE_SECONDS", 1)
    before = current_marker()
    with changing():  # never committed: the transaction of a test ends in a rollback
        pass
    assert current_marker() is None
    time.sleep(1.1)
    assert current_marker() not in (before, None)


def test_a_flushed_redis_gets_a_new_one() -> None:
    before = current_marker()
    cache.clear()
    after = current_marker()
    assert after not in (before, None)
    assert current_marker() == after


def test_without_redis_there_is_none_and_a_change_goes_on(settings: Any, committing: Committing) -> None:
    settings.CACHES = {"default": {**settings.CACHES["default"], "LOCATION": "redis://127.0.0.1:1/0"}}
    assert current_marker() is None
    with committing(), changing():
        pass
    assert current_marker() is None


def test_a_change_is_made_where_no_thread_can_be_had_to_announce_it(
    settings: Any,
    committing: Committing,
    no_threads: Callable[[], AbstractContextManager[None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.CACHES = {"default": {**settings.CACHES["default"], "LOCATION": "redis://127.0.0.1:1/0"}}
    monkeypatch.setattr(marker, "SAVER_WAITS_SECONDS", 0.0)
    with structlog.testing.capture_logs() as lines, no_threads(), committing(), changing():
        pass
    assert [line["event"] for line in lines if line["log_level"] == "error"] == ["change_not_announced"]


def edited_in_the_admin(client: Client) -> None:
    token = AccessToken.objects.get(name="caller")
    fields = {"name": "caller", "every_endpoint": "on", "bound_arguments": "project=acme"}
    assert client.post(f"/admin/endpoints/accesstoken/{token.pk}/change/", fields).status_code == 302
    assert AccessToken.objects.get(name="caller").bound_arguments == {"project": "acme"}


def deleted_in_the_admin(client: Client) -> None:
    token = AccessToken.objects.get(name="caller")
    assert client.post(f"/admin/endpoints/accesstoken/{token.pk}/delete/", {"post": "yes"}).status_code == 302
    assert not AccessToken.objects.filter(name="caller").exists()


WRITERS: dict[str, Callable[[Client], object]] = {
    "an access token revoked": lambda _: revoke_access_tokens(AccessToken.objects.filter(name="caller")),
    "an access token edited": edited_in_the_admin,
    "an access token deleted": deleted_in_the_admin,
    "an endpoint saved": lambda _: save_endpoint(Endpoint(name="test.new", sql="SELECT 1 AS a"), []),
    "an endpoint deleted": lambda _: delete_endpoints(Endpoint.objects.filter(name="logs.all")),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_everything_that_changes_what_is_known_announces_it(
    admin_client: Client, committing: Committing, write: Callable[[Client], object]
) -> None:
    issue_access_token(name="caller")
    before = current_marker()
    assert before
    with committing():
        write(admin_client)
        assert current_marker() is None
    assert current_marker() not in (before, None)


def test_noting_a_use_announces_nothing() -> None:
    issue_access_token(name="caller")
    before = current_marker()
    assert before
    directory = KnownRecords(current_marker)
    token = directory.access_token(AccessToken.objects.get(name="caller").prefix)
    assert token is not None
    directory.note_use(token, now=timezone.now())
    assert AccessToken.objects.get(name="caller").last_used_at is not None
    assert current_marker() == before
