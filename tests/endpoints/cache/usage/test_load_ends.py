"""The last load of each source and the last one that failed, over HTTP and by a command, also after an outage."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from endpoints.access.access_tokens import issue_access_token
from endpoints.cache import CacheUnavailable
from endpoints.cache.connection import ask_for
from endpoints.cache.keys import PREFIX
from endpoints.cache.usage import LoadEnds, forget_load_ends, load_ends, note_load_end
from endpoints.cache.usage.load_ends import flush
from logsources.loading import LoadAborted, OnBadLine, load_rows
from logsources.models import LogSource

SOURCE = "auth_logs"
ROW = '{"event_message": "hello", "project": "acme", "id": "%s", "timestamp": "2026-01-01T00:00:00Z"}'


@pytest.fixture(autouse=True)
def forgotten() -> None:
    flush()
    forget_load_ends(SOURCE)


def ends() -> LoadEnds:
    flush()
    return load_ends().get(SOURCE, LoadEnds())


def test_the_last_of_each_kind_is_kept() -> None:
    assert ends() == LoadEnds()
    note_load_end(SOURCE, rows=1)
    note_load_end(SOURCE, rows=2)
    note_load_end(SOURCE, failure="invalid_rows")
    found = ends()
    assert found.loaded is not None
    assert found.failed is not None
    assert (found.loaded.rows, found.failed.failure) == (2, "invalid_rows")
    assert found.loaded.at <= found.failed.at


@pytest.mark.parametrize("form", ["{}", "[1]", '{"at": 1, "rows": 2, "reason": ""}', "7", "no JSON"])
def test_a_note_of_another_form_is_none(form: str) -> None:
    note_load_end(SOURCE, failure="invalid_rows")
    flush()
    ask_for("HSET", f"{PREFIX}:load-ends", f"{SOURCE}|loaded", form)
    assert ends().loaded is None
    assert ends().failed is not None


def test_a_load_whose_source_is_not_known_is_nobodys() -> None:
    note_load_end("", failure="not_authenticated")
    flush()
    assert "" not in load_ends()


def test_notes_outlive_an_outage(redis_not_met_yet: None, settings: Any) -> None:
    working = settings.CACHES["default"]
    note_load_end(SOURCE, rows=3)
    settings.CACHES = {"default": working | {"LOCATION": "redis://127.0.0.1:1/0"}}
    flush()
    with pytest.raises(CacheUnavailable):
        load_ends()


@pytest.mark.django_db(databases=["default", "logs"])
def test_a_load_over_http_is_noted_and_one_that_is_refused(shipper: Client) -> None:
    body = ROW % "http"
    address = f"/api/logs?source={SOURCE}"
    assert shipper.post(address, f"[{body}]", content_type="application/json").status_code == 200
    assert shipper.post(address, '[{"project": 1}]', content_type="application/json").status_code == 400
    found = ends()
    assert found.loaded is not None
    assert found.failed is not None
    assert (found.loaded.rows, found.failed.failure) == (1, "invalid_rows")


@pytest.mark.django_db(databases=["default", "logs"])
def test_who_may_not_load_into_a_source_notes_nothing_there(log_database: Any) -> None:
    secret = issue_access_token(name="others", load_sources=["edge_logs"], may_load=True, no_endpoints=True).secret
    client = Client(headers={"X-API-KEY": secret})
    address = f"/api/logs?source={SOURCE}"
    assert client.post(address, "[]", content_type="application/json").status_code == 403
    assert ends() == LoadEnds()


@pytest.mark.django_db(databases=["default", "logs"])
def test_a_load_by_a_command_is_noted_at_once(log_database: Any) -> None:
    source = LogSource.objects.get(name=SOURCE)
    load_rows(source, [(ROW % "command").encode()], on_bad_line=OnBadLine.ABORT)
    with pytest.raises(LoadAborted):
        load_rows(source, [b"no JSON, and a secret"], on_bad_line=OnBadLine.ABORT)
    found = load_ends()[SOURCE]
    assert found.loaded is not None
    assert found.failed is not None
    assert (found.loaded.rows, found.failed.failure) == (1, "bad_line")
