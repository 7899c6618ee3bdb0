"""Who is still wanted: calls whose client has left, cancelled ones, and those whose result others wait for."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from config.exchanges import PROTOCOL
from endpoints.cache import CacheUnavailable, flights, running_calls
from endpoints.cache.connection import ask_for
from endpoints.cache.flights import Flight, FlightResult, Role
from endpoints.cache.keys import ResultKey
from endpoints.cache.leases import Lease, announce_wait
from endpoints.cache.running_calls import CURRENT_CALL, RunningCall, cancel_calls, end_if_unwanted
from endpoints.errors import CallCancelled, CallEnded, ClientLeft
from endpoints.results.outcomes import Outcome, ResultFormat
from tests.endpoints.cache.own_redis import OwnRedis
from tests.live.calls import until

OURS, THEIRS = "aaaaaaaaaaaa", "bbbbbbbbbbbb"


class Client:
    """In place of the web server's object: whether the client has left."""

    has_left = False


@pytest.fixture(autouse=True)
def exchanges_of_clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    class Exchange:
        def __init__(self, protocol: Client) -> None:
            self.is_abandoned = lambda: protocol.has_left

    monkeypatch.setattr(running_calls, "Exchange", Exchange)
    monkeypatch.setattr(running_calls, "_long_calls", running_calls._LongCalls())
    monkeypatch.setattr(running_calls, "ASK_SECONDS", 0.0)
    yield
    assert CURRENT_CALL.get() is None


def call(client: Client | None = None, *, request_id: str = "", caller: str = OURS) -> RunningCall:
    environ: dict[str, Any] = {"HTTP_X_REQUEST_ID": request_id or f"test-{os.urandom(8).hex()}"}
    return RunningCall(caller, environ if client is None else {**environ, PROTOCOL: client})


def test_a_call_goes_on_until_its_client_leaves() -> None:
    client = Client()
    with call(client) as running:
        end_if_unwanted()
        running.end_if_client_left()
        client.has_left = True
        with pytest.raises(ClientLeft):
            end_if_unwanted()
        with pytest.raises(ClientLeft):
            running.end_if_client_left()
    end_if_unwanted()  # no call of this thread any more


def test_work_of_nobody_goes_on() -> None:
    with RunningCall("", {}) as running:
        end_if_unwanted()
        assert not running.id, "nobody could cancel it"


def test_a_call_whose_result_others_wait_for_goes_on() -> None:
    client = Client()
    client.has_left = True
    with call(client) as running:
        running.others_wait = lambda: True
        end_if_unwanted()
        running.end_if_client_left()
        running.others_wait = lambda: False
        with pytest.raises(ClientLeft):
            end_if_unwanted()


def test_calls_with_one_request_id_and_access_token_are_cancelled_together() -> None:
    with call(request_id="same") as first:
        first.end_if_unwanted()
        with call(request_id="same") as second:
            second.end_if_unwanted()
            assert cancel_calls("same", caller=OURS)
            for each in (first, second):
                with pytest.raises(CallCancelled):
                    each.end_if_unwanted()


@pytest.mark.parametrize(
    ("request_id", "caller"),
    [("mine", THEIRS), ("mine", ""), ("other", OURS), ("min", OURS), ("m*", OURS), ("mine", f"{OURS}:mine")],
)
def test_nobody_else_cancels_it(request_id: str, caller: str) -> None:
    with call(request_id="mine") as running:
        running.end_if_unwanted()
        assert not cancel_calls(request_id, caller=caller)
        running.end_if_unwanted()


def test_a_colon_in_a_request_id_reaches_no_other_access_token() -> None:
    with call(request_id="c", caller=f"{OURS}") as running:
        running.end_if_unwanted()
        assert not cancel_calls(f"{OURS}:c", caller="")
        assert not cancel_calls("c", caller=f"{OURS}:")


def test_a_call_that_is_over_or_new_cannot_be_cancelled() -> None:
    with call(request_id="new") as running:
        assert not cancel_calls("new", caller=OURS)
        running.end_if_unwanted()
        assert cancel_calls("new", caller=OURS)
    assert not cancel_calls("new", caller=OURS)
    with call(request_id="new") as later:
        later.end_if_unwanted()  # the earlier wish was not for this one


def test_what_is_listed_expires() -> None:
    with call(request_id="expires") as running:
        running.end_if_unwanted()
        assert cancel_calls("expires", caller=OURS)
        names = [f"lqe:calls:{OURS}:expires", f"lqe:call-end:{running.id}"]
        assert all(0 < ask_for("TTL", name) <= running_calls.LISTED_SECONDS for name in names)


def test_without_redis_a_call_goes_on_and_leaving_still_counts(own_redis: OwnRedis, redis_not_met_yet: None) -> None:
    own_redis.kill()
    client = Client()
    with call(client, request_id="unlisted") as running:
        running.end_if_unwanted()
        with pytest.raises(CacheUnavailable):
            cancel_calls("unlisted", caller=OURS)
        client.has_left = True
        with pytest.raises(ClientLeft):
            running.end_if_unwanted()


# --- Flights ----------------------------------------------------------------------------------------------------------
RESULT = FlightResult(Outcome(b"{}", ResultFormat.JSON, 0, False, 0.0, 0.0), "etag", Role.RAN, shared=True)


@pytest.fixture
def flight() -> Flight:
    return Flight((ResultKey("e" * 32, 1, os.urandom(16).hex()), 0), seconds=60)


def follow(flight: Flight, client: Client, got: list[object], *, caller: str = THEIRS) -> threading.Thread:
    def run() -> None:
        with call(client, caller=caller):
            try:
                got.append(flight.follow(caller))
            except CallEnded as error:
                got.append(type(error))

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_a_leader_runs_on_for_its_followers_and_no_longer(flight: Flight) -> None:
    leader, follower = Client(), Client()
    got: list[object] = []
    leader.has_left = True

    def work() -> FlightResult:
        thread = follow(flight, follower, got)
        until(flight.is_awaited, seconds=10)
        end_if_unwanted()  # for the other one
        follower.has_left = True
        thread.join(10)
        end_if_unwanted()
        return RESULT

    with call(leader), pytest.raises(ClientLeft):
        flight.lead(work)
    assert got == [ClientLeft]


def test_who_came_while_the_leader_left_leads_next(flight: Flight) -> None:
    got: list[object] = []

    def work() -> FlightResult:
        threads.append(follow(flight, Client(), got))
        until(flight.is_awaited, seconds=10)
        raise ClientLeft

    threads: list[threading.Thread] = []
    with call(Client()), pytest.raises(ClientLeft):
        flight.lead(work)
    threads[0].join(10)
    assert got == [None]


def test_a_cancelled_leader_computes_on_for_another_access_token(flight: Flight) -> None:
    got: list[object] = []

    def work() -> FlightResult:
        threads.append(follow(flight, Client(), got))
        until(flight.is_awaited, seconds=10)
        end_if_unwanted()  # lists it
        assert cancel_calls("leader", caller=OURS)
        end_if_unwanted()
        return RESULT

    threads: list[threading.Thread] = []
    with call(request_id="leader"):
        assert flight.lead(work) is RESULT
    threads[0].join(10)
    assert [each.outcome for each in got] == [RESULT.outcome]  # type: ignore[attr-defined]


def test_a_leader_runs_on_for_another_process_that_waits(flight: Flight) -> None:
    lease = Lease("lqe:lease:test", os.urandom(16).hex())
    flight.lease = lease
    assert not flight.is_awaited()
    announce_wait(lease.owner)
    assert flight.is_awaited()
    until(lambda: not flight.is_awaited(), seconds=10)


def test_a_flight_that_ends_leaves_nothing_with_its_call(flight: Flight) -> None:
    with call() as running:
        flight.lead(lambda: RESULT)
        assert running.others_wait is None
    assert flights._flights == {} or flight not in flights._flights.values()
