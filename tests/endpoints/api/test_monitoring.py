"""/livez and /readyz, with each part really gone."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from django.core.cache import caches
from django.db import connections
from django.test import Client

from endpoints.log_database import servers
from endpoints.log_database.gate import GatePool
from endpoints.log_database.servers import LogServers
from tests.endpoints.cache.own_redis import REFUSES_WRITES, OwnRedis

pytestmark = pytest.mark.django_db
ALL_WELL = {"database": "ok", "log_database": "ok", "redis": "ok"}


@pytest.mark.parametrize("path", ["/livez", "/livez/"])
def test_livez_answers_without_asking_anybody(path: str) -> None:
    response = Client().get(path)
    assert (response.status_code, response.json()) == (200, {"status": "ok"})


@pytest.mark.parametrize("path", ["/readyz", "/readyz/"])
def test_readyz_is_200_when_everything_answers(path: str) -> None:
    response = Client().get(path)
    assert (response.status_code, response.json()) == (200, {"status": "ok", "checks": ALL_WELL})


def assert_unavailable(name: str) -> None:
    response = Client().get("/readyz")
    assert response.status_code == 503
    assert response.json() == {"status": "unavailable", "checks": ALL_WELL | {name: "unavailable"}}


def test_readyz_names_the_log_database_when_it_is_gone(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = GatePool({**settings.LOGS_GATE, "host": "127.0.0.1", "port": "1"}, size=1, wait_seconds=0.2)
    monkeypatch.setattr(servers, "_servers", LogServers([nowhere]))
    try:
        assert_unavailable("log_database")
    finally:
        nowhere.close()


def test_readyz_names_a_log_database_that_lacks_its_roles(superuser: psycopg.Connection[Any]) -> None:
    superuser.execute("ALTER ROLE query_reader RENAME TO query_reader_away")
    try:
        assert_unavailable("log_database")
    finally:
        superuser.execute("ALTER ROLE query_reader_away RENAME TO query_reader")


def test_readyz_names_redis_when_it_is_gone(settings: Any) -> None:
    settings.CACHES = {"default": settings.CACHES["default"] | {"LOCATION": "redis://127.0.0.1:1/0"}}
    assert_unavailable("redis")
    del caches["default"]


@pytest.mark.parametrize("breaks", REFUSES_WRITES)
def test_readyz_names_redis_while_it_refuses_writes(own_redis: OwnRedis, breaks: Any) -> None:
    assert Client().get("/readyz").status_code == 200
    breaks(own_redis)
    assert_unavailable("redis")


def test_readyz_is_ready_with_a_redis_that_evicts_results(own_redis: OwnRedis) -> None:
    own_redis.client.config_set("maxmemory-policy", "volatile-lru")
    own_redis.client.config_set("maxmemory", own_redis.client.info("memory")["used_memory"] + 500_000)
    for number in range(2_000):
        own_redis.client.set(f"result-{number}", "a" * 1000, ex=60)
    assert own_redis.client.info("stats")["evicted_keys"] > 0
    assert Client().get("/readyz").status_code == 200


def test_readyz_names_the_state_database_when_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = connections["default"].copy()
    connection.settings_dict = connection.settings_dict | {"HOST": "127.0.0.1", "PORT": "1"}
    monkeypatch.setattr("endpoints.api.monitoring.connections", {"default": connection})
    assert_unavailable("database")


def test_readyz_counts_a_busy_log_database_as_ready(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    full = GatePool(settings.LOGS_GATE, size=1, wait_seconds=0.2)
    full._pool.wait(timeout=30)  # on a busy machine its first connection takes longer than a call waits
    monkeypatch.setattr(servers, "_servers", LogServers([full]))
    try:
        with full.connection():
            response = Client().get("/readyz")
    finally:
        full.close()
    assert (response.status_code, response.json()) == (
        200,
        {"status": "ok", "checks": ALL_WELL | {"log_database": "busy"}},
    )
