"""Calls through a pooler: PgBouncer's session mode serves, its other modes are refused in words, with no wrong row."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from io import StringIO
from itertools import cycle, islice
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from django.test import Client

from endpoints.access.access_tokens import issue_access_token
from endpoints.access.secrets import NO_LIMIT, OwnLimits
from endpoints.defining.saving import save_endpoint
from endpoints.errors import DatabaseUnavailable
from endpoints.guarantees import forget_answer, keep_asking, sandbox_refusal, verify_guarantees
from endpoints.log_database import gate
from endpoints.log_database.load_pool import close_load_pool, load_pool
from endpoints.log_database.servers import close_log_servers, log_servers
from endpoints.log_database.sessions import ReaderSession
from endpoints.models import AccessToken, Endpoint
from endpoints.sql.parameters import DeclaredParameter, ParameterType
from logsources.databases import owner_parameters
from logsources.roles import QUERY_READER
from logsources.session_marks import SHARED_SESSIONS, SharedSession
from tests.endpoints.log_database.test_gate_session_marks import WAYS
from tests.live.calls import until
from tests.poolers import MODES, SESSION, STATEMENT, TRANSACTION, pgbouncer

pytestmark = [
    pytest.mark.needs("pgbouncer"),
    pytest.mark.one_server("a pooler in front of a coordinator is no other case"),
]

Through = Callable[[str], AbstractContextManager[None]]
NOBODY = ReaderSession(role=QUERY_READER, search_path="logs", statement_timeout_seconds=5, tenant="")
CALLERS = 8
CALLS = 45  # of each
WITH_DATABASES = pytest.mark.django_db(databases=["default", "logs"])
SHARING = (TRANSACTION, STATEMENT)
# Endpoints whose statements look alike to PostgreSQL: as many parameters, and columns of the same types.
NAMES = [f"test.pooled-{number}" for number in range(6)]


@pytest.fixture
def gate_through(settings: Any) -> Iterator[Through]:
    """Lead LOGS_GATE_URL through a PgBouncer of this mode."""

    @contextmanager
    def through(mode: str) -> Iterator[None]:
        with pgbouncer(mode, settings.LOGS_GATE) as address:
            settings.LOGS_GATE = {**settings.LOGS_GATE, **address}
            settings.ENDPOINTS_POOL_WAIT_SECONDS = 2.0  # a pool that gets no connection makes every call wait so long
            close_log_servers()
            forget_answer()
            yield
            close_log_servers()

    yield through
    close_log_servers()
    forget_answer()


@pytest.fixture
def owner_through(settings: Any) -> Iterator[Through]:
    """Lead LOGS_DATABASE_URL through a PgBouncer of this mode."""
    owner = connections["logs"].settings_dict
    direct = dict(owner)

    @contextmanager
    def through(mode: str) -> Iterator[None]:
        with pgbouncer(mode, owner_parameters()) as address:
            owner.update(HOST=address["host"], PORT=address["port"])
            close_load_pool()
            forget_answer()
            yield
            close_load_pool()

    yield through
    owner.update(direct)
    close_load_pool()
    forget_answer()


@pytest.fixture
def endpoints() -> Iterator[None]:
    """Six endpoints, each of which answers with its own name; every second one takes an argument."""
    made = [
        save_endpoint(
            Endpoint(name=name, sql=f"SELECT '{name}' AS name, {n}::int AS n", cache_seconds=0),
            [DeclaredParameter("n", ParameterType.INTEGER)] if n == "@n" else [],
        )
        for name, n in zip(NAMES, cycle(["0", "@n"]), strict=False)
    ]
    yield
    for endpoint in made:
        endpoint.delete()
        Endpoint.history.filter(name=endpoint.name).delete()


def outcomes_of_calls(secret: str) -> Counter[str]:
    """Count what eight callers get who call every endpoint in turn."""

    def call_all(caller: int) -> list[str]:
        client = Client(headers={"X-API-KEY": secret})
        try:
            return [outcome(client, name) for name in islice(cycle(NAMES[caller % 6 :] + NAMES[: caller % 6]), CALLS)]
        finally:
            connections.close_all()

    with ThreadPoolExecutor(CALLERS) as pool:
        return Counter(each for outcomes in pool.map(call_all, range(CALLERS)) for each in outcomes)


def outcome(client: Client, name: str) -> str:
    number = NAMES.index(name)
    n = number * 11 if number % 2 else 0
    response = client.get(f"/api/endpoints/query/{name}", {"n": n} if number % 2 else {})
    if response.status_code == 200:
        return "right" if response.json() == {"result": [{"name": name, "n": n}]} else "wrong"
    assert int(response.headers.get("Retry-After", 0)) > 0, response.content
    return str(response.json()["error"]["code"])


@contextmanager
def secret_of_a_caller() -> Iterator[str]:
    issued = issue_access_token(name="eight callers", limits=OwnLimits(NO_LIMIT, NO_LIMIT, NO_LIMIT))
    yield issued.secret
    issued.access_token.delete()
    AccessToken.history.filter(name="eight callers").delete()


@pytest.mark.parametrize("mode", MODES)
def test_eight_callers_get_their_own_rows_or_none(
    committed: None, endpoints: None, gate_through: Through, mode: str
) -> None:
    with secret_of_a_caller() as secret, gate_through(mode):
        outcomes = outcomes_of_calls(secret)
    assert outcomes == {"right" if mode == SESSION else "database_unavailable": CALLERS * CALLS}


def test_the_mark_of_each_transaction_decides_where_sharing_was_not_found_before(
    committed: None, endpoints: None, gate_through: Through, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "refuse_shared_sessions", lambda *_: None)
    monkeypatch.setattr(gate, "SHARED_SECONDS", 0.0)  # every call tries
    with secret_of_a_caller() as secret, gate_through(TRANSACTION):
        outcomes = outcomes_of_calls(secret)
    assert set(outcomes) <= {"right", "database_unavailable"}


@WITH_DATABASES
@pytest.mark.parametrize("mode", SHARING)
@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_the_log_database_is_refused_in_words(gate_through: Through, mode: str, way: str) -> None:
    with gate_through(mode), pytest.raises(DatabaseUnavailable) as failure:
        WAYS[way]()
    assert failure.value.reason == SHARED_SESSIONS
    assert "pooler" not in str(failure.value.body("")), "callers are not told"


@WITH_DATABASES
@pytest.mark.parametrize("way", WAYS)
def test_every_way_works_in_session_mode(gate_through: Through, way: str) -> None:
    with gate_through(SESSION):
        WAYS[way]()


@WITH_DATABASES
@pytest.mark.parametrize("mode", SHARING)
def test_operators_are_told_everywhere(gate_through: Through, caplog: pytest.LogCaptureFixture, mode: str) -> None:
    ended = threading.Event()
    ended.set()
    with gate_through(mode):
        keep_asking(ended)  # as each web process does when it starts
        until(lambda: f"DatabaseUnavailable: {SHARED_SESSIONS}" in caplog.text, seconds=20)
        ready = Client().get("/readyz")
        assert (ready.status_code, ready.json()["checks"]["log_database"]) == (503, f"unavailable: {SHARED_SESSIONS}")
        with pytest.raises(CommandError, match="pooler that shares sessions"):
            call_command("check_sandbox", stdout=StringIO())
        with pytest.raises(DatabaseUnavailable, match="pooler that shares sessions"):
            sandbox_refusal()
        page = StringIO()
        with pytest.raises(CommandError):
            call_command("doctor", stdout=page)
        assert f"FAIL  Log database: {SHARED_SESSIONS}" in page.getvalue()
        assert f"FAIL  Guarantees: cannot be looked at: {SHARED_SESSIONS}" in page.getvalue()


@WITH_DATABASES
def test_session_mode_keeps_every_guarantee_and_is_ready(gate_through: Through) -> None:
    with gate_through(SESSION):
        assert all(verdict.holds for verdict in verify_guarantees() if verdict.is_needed)
        assert Client().get("/readyz").json()["checks"]["log_database"] == "ok"


@WITH_DATABASES
@pytest.mark.parametrize("mode", SHARING)
def test_the_owners_connections_are_tried_too(owner_through: Through, mode: str) -> None:
    with owner_through(mode):
        with pytest.raises(SharedSession):
            verify_guarantees()
        with pytest.raises(DatabaseUnavailable) as failure, load_pool().connection():
            pass
    assert failure.value.reason == SHARED_SESSIONS


@WITH_DATABASES
def test_loads_work_in_session_mode(owner_through: Through) -> None:
    with owner_through(SESSION), load_pool().connection() as connection:
        assert connection.execute("SHOW TimeZone").fetchone() == ("UTC",)
        verify_guarantees()


@WITH_DATABASES
def test_start_up_options_that_a_pooler_ignores_are_in_force(gate_through: Through, settings: Any) -> None:
    options = {"DateStyle": "SQL, DMY", "IntervalStyle": "iso_8601", "bytea_output": "escape", "work_mem": "5MB"}
    text = " ".join(f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in options.items())
    settings.LOGS_GATE = {**settings.LOGS_GATE, "options": text}
    with gate_through(SESSION), log_servers().primary().connection() as connection:
        shown = {name: connection.execute(f"SHOW {name}".encode()).fetchone() for name in options}
    assert shown == {name: (value,) for name, value in options.items()}
