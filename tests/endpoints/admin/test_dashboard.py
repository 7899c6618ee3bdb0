"""The admin's first page: figures for who may see them, and an answer in time whatever is away."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connections
from django.test import Client
from django.urls import reverse
from psycopg.conninfo import conninfo_to_dict

from endpoints.admin.figures import HEIGHT, draw_sparkline
from endpoints.cache import usage
from endpoints.cache.usage import MINUTES, Activity, Durations, RecentCall
from endpoints.defining.saving import save_endpoint
from endpoints.log_database import servers
from endpoints.log_database.gate import GatePool
from endpoints.log_database.servers import LogServers
from endpoints.models import Endpoint
from logsources.models import LogSource
from tests.drills import DrillServer
from tests.endpoints.cache.own_redis import OwnRedis

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_not_met_yet")]
# The page has two seconds, and this machine may be busy.
SOON_SECONDS = 20.0  # a hundred times what is needed; without a deadline it would never answer
NOW = datetime(2026, 3, 14, 9, 15, tzinfo=UTC)


@pytest.fixture
def endpoint(db: None) -> Endpoint:
    return save_endpoint(Endpoint(name="test.used", sql="SELECT 1 AS one"), [])


def note(endpoint: Endpoint, status: int, *, cache: str = "", times: int = 1) -> None:
    for _ in range(times):
        call = RecentCall(time.time(), "reports", "0123456789ab", status, "", 1, 12.5, cache, 1)
        usage.note_outcome(endpoint.pk.hex, call)


def page(client: Client) -> str:
    response = client.get(reverse("admin:index"))
    assert response.status_code == 200
    return " ".join(response.content.decode().split())


def client_of(name: str, *roles: str) -> Client:
    person = User.objects.create_user(name, is_staff=True)
    person.groups.set(Group.objects.filter(name__in=roles))
    client = Client()
    client.force_login(person)
    return client


def test_it_shows_each_endpoint_with_its_day(admin_client: Client, endpoint: Endpoint) -> None:
    note(endpoint, 200, cache="miss", times=1500)
    note(endpoint, 200, cache="hit", times=500)
    note(endpoint, 404, times=7)
    note(endpoint, 504, times=3)
    text = page(admin_client)
    assert "2,010 calls in the last 24 hours" in text
    assert 'data-label="Calls">2,010<' in text
    assert 'data-label="Refused (4xx)">7<' in text
    assert 'number bad" data-label="Failed (5xx)">3<' in text
    assert 'data-label="From the cache">25 %<' in text
    assert f'href="{reverse("admin:endpoints_endpoint_usage", args=[endpoint.pk])}"' in text
    assert 'aria-label="2,010 calls in the last 24 hours, 7 refused and 3 failed; most from' in text
    assert ">no calls<" in text, "the other endpoints"


def test_it_says_what_to_do_where_there_is_nothing(admin_client: Client) -> None:
    assert "No calls in the last 24 hours." in page(admin_client)
    Endpoint.objects.all().delete()
    text = page(admin_client)
    assert "There is no endpoint yet." in text
    assert f'href="{reverse("admin:endpoints_endpoint_add")}">Define the first endpoint' in text
    LogSource.objects.all().delete()
    assert "Add the first log source" in page(admin_client)


def test_it_shows_how_old_the_logs_are(admin_client: Client, insert_rows: Any) -> None:
    insert_rows("edge_logs", [{"timestamp": datetime.now(UTC) - timedelta(hours=3), "project": "a"}])
    text = page(admin_client)
    assert ">3 hours ago<" in text
    assert "no rows yet" in text


@pytest.mark.parametrize(("role", "may_add"), [("viewer", False), ("editor", True), ("owner", True)])
def test_a_role_sees_its_part(endpoint: Endpoint, role: str, may_add: bool) -> None:
    client = client_of("somebody", role)
    assert "test.used" in page(client)
    Endpoint.objects.all().delete()
    assert ("Define the first endpoint" in page(client)) is may_add


def test_who_may_see_nothing_sees_health_alone(endpoint: Endpoint) -> None:
    text = page(client_of("somebody"))
    assert "Log database" in text
    assert "test.used" not in text
    assert "sources-title" not in text


@pytest.mark.parametrize("breaks", [OwnRedis.kill, OwnRedis.pause])
def test_without_redis_it_answers_soon_and_says_so(
    admin_client: Client, endpoint: Endpoint, own_redis: OwnRedis, breaks: Any
) -> None:
    page(admin_client)
    breaks(own_redis)
    started = time.monotonic()
    text = page(admin_client)
    assert time.monotonic() - started < SOON_SECONDS
    assert "Redis is down" in text
    assert "Calls are counted in Redis, which does not answer: their numbers are unknown" in text
    assert "test.used" in text


def test_without_the_log_database_it_answers_soon_and_says_so(
    admin_client: Client, endpoint: Endpoint, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = GatePool({**settings.LOGS_GATE, "host": "127.0.0.1", "port": "1"}, size=1, wait_seconds=0.8)
    monkeypatch.setattr(servers, "_servers", LogServers([nowhere]))
    note(endpoint, 200)
    try:
        started = time.monotonic()
        text = page(admin_client)
        assert time.monotonic() - started < SOON_SECONDS
    finally:
        nowhere.close()
    assert "Log database is down" in text
    assert "Unknown at the moment: the log database does not answer in time." in text
    assert 'data-label="Calls">1<' in text


@pytest.fixture
def own_log_database(server: DrillServer, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[DrillServer]:
    """The log database on a server of its own, reached by the gate and by the owner."""
    gate_url, owner_url = (
        conninfo_to_dict(str(url)) for url in (server.servers.logs_gate_url, server.servers.logs_database_url)
    )
    pool = GatePool(dict(gate_url), size=2, wait_seconds=0.8)
    monkeypatch.setattr(servers, "_servers", LogServers([pool]))
    for setting, keyword in (
        ("HOST", "host"),
        ("PORT", "port"),
        ("NAME", "dbname"),
        ("USER", "user"),
        ("PASSWORD", "password"),
    ):
        monkeypatch.setitem(connections["logs"].settings_dict, setting, owner_url.get(keyword, ""))
    yield server
    pool.close()


def test_a_log_database_that_hangs_keeps_nobody_waiting(
    admin_client: Client, endpoint: Endpoint, own_log_database: DrillServer
) -> None:
    with own_log_database.frozen():
        started = time.monotonic()
        text = page(admin_client)
        took = time.monotonic() - started
    assert "Log database is down" in text
    assert took < SOON_SECONDS


def activity(**minutes: dict[int, int]) -> Activity:
    """Return an activity with these counts by minute, counted back from the last."""
    counts = {
        name: tuple(minutes.get(name, {}).get(MINUTES - 1 - minute, 0) for minute in range(MINUTES))
        for name in ("calls", "refused", "failed", "cached")
    }
    return Activity(**counts, durations=Durations())


def test_a_sparkline_stacks_what_became_of_the_calls() -> None:
    drawn = draw_sparkline(activity(calls={0: 6, 29: 2, 30: 4}, refused={0: 2}, failed={29: 2, 30: 1}), now=NOW)
    assert [(piece.kind, piece.x, piece.y, piece.height) for piece in drawn.pieces] == [
        ("failed", 184, 28, 4),
        ("answered", 184, 16, 12),
        ("failed", 188, 24, 8),
        ("refused", 188, 16, 8),
        ("answered", 188, 0, 16),
    ]
    assert drawn.text == ("12 calls in the last 24 hours, 2 refused and 3 failed; most from 08:45 to 09:15 UTC: 8.")


def test_a_single_call_beside_thousands_is_seen_and_nothing_stands_out() -> None:
    drawn = draw_sparkline(activity(calls={0: 10_001, 60: 1}, failed={0: 1}), now=NOW)
    assert min(piece.height for piece in drawn.pieces) >= 1
    assert all(piece.y >= 0 and piece.y + piece.height <= HEIGHT for piece in drawn.pieces)
    assert draw_sparkline(activity(), now=NOW).pieces == ()
    assert draw_sparkline(activity(calls={0: 1}), now=NOW).text.startswith("1 call in")
