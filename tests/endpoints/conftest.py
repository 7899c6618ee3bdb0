"""A log shipper, and what a test may break: a Redis, a standby, and the start of threads."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.test import Client
from django_redis import get_redis_connection

from endpoints.access.access_tokens import issue_access_token
from endpoints.cache import connection
from endpoints.cache.keys import entry_prefix
from endpoints.log_database import servers
from endpoints.log_database.servers import close_log_servers
from endpoints.models import Endpoint
from tests.conftest import REDIS_OPTIONS
from tests.endpoints.cache.own_redis import OwnRedis
from tests.live.replicated import Replicated
from tests.servers import SUITE_POSTGRES


@pytest.fixture
def redis_not_met_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process knows of no outage of Redis."""
    monkeypatch.setattr(connection, "_breaker", connection._Breaker())


@pytest.fixture
def own_redis(settings: Any) -> Iterator[OwnRedis]:
    """The cache on a Redis that the test may break."""
    server = OwnRedis()
    server.start()
    settings.CACHES = {"default": {**settings.CACHES["default"], "LOCATION": server.url, "OPTIONS": REDIS_OPTIONS}}
    yield server
    server.remove()


@pytest.fixture
def shipper(log_database: psycopg.Connection[Any]) -> Client:
    """A log shipper: a client whose access token loads rows and does nothing else."""
    secret = issue_access_token(name="shipper", may_load=True, no_endpoints=True).secret
    return Client(headers={"X-API-KEY": secret})


@pytest.fixture
def no_log_database(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Return what points the gate at nothing; afterwards it is as before."""
    before = settings.LOGS_GATE

    def take_away() -> None:
        close_log_servers()
        # Nobody is slow here: whoever waits for a connection waits in vain.
        monkeypatch.setattr(settings, "ENDPOINTS_POOL_WAIT_SECONDS", 0.2)
        settings.LOGS_GATE = {**before, "host": "/nowhere", "connect_timeout": 1}

    yield take_away
    close_log_servers()
    settings.LOGS_GATE = before
    assert servers._servers is None


def age_results(endpoint: Endpoint, *, seconds: int) -> None:
    """Make the cached results of an endpoint older: their age is told by how long Redis will still keep them."""
    client = get_redis_connection()
    for entry in client.scan_iter(match=f"{entry_prefix(endpoint.pk.hex)}*"):
        client.pexpire(entry, client.pttl(entry) - seconds * 1000)


@pytest.fixture(scope="session")
def suite_standby(request: pytest.FixtureRequest, django_db_setup: None) -> Iterator[Replicated]:
    """A standby of the suite's own PostgreSQL, whichever it is, for all tests of this process."""
    primary = request.config.stash.get(SUITE_POSTGRES, None)
    if primary is None:
        pytest.skip("only a PostgreSQL that the suite has started itself gets a standby")
    servers = Replicated(primary, os.environ["LOGS_SUPERUSER_URL"])
    yield servers
    servers.standby.stop()
    shutil.rmtree(servers.standby.data)


@pytest.fixture
def replicated(suite_standby: Replicated, settings: Any) -> Iterator[Replicated]:
    """The log database with a standby that has replayed everything; the gate's connections prefer the standby.

    A test may do anything to the standby: the next one that asks for it gets it back in order.
    """
    close_log_servers()
    suite_standby.start_standby()
    suite_standby.caught_up()
    hosts = f"{suite_standby.standby.sockets},{settings.LOGS_GATE['host']}"
    settings.LOGS_GATE = {**settings.LOGS_GATE, "host": hosts, "target_session_attrs": "prefer-standby"}
    yield suite_standby
    close_log_servers()


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> Callable[[], AbstractContextManager[None]]:
    """Make a block in which the system has no thread left."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    @contextmanager
    def block() -> Iterator[None]:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            yield

    return block
