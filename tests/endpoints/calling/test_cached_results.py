"""What the cache does for a call: hit, stale, miss or bypass, and never another call's bytes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any
from uuid import uuid4

import pytest
from django_redis import get_redis_connection

from endpoints.access.secrets import Caller, OwnLimits
from endpoints.access.token_limits import suspend, turn
from endpoints.cache import flights, live_entries, single_flight
from endpoints.cache.keys import entry_prefix
from endpoints.cache.leases import acquire, finish
from endpoints.cache.permits import use_of
from endpoints.calling.cached_results import Served, serve
from endpoints.calling.calls import run_endpoint
from endpoints.calling.purging import purge_cache
from endpoints.calling.query_requests import Call, read_request
from endpoints.defining.saving import save_endpoint
from endpoints.errors import DatabaseUnavailable, SandboxSuspended, StoredQueryFailed
from endpoints.log_database.servers import log_servers
from endpoints.models import Endpoint
from endpoints.results.outcomes import ResultFormat
from endpoints.sql.parameters import DeclaredParameter
from tests.endpoints.conftest import age_results
from tests.live.calls import until

pytestmark = pytest.mark.django_db
# Another number every time the query really runs.
SQL = "WITH a AS (SELECT @project::text AS project) SELECT project, random()::text AS run, '10.0.0.1' AS address FROM a"
Ask = Callable[..., Served]


@pytest.fixture
def endpoint(db: None) -> Endpoint:
    draft = Endpoint(name="test.cached", sql=SQL, cache_seconds=60, sandboxing=True)
    return save_endpoint(draft, [DeclaredParameter("project")])


@pytest.fixture
def ask(endpoint: Endpoint) -> Ask:
    def ask(caller: Caller | None = None, **fields: Any) -> Served:
        arguments = {"project": fields.pop("project", "acme")}
        takes_stale = fields.pop("takes_stale", True)
        return run_endpoint(
            "test.cached", call=Call(arguments, **fields), caller=caller, takes_stale=takes_stale
        ).served

    return ask


def test_the_second_call_is_a_hit_with_the_same_bytes(ask: Ask) -> None:
    first, second = ask(), ask()
    assert (first.state, second.state) == ("miss", "hit")
    assert first.outcome == second.outcome
    assert first.etag == second.etag
    assert 59 < first.fresh_for_seconds <= 60
    assert 58 < second.fresh_for_seconds <= 60


def test_an_endpoint_without_caching_always_runs(ask: Ask, endpoint: Endpoint) -> None:
    endpoint.cache_seconds = 0
    save_endpoint(endpoint, [DeclaredParameter("project")])
    first, second = ask(), ask()
    assert (first.state, second.state) == ("bypass", "bypass")
    assert first.outcome.body != second.outcome.body
    assert live_entries(endpoint.pk.hex) == 0


def test_sandbox_queries_are_stored_within_the_share_of_their_access_token(ask: Ask, settings: Any) -> None:
    settings.ENDPOINTS_SANDBOX_CACHE_BYTES = 1000
    one, other = (Caller(name, prefix=uuid4().hex[:12]) for name in ("one", "other"))
    small, large = "select project from a", "select md5(project || n) as x from a, generate_series(1, 100) as n"
    states = [ask(one, sandbox_sql=sql).state for sql in (small, large, small, large)]
    assert states == ["miss", "bypass", "hit", "bypass"]
    assert ask(other, sandbox_sql=small).state == "hit"
    # Operators choose these, so they have no bound; neither does the share of one count for another.
    settings.ENDPOINTS_SANDBOX_CACHE_BYTES = 0
    assert [ask(one, project="new").state for _ in range(2)] == ["miss", "hit"]
    assert [ask(other, sandbox_lql="s:project").state for _ in range(2)] == ["bypass", "bypass"]


DIFFERENT: list[dict[str, Any]] = [
    {},
    {"project": "globex"},
    {"project": ""},
    {"redact": True},
    {"format": ResultFormat.CSV},
    {"format": ResultFormat.NDJSON},
    {"sandbox_sql": "select project, random() as run from a"},
    {"sandbox_sql": "select project,  random() as run from a"},
    {"sandbox_lql": "s:project"},
    {"sandbox_lql": "s:project s:project"},
]


def test_calls_that_may_differ_share_nothing(ask: Ask, endpoint: Endpoint) -> None:
    assert [ask(**fields).state for fields in DIFFERENT] == ["miss"] * len(DIFFERENT)
    assert [ask(**fields).state for fields in DIFFERENT] == ["hit"] * len(DIFFERENT)
    assert b"REDACTED" in ask(redact=True).outcome.body
    assert b"10.0.0.1" in ask().outcome.body


def test_a_bound_argument_is_part_of_what_is_asked(ask: Ask) -> None:
    bound = Caller(name="bound", prefix="0" * 12, bound_arguments={"project": "acme"})
    assert ask(project="globex").state == "miss"
    assert ask(caller=bound, project="").state == "miss"
    assert b'"acme"' in ask(caller=bound, project="").outcome.body
    assert ask(project="acme").state == "hit"  # the same arguments, so the same rows


def test_undeclared_names_share_an_entry(endpoint: Endpoint) -> None:
    states = [
        run_endpoint("test.cached", call=Call({"project": "acme", "nonsense": str(number)})).served.state
        for number in range(3)
    ]
    assert states == ["miss", "hit", "hit"]


def test_a_save_is_answered_anew(ask: Ask, endpoint: Endpoint) -> None:
    ask()
    endpoint.sql = SQL.replace("10.0.0.1", "10.0.0.2")
    save_endpoint(endpoint, [DeclaredParameter("project")])
    served = ask()
    assert served.state == "miss"
    assert b"10.0.0.2" in served.outcome.body


def test_a_redaction_switched_on_holds_from_the_next_call(ask: Ask, endpoint: Endpoint) -> None:
    ask()
    endpoint.redact_pii = True
    save_endpoint(endpoint, [DeclaredParameter("project")])
    assert b"10.0.0.1" not in ask().outcome.body


def test_a_purge_is_answered_anew(ask: Ask) -> None:
    first = ask()
    ask(project="globex")
    assert purge_cache("test.cached").results == 2
    second = ask()
    assert second.state == "miss"
    assert second.outcome.body != first.outcome.body


def test_errors_are_not_kept(ask: Ask, endpoint: Endpoint) -> None:
    endpoint.sql = "SELECT 1 / (length(@project) - 4) AS a"
    endpoint.sandboxing = False
    save_endpoint(endpoint, [DeclaredParameter("project")])
    for _ in range(2):
        with pytest.raises(StoredQueryFailed):
            ask()
    assert live_entries(endpoint.pk.hex) == 0


def test_a_hit_needs_no_log_database(ask: Ask, no_log_database: Callable[[], None]) -> None:
    first = ask()
    no_log_database()
    assert ask().outcome == first.outcome
    with pytest.raises(DatabaseUnavailable):
        ask(project="globex")


def test_an_expired_result_is_renewed(ask: Ask, endpoint: Endpoint) -> None:
    endpoint.cache_seconds = 1
    save_endpoint(endpoint, [DeclaredParameter("project")])
    first = ask()
    age_results(endpoint, seconds=2)
    second = ask()
    assert (second.state, ask().state) == ("miss", "hit")
    assert second.outcome.body != first.outcome.body


def test_an_expired_result_is_better_than_none_and_marked(
    ask: Ask, endpoint: Endpoint, no_log_database: Callable[[], None]
) -> None:
    endpoint.cache_seconds = 1
    save_endpoint(endpoint, [DeclaredParameter("project")])
    first = ask()
    age_results(endpoint, seconds=2)
    no_log_database()
    served = ask()
    assert served.state == "stale"
    assert served.outcome.body == first.outcome.body
    assert served.age_seconds > 1
    assert served.fresh_for_seconds == 0


def test_who_takes_no_stale_result_gets_a_fresh_one_or_the_failure(
    ask: Ask, endpoint: Endpoint, no_log_database: Callable[[], None]
) -> None:
    first = ask()
    assert ask(takes_stale=False).outcome == first.outcome
    age_results(endpoint, seconds=60)
    renewed = ask(takes_stale=False)
    assert (renewed.state, renewed.age_seconds) == ("miss", 0)
    assert renewed.outcome.body != first.outcome.body
    # It is kept for others as long as any other result.
    age_results(endpoint, seconds=60)
    no_log_database()
    with pytest.raises(DatabaseUnavailable):
        ask(takes_stale=False)
    assert (ask().state, ask().outcome.body) == ("stale", renewed.outcome.body)


def test_who_takes_no_stale_result_waits_while_another_call_renews_it(ask: Ask, endpoint: Endpoint) -> None:
    first = ask()
    age_results(endpoint, seconds=60)
    (entry,) = get_redis_connection().scan_iter(match=f"{entry_prefix(endpoint.pk.hex)}*")
    lease = acquire(entry.decode().replace(":entry:", ":lease:"), seconds=5)
    assert lease is not None
    assert ask().state == "stale"
    with ThreadPoolExecutor(1) as pool:
        pool.submit(finish, lease, b"left")
        assert ask(takes_stale=False).outcome.body != first.outcome.body


def test_a_visitor_who_waits_for_the_call_of_a_paused_one_gets_rows(endpoint: Endpoint, settings: Any) -> None:
    log_servers()  # made before, as for all other tests: they keep this pool
    settings.ENDPOINTS_POOL_WAIT_SECONDS = 60.0
    version, limits = endpoint.as_version(), OwnLimits(sandbox_queries_at_once=1)
    call = Call({"project": "acme"}, sandbox_sql="select project from a")
    request = read_request(version, call, None)
    paused, waiting, third = (Caller("visitor", "0" * 12, limits=limits, browser_token=each) for each in "abc")
    with ThreadPoolExecutor(2) as threads:
        with turn(third, is_sandbox_query=True, statement_seconds=15):
            # Redis first hears of the turn as one that waits.
            until(lambda: use_of(f"sandbox:{paused.prefix}").running == 1, seconds=60)
            first = threads.submit(serve, version, request, paused)
            until(lambda: use_of(f"sandbox:{paused.prefix}").waiting == 1, seconds=60)
            second = threads.submit(serve, version, request, waiting)
            until(lambda: any(each._followers for each in flights._flights.values()), seconds=60)
            suspend(paused.own_id, seconds=60)
        with pytest.raises(SandboxSuspended):
            first.result(60)
        assert second.result(60).outcome.row_count == 1


def test_a_call_that_wants_it_anew_keeps_its_turn_to_the_end(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while it waits until nobody relies on the older result: it keeps a thread for that."""
    waits, may_end = Event(), Event()

    def wait() -> None:
        waits.set()
        assert may_end.wait(60)

    monkeypatch.setattr(single_flight, "wait_until_expired", wait)
    version, caller = endpoint.as_version(), Caller("one", uuid4().hex[:12], limits=OwnLimits(calls_at_once=1))
    request = read_request(version, Call({"project": "acme"}), None)
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(serve, version, request, caller, anew=True)
        assert waits.wait(60)
        until(lambda: use_of(f"calls:{caller.prefix}").running == 1, seconds=60)
        may_end.set()
        assert running.result(60).state == "miss"
    until(lambda: use_of(f"calls:{caller.prefix}").running == 0, seconds=60)
