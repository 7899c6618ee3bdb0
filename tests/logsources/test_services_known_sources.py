"""The registry as loads know it: fresh, found at once when it is new, kept while its database is away."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import OperationalError

from logsources import services
from logsources.models import LogSource
from logsources.services import KnownSources, UnknownSource

pytestmark = [pytest.mark.django_db, pytest.mark.sql]


@pytest.fixture
def known() -> KnownSources:
    return KnownSources()


def register(name: str, *producer_names: str, path: str = "") -> LogSource:
    location = "metadata" if path else "row field"
    source = LogSource(
        name=name, holds="rows", project_location=location, project_path=path, producer_names=list(producer_names)
    )
    source.full_clean()
    source.save()
    return source


def test_finds_a_source_by_its_name_and_by_its_producers(known: KnownSources) -> None:
    register("first_logs", "one.logs", "Two Logs", path="tenant.ref")
    for found in (known.named("first_logs"), known.of_producer("one.logs"), known.of_producer("Two Logs")):
        assert (found.shape.name, found.shape.project_path, found.retention_days) == ("first_logs", "tenant.ref", None)


def test_finds_a_source_by_its_uuid(known: KnownSources) -> None:
    source = register("first_logs")
    for reference in (str(source.uuid), str(source.uuid).upper()):
        assert known.named(reference).shape.name == "first_logs"
    with pytest.raises(UnknownSource):
        known.named("00000000-0000-4000-8000-000000000000")


@pytest.mark.parametrize("name", ["one.logs", "FIRST_LOGS", ""])
def test_a_name_is_no_producers_name(known: KnownSources, name: str) -> None:
    register("first_logs", "one.logs")
    with pytest.raises(UnknownSource):
        known.named(name)
    with pytest.raises(UnknownSource):
        known.of_producer("first_logs")


def test_finds_a_new_source_at_once(known: KnownSources) -> None:
    with pytest.raises(UnknownSource):
        known.named("second_logs")
    register("second_logs")
    assert known.named("second_logs").shape.name == "second_logs"


def test_asks_nobody_for_a_moment(known: KnownSources, django_assert_num_queries: Any) -> None:
    register("first_logs")
    known.named("first_logs")
    with django_assert_num_queries(0):
        known.named("first_logs")
    known.forget()
    with django_assert_num_queries(1):
        known.named("first_logs")


def test_serves_what_it_knows_while_the_database_is_away(known: KnownSources, monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> Any:
        raise OperationalError

    with monkeypatch.context() as patched:
        patched.setattr(services, "_read", away)
        with pytest.raises(OperationalError):
            known.named("first_logs")
    register("first_logs")
    known.named("first_logs")
    monkeypatch.setattr(services, "FRESH_SECONDS", 0.0)
    monkeypatch.setattr(services, "_read", away)
    assert known.named("first_logs").shape.name == "first_logs"
    with pytest.raises(UnknownSource):
        known.named("second_logs")


# --- What an operator may write ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a,b", " a", "a ", "", "a\nb", "x" * 201])
def test_refuses_what_is_no_producers_name(name: str) -> None:
    with pytest.raises(ValidationError, match="producer_names"):
        register("first_logs", name)


def test_refuses_a_producer_of_another_source() -> None:
    register("first_logs", "one.logs", "two.logs")
    with pytest.raises(ValidationError, match=r"first_logs already has the producer name two\.logs"):
        register("second_logs", "two.logs", "three.logs")


def test_refuses_a_producer_named_twice() -> None:
    with pytest.raises(ValidationError, match="twice"):
        register("first_logs", "one.logs", "one.logs")


def test_a_source_keeps_its_own_producers() -> None:
    register("first_logs", "one.logs").full_clean()
