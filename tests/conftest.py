"""What every test may use: both databases migrated, the shipped fixtures loaded, log tables to fill, a caller."""

from __future__ import annotations

import gc
import io
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, Final
from uuid import uuid4

import hypothesis
import orjson
import psycopg
import pytest
from django.conf import settings
from django.core.cache import cache
from django.core.management import call_command
from django.db import connections
from django.test import Client
from django.test.utils import setup_databases, teardown_databases
from hypothesis import core
from psycopg.pq import TransactionStatus

from endpoints.access import change_marker as generation
from endpoints.access import known_records as directory
from endpoints.access.access_tokens import issue_access_token
from endpoints.auditing import call_queue
from endpoints.auditing.call_log import CALL_LOG, RECORDER, CallLog
from endpoints.cache import connection
from endpoints.cache.usage.flushing import FLUSHER
from endpoints.calling import calls, catalogue, field_samples
from endpoints.log_database import gate
from endpoints.log_database.load_pool import close_load_pool
from endpoints.log_database.servers import close_log_servers
from endpoints.log_database.shared_work import SharedWork
from logsources import services
from logsources.databases import owner_connection
from logsources.models import LogSource
from logsources.services import KNOWN_SOURCES
from logsources.topology import read_topology
from tests import moments
from tests.drills import server as server  # a fixture

LogRow = Mapping[str, Any]

# As the service has them; the suite's own Redis gets more time (`settings_of_the_run`).
REDIS_OPTIONS: Final = dict(settings.CACHES["default"]["OPTIONS"])

LIVING_SECONDS: Final = 60.0

# A failing example can be pasted, and no property depends on how fast the machine is.
hypothesis.settings.register_profile(
    "suite", print_blob=True, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("suite")

# Only tables that hold anything: to truncate all hundred partitions takes sixty times as long.
EMPTY_LOG_TABLES = """
DO $$
DECLARE filled text;
BEGIN
    SELECT string_agg(oid::regclass::text, ', ') INTO filled
    FROM pg_class
    WHERE relnamespace = 'logs'::regnamespace AND relkind = 'r' AND pg_relation_size(oid) > 0;
    IF filled IS NOT NULL THEN
        EXECUTE 'TRUNCATE ' || filled;
    END IF;
END $$
"""


def pytest_sessionstart(session: pytest.Session) -> None:
    """Hypothesis takes the seed of the run, so that `--randomly-seed=…` repeats its examples too."""
    if core.global_force_seed is None:  # `--hypothesis-seed=…`
        core.global_force_seed = session.config.getoption("randomly_seed", default=None)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    moments.begin()


def pytest_collection_finish() -> None:
    """Keep ten thousand tests out of each garbage collection: it would stop everything for half a second."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def django_db_setup(request: pytest.FixtureRequest, django_db_blocker: Any) -> Iterator[None]:
    """Both test databases, the gate pointed at the right one, and the shipped fixtures loaded and committed."""
    # pytest-django's own fixture makes only the databases that a test names; the log database is always needed.
    with django_db_blocker.unblock():
        on_cluster = request.config.option.citus
        databases = setup_databases(
            verbosity=request.config.option.verbose,
            interactive=False,
            aliases={"default"} if on_cluster else None,  # type: ignore[arg-type]  # the stubs want a mapping
        )
        if on_cluster:
            call_command("migrate", database="logs", verbosity=0)
            call_command("distribute_logs", stdout=io.StringIO())
        else:
            settings.LOGS_GATE = {**settings.LOGS_GATE, "dbname": connections["logs"].settings_dict["NAME"]}
            call_command("harden_logs", stdout=io.StringIO())  # with LOGS_SUPERUSER_URL, in the test's log database
        call_command("load_fixtures", stdout=io.StringIO())
    yield
    close_log_servers()
    close_load_pool()
    with django_db_blocker.unblock():
        teardown_databases(databases, verbosity=request.config.option.verbose)


@pytest.fixture
def committed(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """Django's database without a transaction around the test; the test deletes what it made.

    pytest-django's own transactional tests empty every table afterwards, the shipped fixtures included.
    """
    with django_db_blocker.unblock():
        yield


class OwnerSession:
    """One session of the log database's owner for the tests of a process, as new for each of them.

    A new one costs ten times what most tests do with it, for PostgreSQL has no catalogue in memory there.
    """

    def __init__(self) -> None:
        self._idle: psycopg.Connection[Any] | None = None

    @contextmanager
    def lent(self) -> Iterator[psycopg.Connection[Any]]:
        connection = self._as_new(self._idle) or owner_connection()
        connection.prepare_threshold = None  # psycopg would miss that its prepared statements were discarded
        self._idle = None  # whoever asks meanwhile gets another session
        try:
            yield connection
        finally:
            self.close()
            self._idle = self._as_new(connection)

    def close(self) -> None:
        if self._idle is not None:
            self._idle.close()

    def _as_new(self, connection: psycopg.Connection[Any] | None) -> psycopg.Connection[Any] | None:
        """Return the connection without settings, locks and temporary tables; none if a test has broken it."""
        if connection is None:
            return None
        with suppress(psycopg.OperationalError):  # ended since, by a test or with the server
            if connection.info.transaction_status is TransactionStatus.IDLE:
                connection.execute("DISCARD ALL")
                connection.execute("SET TIME ZONE 'UTC'")
                return connection
        connection.close()
        return None


@pytest.fixture(scope="session")
def owner_session(django_db_setup: None) -> Iterator[OwnerSession]:
    session = OwnerSession()
    yield session
    session.close()


@pytest.fixture
def log_database(db: None, owner_session: OwnerSession) -> Iterator[psycopg.Connection[Any]]:
    """An owner's connection to the log database, every log table empty."""
    with owner_session.lent() as connection:
        empty_log_tables(connection)
        yield connection


def empty_log_tables(connection: psycopg.Connection[Any]) -> None:
    if not read_topology(connection).is_distributed:
        connection.execute(EMPTY_LOG_TABLES)
        return
    found = connection.execute(
        "SELECT oid::regclass FROM pg_class WHERE relnamespace = 'logs'::regnamespace AND relkind = 'p'"
    )
    for (table,) in found.fetchall():
        if connection.execute(f"SELECT 1 FROM {table} LIMIT 1").rowcount:
            connection.execute(f"DELETE FROM {table}")


@pytest.fixture
def superuser(db: None) -> Iterator[psycopg.Connection[Any]]:
    """A superuser's connection to the log database: it sees sessions and catalogs, which the gate does not."""
    name = connections["logs"].settings_dict["NAME"]
    with psycopg.connect(os.environ["LOGS_SUPERUSER_URL"], dbname=name, autocommit=True) as connection:
        yield connection


@pytest.fixture
def insert_rows(log_database: psycopg.Connection[Any]) -> Callable[[str, Sequence[LogRow]], None]:
    """Insert rows straight into a log table; `metadata` is stored as it is given.

    The project is the one given, else the one in metadata, if the source has it there.
    """
    paths = dict(LogSource.objects.values_list("name", "project_path"))

    def insert(source: str, rows: Sequence[LogRow]) -> None:
        for row in rows:
            metadata = row.get("metadata", [{}])
            path = paths.get(source, "")
            columns = {
                "id": row.get("id") or str(uuid4()),
                "project": row["project"] if "project" in row else metadata[0].get(path, ""),
                "timestamp": row["timestamp"],
                "event_message": row.get("event_message", ""),
                "metadata": orjson.dumps(metadata).decode(),
            }
            names = ", ".join(columns)
            marks = ", ".join(["%s"] * len(columns))
            log_database.execute(f"INSERT INTO logs.{source} ({names}) VALUES ({marks})", list(columns.values()))

    return insert


@pytest.fixture
def secret(db: None) -> str:
    """The secret of an access token that may call everything."""
    return issue_access_token(name="test caller").secret


class ApiClient(Client):
    """Django's test client that sends an access token and reads the answer's JSON."""

    def __init__(self, secret: str) -> None:
        super().__init__(headers={"X-API-KEY": secret})

    def query(self, reference: str, arguments: Mapping[str, Any] | None = None, **headers: str) -> Any:
        return self.get(
            f"/api/endpoints/query/{reference}",
            dict(arguments or {}),
            headers={name.replace("_", "-"): value for name, value in headers.items()},
        )


@pytest.fixture
def api(secret: str) -> ApiClient:
    return ApiClient(secret)


@pytest.fixture(scope="session", autouse=True)
def settings_of_the_run() -> None:
    """What every test has otherwise than the service, before anything is connected or hashed."""
    # A machine that stands still for a quarter of a second is no Redis that hangs; `own_redis` has the real limit.
    settings.CACHES["default"]["OPTIONS"] |= {"SOCKET_TIMEOUT": 20.0, "SOCKET_CONNECT_TIMEOUT": 20.0}
    # A new connection takes a second on a busy machine.
    settings.ENDPOINTS_POOL_WAIT_SECONDS = 10.0
    # Its thread would write what every test calls into the database, past the test's transaction.
    settings.ENDPOINTS_AUDIT_DAYS = 0
    # Hashing a password of the admin slowly, as it should be, would take a third of the admin's tests.
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    # Each test client would look through every static file of every application: half of the suite's time.
    settings.WHITENOISE_AUTOREFRESH = True


@pytest.fixture
def living_log_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log database that is slow to tell that it lives is none that hangs: for tests in which it does not hang."""
    monkeypatch.setattr(gate, "PROBE_SECONDS", LIVING_SECONDS)
    monkeypatch.setattr(gate.GateConnection, "probe_seconds", LIVING_SECONDS)


@pytest.fixture
def audit_log(db: None, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[CallLog]:
    """The audit log, empty and switched on; the test calls its `flush`, no thread does."""
    monkeypatch.setattr(RECORDER, "note", lambda: None)
    RECORDER.settle()
    call_queue.take_calls()
    call_queue.take_dropped()
    call_queue.take_refusals(now=0.0, is_end=True)
    CALL_LOG.forget()
    settings.ENDPOINTS_AUDIT_DAYS = 14
    yield CALL_LOG
    call_queue.take_calls()
    CALL_LOG.forget()


@pytest.fixture(autouse=True)
def time_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that stands still for half a second is no database that hangs."""
    for module in (directory, services, calls, catalogue):
        monkeypatch.setattr(module, "READ_SECONDS", 20.0)
    monkeypatch.setattr(directory, "RENEW_SECONDS", 20.0)
    monkeypatch.setattr(field_samples, "SAMPLE_SECONDS", 20.0)
    # In the test's own thread, which sees what the test has not committed.
    reading = SharedWork("catalogue", catalogue._read_and_keep, seconds=20.0)
    monkeypatch.setattr(catalogue, "_reading", reading)


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    FLUSHER.settle()  # what the test before has noted, it would write behind the clearing
    cache.clear()
    # One process saves, purges and calls here: nobody needs to wait until others have heard of it.
    monkeypatch.setattr(connection, "TRUSTED_SECONDS", 0.0)
    catalogue.forget_catalogue()
    field_samples.forget_samples()
    KNOWN_SOURCES.forget()  # the test before may have made log sources, and its end has taken them back
    yield
    # A test without Redis leaves a change to be announced to the next test's.
    for thread in threading.enumerate():
        if thread.name == generation.ANNOUNCING_THREAD:
            thread.join()


def iso(moment: datetime) -> str:
    """Return a UTC moment as the service writes it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
