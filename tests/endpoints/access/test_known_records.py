"""What is known is served from memory while it is current, also while Django's database is down or hangs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from config.deadlines import answer_within
from config.state_database.base import DatabaseWrapper
from endpoints.access import known_records as directory_module
from endpoints.access.known_records import KnownRecords, KnownToken
from endpoints.errors import DatabaseUnavailable, EndpointNotFound
from endpoints.models import AccessToken, Endpoint
from tests.drills import DrillServer, django_connection, wait_for
from tests.still_clock import StillClock

TABLES = (Endpoint, AccessToken)
# Long enough to tell a wait for the database from a slow machine.
READ_SECONDS = 1.0
PAUSE_SECONDS = 1.5


@pytest.fixture(autouse=True)
def longer_deadlines(time_to_read: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_module, "READ_SECONDS", READ_SECONDS)
    monkeypatch.setattr(directory_module, "RENEW_SECONDS", READ_SECONDS)
    monkeypatch.setattr(directory_module, "PAUSE_SECONDS", PAUSE_SECONDS)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> StillClock:
    """The clock of what is fresh, and of the pause after an outage."""
    clock = StillClock()
    monkeypatch.setattr(directory_module, "monotonic", clock)
    return clock


@pytest.fixture
def database(server: DrillServer, django_db_blocker: Any) -> Iterator[DatabaseWrapper]:
    """The drill server in place of Django's own database, with one endpoint and one access token committed in it."""
    with django_db_blocker.unblock():
        usual, own = connections["default"], django_connection(server)
        connections["default"] = own
        try:
            with own.schema_editor() as editor:
                for table in TABLES:
                    editor.create_model(table)
            # bulk_create: the tables of the history are not there.
            Endpoint.objects.bulk_create([Endpoint(name="logs.test", sql="SELECT 1", version=1)])
            AccessToken.objects.bulk_create([AccessToken(name="caller", prefix="abc", secret_hash="0" * 64)])
            yield own
            server.start()
            with own.schema_editor() as editor:
                for table in reversed(TABLES):
                    editor.delete_model(table)
        finally:
            own.close()
            connections["default"] = usual


class Generations:
    """A marker that the test sets."""

    def __init__(self) -> None:
        self.current: str | None = "first"

    def __call__(self) -> str | None:
        return self.current


@pytest.fixture
def generations() -> Generations:
    return Generations()


@pytest.fixture
def directory(database: DatabaseWrapper, generations: Generations) -> KnownRecords:
    return KnownRecords(generations)


def known(directory: KnownRecords) -> tuple[Endpoint, KnownToken]:
    token = directory.access_token("abc")
    assert token is not None
    return directory.endpoint("logs.test"), token


@contextmanager
def queries(database: DatabaseWrapper, count: int) -> Iterator[None]:
    with CaptureQueriesContext(database) as captured:
        yield
    assert len(captured) == count, captured.captured_queries


@pytest.fixture(params=["frozen", "killed"])
def outage(request: pytest.FixtureRequest, server: DrillServer) -> Callable[[], AbstractContextManager[None]]:
    @contextmanager
    def killed() -> Iterator[None]:
        server.kill()
        yield
        server.start()

    return server.frozen if request.param == "frozen" else killed


def test_reads_an_item_once_and_again_when_the_generation_is_another(
    directory: KnownRecords, database: DatabaseWrapper, generations: Generations
) -> None:
    with queries(database, 2):
        assert known(directory)[0].sql == "SELECT 1"
        assert [known(directory)[0].sql for _ in range(3)] == ["SELECT 1"] * 3
    Endpoint.objects.update(sql="SELECT 2")
    assert known(directory)[0].sql == "SELECT 1", "nobody has announced it"
    generations.current = "second"
    with queries(database, 2):
        assert [known(directory)[0].sql for _ in range(3)] == ["SELECT 2"] * 3


def test_reads_an_item_again_when_it_is_old(
    clock: StillClock, directory: KnownRecords, database: DatabaseWrapper
) -> None:
    known(directory)
    clock.now += directory_module.FRESH_SECONDS
    with queries(database, 2):
        known(directory)
        known(directory)


def test_relies_on_nothing_while_there_is_no_generation(
    directory: KnownRecords, database: DatabaseWrapper, generations: Generations
) -> None:
    known(directory)
    generations.current = None
    with queries(database, 4):
        known(directory)
        known(directory)


@pytest.mark.parametrize("reference", ["x" * 101, "x" * 10_000, "logs\0test"])
def test_what_is_no_name_is_neither_asked_for_nor_remembered(
    directory: KnownRecords, database: DatabaseWrapper, reference: str
) -> None:
    with queries(database, 0), pytest.raises(EndpointNotFound):
        directory.endpoint(reference)
    assert directory.recall_endpoint(reference) is None
    assert not directory._items


def test_recalls_what_was_read_last_without_asking_anybody(
    directory: KnownRecords, database: DatabaseWrapper, generations: Generations
) -> None:
    endpoint, _ = known(directory)
    directory.endpoint(str(endpoint.pk))
    generations.current = "second"
    with queries(database, 0):
        for reference in ("logs.test", endpoint.pk.hex, f"{{{endpoint.pk}}}"):
            recalled = directory.recall_endpoint(reference)
            assert recalled is not None
            assert recalled.pk == endpoint.pk
        assert directory.recall_endpoint("no.such.endpoint") is None
        assert directory.recall_endpoint("no\0such") is None


def test_does_not_keep_what_was_read_while_it_changed(database: DatabaseWrapper) -> None:
    seen = iter(["before", "after", "after"])
    directory = KnownRecords(lambda: next(seen))
    with queries(database, 2):
        for _ in range(3):
            directory.endpoint("logs.test")


def test_does_not_keep_that_something_is_unknown(directory: KnownRecords) -> None:
    assert directory.access_token("def") is None
    with pytest.raises(EndpointNotFound):
        directory.endpoint("logs.later")
    AccessToken.objects.bulk_create([AccessToken(name="later", prefix="def", secret_hash="1" * 64)])
    Endpoint.objects.bulk_create([Endpoint(name="logs.later", sql="SELECT 3", version=1)])
    token = directory.access_token("def")
    assert token is not None
    assert token.name == "later"
    assert directory.endpoint("logs.later").sql == "SELECT 3"


def test_finds_an_endpoint_by_every_form_of_its_address(directory: KnownRecords, database: DatabaseWrapper) -> None:
    pk = Endpoint.objects.get().pk
    with queries(database, 2):
        found = [directory.endpoint(reference) for reference in ("logs.test", str(pk), pk.hex, str(pk).upper())]
    assert {endpoint.pk for endpoint in found} == {pk}


@pytest.mark.parametrize("reference", ["", "LOGS.TEST", "a\0b", "00000000-0000-0000-0000-000000000000", "x" * 5000])
def test_finds_no_endpoint_of_another_address(directory: KnownRecords, reference: str) -> None:
    with pytest.raises(EndpointNotFound):
        directory.endpoint(reference)


def test_finds_no_endpoint_that_was_never_saved_as_a_version(directory: KnownRecords) -> None:
    Endpoint.objects.update(version=0)
    with pytest.raises(EndpointNotFound):
        directory.endpoint("logs.test")


def test_knows_what_an_access_token_allows(directory: KnownRecords, generations: Generations) -> None:
    assert known(directory)[1].endpoint_ids is None
    token = AccessToken.objects.get()
    expires_at = timezone.now() + timedelta(hours=1)
    AccessToken.objects.update(every_endpoint=False, bound_arguments={"project": "acme"}, expires_at=expires_at)
    token.endpoints.through.objects.create(accesstoken=token, endpoint=Endpoint.objects.get())
    generations.current = "second"
    found = known(directory)[1]
    assert found.endpoint_ids == {str(Endpoint.objects.get().pk)}
    assert found.bound_arguments == {"project": "acme"}
    assert found.is_valid_at(expires_at - timedelta(seconds=1))
    assert not found.is_valid_at(expires_at)
    assert "000" not in repr(found)


def test_keeps_a_bounded_number_of_items_the_latest_used(database: DatabaseWrapper, generations: Generations) -> None:
    Endpoint.objects.bulk_create(Endpoint(name=f"e{number}", sql="SELECT 1", version=1) for number in range(3))
    directory = KnownRecords(generations, capacity=2)
    for reference in ("e0", "e1", "e0", "e2"):
        directory.endpoint(reference)
    with queries(database, 1):
        for reference in ("e0", "e2", "e1"):
            directory.endpoint(reference)


def test_serves_what_is_known_while_the_database_is_away_and_nothing_else(
    directory: KnownRecords,
    generations: Generations,
    outage: Callable[[], AbstractContextManager[None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    endpoint, token = known(directory)
    monkeypatch.setattr(directory_module, "FRESH_SECONDS", 0)
    with outage():
        for is_first in (True, False, False):  # it looks whether the database answers
            started = time.monotonic()
            assert known(directory) == (endpoint, token)
            with pytest.raises(DatabaseUnavailable):
                directory.endpoint("logs.other")
            with pytest.raises(DatabaseUnavailable):
                directory.access_token("def")
            assert is_first or time.monotonic() - started < READ_SECONDS
        for other in (None, "second"):
            generations.current = other
            with pytest.raises(DatabaseUnavailable):
                directory.endpoint("logs.test")
            with pytest.raises(DatabaseUnavailable):
                directory.access_token("abc")
    wait_for(lambda: known(directory), seconds=20)


def test_of_many_threads_one_looks_whether_the_database_is_back(
    clock: StillClock, directory: KnownRecords, server: DrillServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    known(directory)
    monkeypatch.setattr(directory_module, "FRESH_SECONDS", 0)
    asked: list[float] = []

    def noted(seconds: float) -> AbstractContextManager[None]:
        asked.append(seconds)
        return answer_within(seconds)

    monkeypatch.setattr(directory_module, "answer_within", noted)

    def look(_: int) -> None:
        connections["default"] = own = django_connection(server)
        assert directory.endpoint("logs.test").name == "logs.test"
        own.close()

    with server.frozen():
        known(directory)
        clock.now += PAUSE_SECONDS
        asked.clear()
        with ThreadPoolExecutor(6) as executor:
            list(executor.map(look, range(6)))
    assert asked == [READ_SECONDS]


def test_of_many_threads_that_want_the_same_item_one_reads_it(directory: KnownRecords, server: DrillServer) -> None:
    reads: list[str] = []

    def look(_: int) -> str:
        connections["default"] = own = django_connection(server)
        try:
            with own.execute_wrapper(lambda execute, *query: reads.append(query[0]) or execute(*query)):
                return directory.endpoint("logs.test").name
        finally:
            own.close()

    with ThreadPoolExecutor(12) as executor:
        assert set(executor.map(look, range(12))) == {"logs.test"}
    assert len(reads) == 1


def test_notes_the_use_of_an_access_token_to_the_minute(
    directory: KnownRecords, database: DatabaseWrapper, generations: Generations
) -> None:
    _, token = known(directory)
    now = timezone.now()
    with queries(database, 1):
        directory.note_use(token, now=now)
        directory.note_use(token, now=now + timedelta(seconds=59))
    assert AccessToken.objects.get().last_used_at == now
    with queries(database, 1):
        directory.note_use(token, now=now + timedelta(seconds=61))
    with queries(database, 1):  # another process: it knows nothing of that, and the database does
        KnownRecords(generations).note_use(token, now=now + timedelta(seconds=62))
    assert AccessToken.objects.get().last_used_at == now + timedelta(seconds=61)


@pytest.mark.parametrize("knows_it", [True, False])
def test_a_use_noted_by_a_clock_that_was_ahead_counts_as_none(
    directory: KnownRecords, generations: Generations, knows_it: bool
) -> None:
    _, token = known(directory)
    now = timezone.now()
    directory.note_use(token, now=now + timedelta(days=1))
    (directory if knows_it else KnownRecords(generations)).note_use(token, now=now)
    assert AccessToken.objects.get().last_used_at == now


def test_notes_no_use_while_the_database_is_away_and_does_so_later(
    clock: StillClock, directory: KnownRecords, outage: Callable[[], AbstractContextManager[None]]
) -> None:
    _, token = known(directory)
    with outage():
        started = time.monotonic()
        for _ in range(10):
            directory.note_use(token, now=timezone.now())
        assert time.monotonic() - started < 5 * READ_SECONDS
    clock.now += PAUSE_SECONDS
    directory.note_use(token, now=timezone.now())
    assert AccessToken.objects.get().last_used_at is not None
