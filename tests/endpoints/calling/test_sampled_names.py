"""Names of fields come from recent rows, and are kept for some minutes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from endpoints.calling import sampled_names
from endpoints.calling.sampled_names import forget_names, sampled_paths
from endpoints.errors import DatabaseUnavailable
from endpoints.log_database.shared_work import SharedWork
from tests.moments import now

pytestmark = [pytest.mark.django_db, pytest.mark.sql]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A slow machine is no failure; a renewal is over before the caller goes on."""
    monkeypatch.setattr(sampled_names, "READ_SECONDS", 60.0)
    monkeypatch.setattr(sampled_names, "_first", SharedWork("first", sampled_names._sample, seconds=60.0))
    renewal = SharedWork("renewal", sampled_names._sample, seconds=60.0)
    monkeypatch.setattr(renewal, "begin", renewal.result)
    monkeypatch.setattr(sampled_names, "_renewal", renewal)
    yield
    forget_names()


def insert(insert_rows: Any, metadata: Any, source: str = "edge_logs", project: str = "acme") -> None:
    insert_rows(source, [{"project": project, "timestamp": now(), "metadata": metadata}])


def test_paths_of_all_sources_are_found(insert_rows: Any) -> None:
    insert(insert_rows, [{"request": [{"cf": [{"botManagement": [{"score": 1}]}]}], "level": "info"}])
    insert(insert_rows, [{"reqId": "1"}], source="function_logs", project="globex")
    assert set(sampled_paths()) == {"level", "request.cf.botManagement.score", "reqId"}


def test_they_are_kept_for_some_minutes(insert_rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    insert(insert_rows, [{"reqId": "1"}])
    assert sampled_paths() == ("reqId",)
    insert(insert_rows, [{"tenantId": "1"}])
    assert sampled_paths() == ("reqId",)
    later = sampled_names.monotonic() + sampled_names.KEPT_SECONDS
    monkeypatch.setattr(sampled_names, "monotonic", lambda: later)
    sampled_paths()  # has them renewed
    assert set(sampled_paths()) == {"reqId", "tenantId"}


def test_there_are_none_if_rows_cannot_be_sampled(insert_rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    insert(insert_rows, [{"reqId": "1"}])

    def refuse() -> None:
        raise psycopg.OperationalError("no connection")

    with monkeypatch.context() as patched:
        patched.setattr(sampled_names, "owner_connection", refuse)
        assert sampled_paths() == ()
    assert sampled_paths() == ()  # it is tried again after a while, not by the next call
    later = sampled_names.monotonic() + sampled_names.TRIED_AGAIN_SECONDS
    monkeypatch.setattr(sampled_names, "monotonic", lambda: later)
    sampled_paths()
    assert sampled_paths() == ("reqId",)


def test_the_first_caller_waits_no_longer_than_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang() -> tuple[str, ...]:
        raise DatabaseUnavailable

    monkeypatch.setattr(sampled_names, "_first", SharedWork("first", hang, seconds=60.0))
    assert sampled_paths() == ()
