"""Calls on a pair of servers: a standby that is fresh enough answers them, or else the primary; never older rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count
from typing import Any

import psycopg
import pytest
from django.test import Client
from psycopg.conninfo import make_conninfo
from structlog.testing import capture_logs

from config.embedded import postgres_server
from endpoints.cache import usage
from endpoints.calling.installation import State, look_at_installation
from endpoints.calling.purging import purge_cache
from endpoints.calling.warming import warm_endpoint
from endpoints.defining.saving import save_endpoint
from endpoints.errors import DatabaseUnavailable
from endpoints.log_database import servers
from endpoints.log_database.execution import run_statement
from endpoints.log_database.servers import (
    LogServers,
    ServerReport,
    ServerRole,
    ServerState,
    close_log_servers,
    log_servers,
)
from endpoints.log_database.sessions import ReaderSession
from endpoints.models import Endpoint
from endpoints.results.outcomes import Statement
from endpoints.results.positions import ON_PRIMARY
from endpoints.sql.parameters import DeclaredParameter
from logsources.databases import owner_parameters
from logsources.roles import POSITION_NOT_REPLAYED, QUERY_READER
from tests.conftest import ApiClient
from tests.endpoints.api.loads import row, send
from tests.endpoints.conftest import age_results
from tests.live.calls import until
from tests.live.replicated import Replicated, frozen_server, value

pytestmark = pytest.mark.django_db

SECONDS = 20.0  # for what happens within one or two, however busy the machine


@pytest.fixture(autouse=True)
def looking_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "LOOK_SECONDS", 0.02)


@pytest.fixture
def pair(replicated: Replicated, shipper: Client) -> Iterator[Replicated]:
    """The pair with empty log tables, and a standby that takes calls."""
    replicated.caught_up()
    log_servers()
    until(lambda: states() == [ServerState.SERVES] * 2, seconds=SECONDS, pause=0.01)
    yield replicated
    close_log_servers()


@pytest.fixture
def where(pair: Replicated) -> Endpoint:
    """An endpoint that tells how many rows it sees."""
    made = save_endpoint(Endpoint(name="where", sql="SELECT count(*) AS rows FROM edge_logs", cache_seconds=0), [])
    pair.caught_up()
    return made


def reports() -> dict[ServerRole, ServerReport]:
    return {report.role: report for report in log_servers().reports()}


def states() -> list[ServerState]:
    return [report.state for report in log_servers().reports()]


def rows_seen(api: ApiClient, arguments: Mapping[str, str] | None = None, **headers: str) -> int:
    response = api.query("where", arguments, **headers)
    assert response.status_code == 200, response.content
    (row,) = response.json()["result"]
    return int(row["rows"])


def sent_to_primary(logged: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return why calls that the standby had begun ran on the primary."""
    return [str(line["reason"]) for line in logged if line["event"] == "sent_to_primary"]


NO_CACHE = {"Cache_Control": "no-cache"}


def test_a_plain_call_is_answered_by_the_standby(
    pair: Replicated, where: Endpoint, api: ApiClient, shipper: Client
) -> None:
    with pair.replay_paused():
        send(shipper, row(1))
        assert rows_seen(api) == 0
    pair.caught_up()
    assert rows_seen(api) == 1


def test_a_call_with_no_cache_is_answered_by_the_primary(
    pair: Replicated, where: Endpoint, api: ApiClient, shipper: Client
) -> None:
    with pair.replay_paused(), capture_logs() as logged:
        for number in range(1, 101):
            send(shipper, row(number))
            assert rows_seen(api, **NO_CACHE) == number
        assert rows_seen(api) == 0
    assert sent_to_primary(logged) == []


def test_a_stream_with_no_cache_comes_from_the_primary(pair: Replicated, api: ApiClient, shipper: Client) -> None:
    save_endpoint(Endpoint(name="streamed", sql="SELECT id FROM edge_logs", stream_rows=10), [])
    pair.caught_up()
    with pair.replay_paused():
        send(shipper, row(1))
        bodies = [
            b"".join(api.query("streamed", Accept="application/x-ndjson", **headers)) for headers in (NO_CACHE, {})
        ]
    assert [body.count(b"row-1") for body in bodies] == [1, 0]


@pytest.fixture
def kept(pair: Replicated) -> Endpoint:
    """The same with results that are cached, and warmed."""
    made = save_endpoint(
        Endpoint(name="where", sql=WHERE, cache_seconds=600, warm_every_seconds=60),
        [DeclaredParameter("project", default="acme")],
    )
    pair.caught_up()
    return made


WHERE = "SELECT count(*) AS rows FROM edge_logs WHERE project = @project"


def test_plain_calls_after_one_with_no_cache_see_its_rows_from_the_cache(
    pair: Replicated, kept: Endpoint, api: ApiClient, shipper: Client
) -> None:
    with pair.replay_paused():
        assert rows_seen(api) == 0
        for number in range(1, 101):
            send(shipper, row(number))
            assert (rows_seen(api, **NO_CACHE), rows_seen(api)) == (number, number)


@pytest.mark.parametrize("then", ["expired", "removed", "warmed"])
def test_a_result_made_anew_is_not_replaced_by_what_a_standby_lacks(
    pair: Replicated, kept: Endpoint, api: ApiClient, shipper: Client, then: str
) -> None:
    with pair.replay_paused():
        send(shipper, row(1))
        assert rows_seen(api, **NO_CACHE) == 1
        if then == "removed":
            purge_cache("where")
        else:
            age_results(kept, seconds=600 if then == "expired" else 60)
        if then == "warmed":
            usage.FLUSHER.settle()
            assert warm_endpoint(kept.pk).warmed == 1
        assert rows_seen(api) == 1
        assert rows_seen(api, {"project": "globex"}) == 0


def test_a_page_never_comes_from_a_standby_that_lacks_rows_of_the_page_before(
    pair: Replicated, api: ApiClient, shipper: Client
) -> None:
    sql = "SELECT id, timestamp FROM edge_logs"
    save_endpoint(Endpoint(name="test.pages", sql=sql, page_order="id, timestamp"), [])
    pair.caught_up()
    with pair.replay_paused():
        send(shipper, [row(number) for number in range(1, 4)])
        first = api.query("test.pages", {"page_size": 2}, **NO_CACHE).json()
        last = api.query("test.pages", {"page_token": first["next"]}).json()
        assert api.query("test.pages", {"page_size": 2}).json() == {"result": [], "next": None}
    assert (len(first["result"]), len(last["result"]), last["next"]) == (2, 1, None)


@pytest.mark.parametrize("cache_seconds", [0, 600])
def test_pages_across_both_servers_lose_no_row_and_give_none_twice(
    pair: Replicated, api: ApiClient, shipper: Client, cache_seconds: int
) -> None:
    """The standby pauses and goes on between pages; rows that were there at the first page come, each once."""
    sql = "SELECT id, timestamp FROM edge_logs"
    save_endpoint(Endpoint(name="test.pages", sql=sql, page_order="id, timestamp", cache_seconds=cache_seconds), [])
    rows = [row(number, id=f"row-{number:03}") for number in range(300)]
    send(shipper, rows[:150])
    pair.caught_up()
    with capture_logs() as logged, ExitStack() as lag:
        lag.enter_context(pair.replay_paused())
        send(shipper, rows[150:])
        seen, arguments, headers = [], {"page_size": 7}, NO_CACHE
        for number in count():
            document = api.query("test.pages", arguments, **headers).json()
            seen += [each["id"] for each in document["result"]]
            arguments, headers = {"page_token": document["next"]}, {}
            if document["next"] is None:
                break
            if number == 20:  # from now on the standby has them all
                lag.close()
                pair.caught_up()
    assert seen == [each["id"] for each in rows]
    assert set(sent_to_primary(logged)) == {f"{POSITION_NOT_REPLAYED}: DatabaseError"}


def test_the_standby_answers_the_page_after_one_that_it_has_replayed(
    pair: Replicated, api: ApiClient, shipper: Client
) -> None:
    save_endpoint(Endpoint(name="test.pages", sql="SELECT id FROM edge_logs", page_order="id"), [])
    send(shipper, [row(1), row(2)])
    pair.caught_up()
    first = api.query("test.pages", {"page_size": 1}).json()
    pair.caught_up()
    with pair.replay_paused():
        send(shipper, row(3))
        assert api.query("test.pages", {"page_token": first["next"]}).json() == {
            "result": [{"id": "row-2"}],
            "next": None,
        }


def test_a_standby_further_behind_than_allowed_takes_no_calls_until_it_has_caught_up(
    replicated: Replicated, shipper: Client, api: ApiClient, settings: Any
) -> None:
    settings.ENDPOINTS_STANDBY_MAX_LAG_SECONDS = 0.2
    save_endpoint(Endpoint(name="where", sql="SELECT count(*) AS rows FROM edge_logs", cache_seconds=0), [])
    replicated.caught_up()
    log_servers()
    until(lambda: states() == [ServerState.SERVES] * 2, seconds=SECONDS, pause=0.01)
    with replicated.replay_paused():
        send(shipper, row(1))
        until(lambda: reports()[ServerRole.STANDBY].state is ServerState.BEHIND, seconds=SECONDS, pause=0.01)
        assert rows_seen(api) == 1
        assert (reports()[ServerRole.STANDBY].lag_seconds or 0) > 0
    until(lambda: states() == [ServerState.SERVES] * 2, seconds=SECONDS, pause=0.01)


def test_a_process_that_has_just_started_uses_a_standby_once_it_has_what_was_written_before(
    pair: Replicated, where: Endpoint, api: ApiClient, shipper: Client
) -> None:
    with pair.replay_paused():
        send(shipper, row(1))
        close_log_servers()
        assert rows_seen(api) == 1
        until(lambda: len(reports()) == 2, seconds=SECONDS, pause=0.01)
        assert reports()[ServerRole.STANDBY].state is ServerState.BEHIND


@pytest.mark.parametrize("outage", [Replicated.standby_killed, Replicated.standby_frozen])
def test_without_its_standby_the_primary_answers(
    pair: Replicated, where: Endpoint, api: ApiClient, shipper: Client, outage: Callable[[Replicated], Any]
) -> None:
    assert rows_seen(api) == 0
    with outage(pair):
        send(shipper, row(1))
        assert rows_seen(api) == 1
        until(lambda: ServerState.UNAVAILABLE in states(), seconds=SECONDS, pause=0.01)
        assert rows_seen(api) == 1
    until(lambda: states() == [ServerState.SERVES] * 2, seconds=SECONDS, pause=0.01)
    pair.caught_up()
    assert rows_seen(api) == 1


def test_calls_meet_a_new_version_before_its_sandbox_schema_has_arrived(
    pair: Replicated, api: ApiClient, shipper: Client
) -> None:
    send(shipper, row(1))
    pair.caught_up()
    with pair.replay_paused():
        save_endpoint(
            Endpoint(name="new", sql="WITH edges AS (SELECT id FROM edge_logs) SELECT id FROM edges", sandboxing=True),
            [],
        )
        with capture_logs() as logged:
            response = api.query("new", {"sql": "SELECT count(*) AS rows FROM edges"})
        assert (response.status_code, response.json()) == (200, {"result": [{"rows": 1}]})
        assert sent_to_primary(logged) == ["42P01: UndefinedTable"]


def test_a_query_with_operands_that_are_too_large_is_refused_by_the_standby_itself(
    pair: Replicated, api: ApiClient
) -> None:
    save_endpoint(Endpoint(name="new", sql="WITH edges AS (SELECT 1 AS n) SELECT 1", sandboxing=True), [])
    pair.caught_up()
    padded = "SELECT format('%1000s', '') AS a, format('%1000s', 'b') AS b FROM generate_series(1, 50)"
    with capture_logs() as logged:
        sql = f"SELECT length(translate(string_agg(a, ''), string_agg(b, ''), '')) FROM ({padded}) AS r"
        response = api.query("new", {"sql": sql})
    assert (response.status_code, "too large" in response.json()["error"]["message"]) == (400, True), response.content
    assert sent_to_primary(logged) == []


@pytest.fixture
def impatient(replicated: Replicated, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A standby that cancels at once whatever stands in the way of replay; as it was before, at the end."""
    settings = f"{postgres_server.STANDBY_SETTINGS}\nmax_standby_streaming_delay = 0\n"
    monkeypatch.setattr(postgres_server, "STANDBY_SETTINGS", settings)
    with replicated.standby_killed():
        pass
    yield
    monkeypatch.undo()
    with replicated.standby_killed():
        pass


@pytest.mark.usefixtures("impatient")
def test_a_call_that_replay_cancels_runs_on_the_primary(pair: Replicated, api: ApiClient) -> None:
    """An ACCESS EXCLUSIVE lock that replay takes ends the query in its way (manual, "Handling Query Conflicts")."""
    save_endpoint(Endpoint(name="slow", sql=SLEEPS_ON_STANDBY, cache_seconds=0), [])
    pair.caught_up()
    with ThreadPoolExecutor(1) as pool, capture_logs() as logged:
        locking = pool.submit(_lock_when_it_runs, pair)
        response = api.query("slow")
        locking.result()
    assert (response.status_code, response.json()) == (200, {"result": [{"rows": 0}]})
    assert sent_to_primary(logged) == ["40001: SerializationFailure"]


SLEEPS_ON_STANDBY = """SELECT count(*) AS rows FROM edge_logs, pg_sleep(
    CASE current_setting('in_hot_standby') WHEN 'on' THEN 14 ELSE 0 END)"""


def _lock_when_it_runs(pair: Replicated) -> None:
    running = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep')"
    until(lambda: bool(value(pair.standby_url, running)), seconds=SECONDS, pause=0.01)
    with _owner() as primary, primary.transaction():
        primary.execute("LOCK TABLE logs.edge_logs IN ACCESS EXCLUSIVE MODE")


def test_a_call_that_meets_a_lock_of_replay_runs_on_the_primary(
    pair: Replicated, where: Endpoint, api: ApiClient
) -> None:
    """As while a partition is attached: the standby keeps the lock until it has replayed the end of that."""
    with _owner() as primary, ExitStack() as stack:
        with primary.transaction():
            primary.execute("LOCK TABLE logs.edge_logs IN ACCESS EXCLUSIVE MODE")
            with _owner() as another:
                another.execute("SELECT pg_current_xact_id()")  # its commit sends the standby what was logged so far
            locked = "SELECT EXISTS (SELECT FROM pg_locks WHERE mode = 'AccessExclusiveLock')"
            until(lambda: bool(value(_logs_of(pair), locked)), seconds=SECONDS, pause=0.01)
            stack.enter_context(pair.replay_paused())
        with capture_logs() as logged:
            assert rows_seen(api) == 0
        assert sent_to_primary(logged) == ["55P03: LockNotAvailable"]


def test_a_second_primary_takes_no_calls_away_from_the_first(
    pair: Replicated, where: Endpoint, api: ApiClient, shipper: Client
) -> None:
    pair.promote_standby()
    until(lambda: ServerRole.STANDBY not in reports(), seconds=SECONDS, pause=0.01)
    send(shipper, row(1))
    assert rows_seen(api, **NO_CACHE) == 1
    assert rows_seen(api) == 1


@pytest.fixture
def outdated(pair: Replicated, monkeypatch: pytest.MonkeyPatch) -> LogServers:
    """The servers of a process that takes the standby for the primary: they changed places since its last look."""
    close_log_servers()
    monkeypatch.setattr(servers, "LOOK_SECONDS", 1000.0)
    outdated = log_servers()
    standby = outdated.standby()
    assert standby is not None
    monkeypatch.setattr(outdated, "_prefers_standbys", False)
    monkeypatch.setattr(outdated, "_primary", standby)
    return outdated


def test_a_primary_that_became_a_standby_since_the_last_look_is_noticed_by_the_call(
    pair: Replicated, where: Endpoint, outdated: LogServers, api: ApiClient, shipper: Client
) -> None:
    with pair.replay_paused():
        send(shipper, row(1))
        assert rows_seen(api, **NO_CACHE) == 1


def test_without_a_living_primary_what_must_run_there_is_an_outage(pair: Replicated, outdated: LogServers) -> None:
    session = ReaderSession(QUERY_READER, search_path="logs", statement_timeout_seconds=5, tenant=None)
    with frozen_server(pair.primary), pytest.raises(DatabaseUnavailable):
        run_statement(Statement("SELECT 1", ()), session, max_rows=1, awaited=ON_PRIMARY)


def _owner() -> psycopg.Connection[Any]:
    return psycopg.connect(**owner_parameters(), autocommit=True)


def _logs_of(pair: Replicated) -> str:
    return make_conninfo(pair.standby_url, dbname=str(owner_parameters()["dbname"]))


# --- Watching ---------------------------------------------------------------------------------------------------------
def test_readyz_lists_the_servers_without_their_names(pair: Replicated) -> None:
    document = Client().get("/readyz").json()
    assert document["checks"]["log_database"] == "ok"
    assert document["log_servers"] == [
        {"role": "standby", "state": "serves", "lag_seconds": pytest.approx(0, abs=SECONDS)},
        {"role": "primary", "state": "serves", "lag_seconds": None},
    ]
    with pair.standby_killed():
        until(lambda: ServerState.UNAVAILABLE in states(), seconds=SECONDS, pause=0.01)
        response = Client().get("/readyz")
        assert (response.status_code, response.json()["log_servers"][0]["state"]) == (200, "unavailable")


def test_metrics_name_the_servers(pair: Replicated, settings: Any) -> None:
    settings.ENDPOINTS_METRICS_TOKEN = "secret"
    text = Client(headers={"Authorization": "Bearer secret"}).get("/metrics").content.decode()
    standby, primary = (report.name for report in log_servers().reports())
    assert f'endpoints_log_server_serves{{role="standby",server="{standby}"}} 1.0' in text
    assert f'endpoints_log_server_serves{{role="primary",server="{primary}"}} 1.0' in text
    assert f'endpoints_log_server_lag_seconds{{role="standby",server="{standby}"}}' in text
    assert f'endpoints_log_server_lag_seconds{{role="primary",server="{primary}"}}' not in text


def test_the_dashboard_shows_who_takes_calls(pair: Replicated) -> None:
    standby, primary = log_servers().reports()

    def shown() -> dict[str, State]:
        return {part.name: part.state for part in look_at_installation().parts}

    names = (f"Standby {standby.name}", f"Primary {primary.name}")
    assert [shown()[name] for name in names] == [State.RUNNING] * 2
    with pair.standby_frozen():
        until(lambda: ServerState.UNAVAILABLE in states(), seconds=SECONDS, pause=0.01)
        assert [shown()[name] for name in names] == [State.DOWN, State.RUNNING]
