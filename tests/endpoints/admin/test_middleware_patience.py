"""A page of the admin waits for PostgreSQL for a limited time, whatever hangs there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from django.urls import reverse

from config.state_database.base import DatabaseWrapper
from endpoints.admin import middleware as module
from endpoints.admin.middleware import PatienceMiddleware
from tests.drills import DrillServer, django_connection


@pytest.fixture
def database(db: None, server: DrillServer) -> Iterator[DatabaseWrapper]:
    connection = django_connection(server)
    connection.ensure_connection()
    yield connection
    connection.close()


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAGE_SECONDS", 0.3)


@pytest.fixture
def middleware(database: DatabaseWrapper) -> PatienceMiddleware:
    def ask(request: HttpRequest) -> HttpResponse:
        with database.cursor() as cursor:
            cursor.execute("SELECT 1")
        return HttpResponse("answered")

    return PatienceMiddleware(ask)


@pytest.mark.parametrize(("method", "page"), [("GET", "index"), ("HEAD", "index"), ("GET", "login"), ("POST", "login")])
def test_a_page_gives_up_on_a_server_that_hangs(
    middleware: PatienceMiddleware, server: DrillServer, method: str, page: str
) -> None:
    with server.frozen(), pytest.raises(OperationalError, match="did not answer in time"):
        middleware(RequestFactory().generic(method, reverse(f"admin:{page}")))


def test_a_change_has_more_time_and_an_end_too(
    middleware: PatienceMiddleware, server: DrillServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAGE_SECONDS", 0.0)
    change = RequestFactory().post(reverse("admin:endpoints_endpoint_add"))
    assert middleware(change).content == b"answered"
    monkeypatch.setattr(module, "CHANGE_SECONDS", 0.3)
    with server.frozen(), pytest.raises(OperationalError, match="did not answer in time"):
        middleware(change)


def test_a_server_that_answers_is_waited_for(middleware: PatienceMiddleware, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAGE_SECONDS", 20.0)
    assert middleware(RequestFactory().get(reverse("admin:index"))).content == b"answered"


def test_the_api_keeps_its_own_deadlines(middleware: PatienceMiddleware, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAGE_SECONDS", 0.0)
    assert middleware(RequestFactory().get("/api/endpoints/query/logs.all")).content == b"answered"
