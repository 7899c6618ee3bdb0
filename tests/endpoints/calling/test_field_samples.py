"""Fields are looked for in the caller's own rows, once a minute; what cannot be sampled is not known to be absent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from endpoints.calling import field_samples
from endpoints.calling.field_samples import absent_fields
from endpoints.calling.prepared_queries import sandbox_session
from endpoints.calling.producing import publish, sandbox_of
from endpoints.log_database.sessions import ReaderSession
from endpoints.models import Endpoint
from googlesql.field_paths import FieldPath, FieldUse
from tests.moments import now

pytestmark = [pytest.mark.django_db, pytest.mark.sql]


def field(*steps: str | int, any_case: str = "", table: str = "edge_logs") -> FieldUse:
    return FieldUse((FieldPath(table, "metadata", steps, frozenset(any_case.split())),))


@pytest.fixture
def session_of(log_database: psycopg.Connection[Any]) -> Callable[[str], ReaderSession]:
    """Return a session of the shipped endpoint's sandbox for a project."""
    endpoint = Endpoint.objects.get(name="logs.all").as_version()
    publish(endpoint)  # a sample does not: another test may have left the log database without it
    sandbox = sandbox_of(endpoint)
    names = {parameter.name: None for parameter in endpoint.parameters}
    return lambda project: sandbox_session(endpoint, sandbox.schema, {**names, "project": project})


@pytest.fixture
def rows(insert_rows: Any) -> None:
    metadata = [{"request": [{"path": "/", "it's": 1, 'a"b': None}], "Level": "info"}]
    insert_rows("edge_logs", [{"project": "acme", "timestamp": now(), "metadata": metadata}])
    insert_rows("edge_logs", [{"project": "globex", "timestamp": now(), "metadata": [{"secret": 1}]}])


def test_fields_that_no_row_has_are_absent(rows: None, session_of: Any) -> None:
    there = [field("request"), field("request", "path"), field("request", "it's"), field("request", 'a"b')]
    there += [field("level", any_case="level"), field(0, "request", 0, "path")]
    absent = [field("requst"), field("request", "methd"), field("level"), field("path"), field("request", "path", "x")]
    assert absent_fields([*there, *absent], session_of("acme")) == tuple(absent)


def test_a_field_of_several_records_is_absent_if_none_has_it(rows: None, session_of: Any) -> None:
    def either(name: str) -> FieldUse:
        return FieldUse((*field(name).paths, *field("request", name).paths))

    assert absent_fields([either("path"), either("pth")], session_of("acme")) == (either("pth"),)


def test_rows_of_others_tell_nothing(rows: None, session_of: Any) -> None:
    assert absent_fields([field("secret")], session_of("acme")) == (field("secret"),)
    assert absent_fields([field("secret")], session_of("globex")) == ()


def test_nothing_is_known_without_rows(rows: None, session_of: Any) -> None:
    assert absent_fields([field("level")], session_of("nobody")) == ()


def test_nothing_is_known_if_the_sample_fails(rows: None, session_of: Any) -> None:
    assert absent_fields([field("secret", table="no_such_table")], session_of("acme")) == ()
    nowhere = replace(session_of("acme"), search_path='"no_such_schema"')
    assert absent_fields([field("secret")], nowhere) == ()


def test_a_minute_is_remembered_for_each_session(
    rows: None, session_of: Any, insert_rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert absent_fields([field("late")], session_of("acme")) == (field("late"),)
    insert_rows("edge_logs", [{"project": "acme", "timestamp": now(), "metadata": [{"late": 1}]}])

    def refuse(*arguments: object, **named: object) -> None:
        raise AssertionError("asked again")

    with monkeypatch.context() as patched:
        patched.setattr(field_samples, "run_statement", refuse)
        assert absent_fields([field("late")], session_of("acme")) == (field("late"),)
    later = field_samples.monotonic() + field_samples.KEPT_SECONDS
    monkeypatch.setattr(field_samples, "monotonic", lambda: later)
    assert absent_fields([field("late")], session_of("acme")) == ()


def test_nobody_waits_for_a_crowded_pool(rows: None, session_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = field_samples.log_servers().primary()
    monkeypatch.setattr(pool, "_in_use", pool._size)
    assert absent_fields([field("secret")], session_of("acme")) == ()


def test_what_is_remembered_is_bounded(rows: None, session_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(field_samples, "_MOST_KEPT", 10)
    for number in range(30):
        absent_fields([field(f"f{number}")], session_of("acme"))
    assert len(field_samples._kept) <= 10
