"""Redis killed, stopped, full, emptied: every call goes on answering, and caching comes back by itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial

import pytest

from tests.live.calls import REACHES_EVERY_PROCESS, Answer, all_at_once, until
from tests.live.installation import Installation
from tests.live.servers import Servers

LABEL = {"label": "text"}
SLOWEST_SECONDS = 2.0
BACK_SECONDS = 5.0
FORGOTTEN_SECONDS = 0.15  # after which no process answers with what it was told before

Outage = Callable[[Servers], AbstractContextManager[None]]
each_outage = pytest.mark.parametrize("outage", [Servers.redis_killed, Servers.redis_frozen, Servers.redis_full])


def save_both(installation: Installation, name: str) -> tuple[str, str]:
    """Save an endpoint that caches and one that does not."""
    cached, plain = f"{name}.cached", f"{name}.plain"
    for endpoint, cache_seconds in ((cached, 600), (plain, 0)):
        sql = "SELECT logs.counted(@label, 0) AS label, 42 AS answer"
        installation.save(endpoint, sql, parameters=LABEL, cache_seconds=cache_seconds)
    return cached, plain


def body(label: str) -> bytes:
    return b'{"result":[{"label":"%s","answer":42}]}' % label.encode()


def call_all(installation: Installation, endpoint: str, labels: Sequence[str]) -> list[tuple[str, Answer]]:
    """Call with every label at the same moment, each on a connection of its own."""

    def call(label: str) -> tuple[str, Answer]:
        with installation.caller() as caller:
            return label, caller.query(endpoint, {"label": label})

    return all_at_once([partial(call, label) for label in labels])


@each_outage
def test_every_call_answers_while_redis_is_away_and_caching_comes_back(
    installation: Installation, name: str, outage: Outage
) -> None:
    cached, plain = save_both(installation, name)
    with installation.caller() as caller:
        caller.query(cached, {"label": "known"})
        assert caller.query(cached, {"label": "known"}).cache == "hit"
    answers: list[tuple[str, Answer]] = []
    with outage(installation.servers):
        time.sleep(FORGOTTEN_SECONDS)
        for turn in range(6):
            labels = ["known", *(f"new {turn} {number}" for number in range(11))]
            answers += call_all(installation, plain if turn % 2 else cached, labels)
    for label, answer in answers:
        assert (answer.status, answer.body) == (200, body(label))
    assert max(answer.seconds for _, answer in answers) < SLOWEST_SECONDS
    allowed = {"bypass", "hit"} if outage is Servers.redis_full else {"bypass"}
    assert {answer.cache for _, answer in answers} <= allowed

    def is_cached_again() -> bool:
        for _ in range(REACHES_EVERY_PROCESS):
            with installation.caller() as caller:
                if caller.query(cached, {"label": "afterwards"}).cache not in {"hit", "miss"}:
                    return False
        return True

    until(is_cached_again, seconds=BACK_SECONDS)
    with installation.caller() as caller:
        assert caller.query(cached, {"label": "afterwards"}).cache == "hit"
        assert caller.query(cached, {"label": "known"}).body == body("known")


@each_outage
def test_access_tokens_are_checked_while_redis_is_away(installation: Installation, name: str, outage: Outage) -> None:
    cached, plain = save_both(installation, name)
    console = installation.console
    secrets = {
        "revoked before": console.do("issue", name=f"{name} before"),
        "revoked meanwhile": console.do("issue", name=f"{name} meanwhile"),
        "limited": console.do("issue", name=f"{name} limited", endpoint_names=[plain]),
        "bound": console.do("issue", name=f"{name} bound", bound_arguments={"label": "own"}),
        "unknown": "lqe_" + "0" * 40,
    }
    for secret in secrets.values():
        with installation.caller(secret=secret) as caller:
            caller.query(plain, {"label": "own"})
    console.do("revoke", name=f"{name} before")

    def status(which: str, endpoint: str, label: str) -> int:
        statuses = set()
        for _ in range(4):
            with installation.caller(secret=secrets[which]) as caller:
                statuses.add(caller.query(endpoint, {"label": label}).status)
        assert len(statuses) == 1, statuses
        return statuses.pop()

    with outage(installation.servers):
        assert status("revoked before", plain, "own") == 401
        assert status("unknown", plain, "own") == 401
        assert (status("limited", plain, "own"), status("limited", cached, "own")) == (200, 404)
        assert (status("bound", cached, "own"), status("bound", cached, "another")) == (200, 403)
        assert status("revoked meanwhile", plain, "own") == 200
        console.do("revoke", name=f"{name} meanwhile")
        assert status("revoked meanwhile", plain, "own") == 401
    assert status("revoked meanwhile", plain, "own") == 401
    assert status("revoked before", plain, "own") == 401


def test_an_emptied_redis_is_filled_again(installation: Installation, name: str) -> None:
    cached, _ = save_both(installation, name)
    mark = installation.servers.mark()
    with installation.caller() as caller:
        assert caller.query(cached, {"label": name}).cache == "miss"
        assert caller.query(cached, {"label": name}).cache == "hit"
        with installation.servers.redis_emptied():
            time.sleep(FORGOTTEN_SECONDS)
            assert caller.query(cached, {"label": name}).cache == "miss"
        assert caller.query(cached, {"label": name}).cache == "hit"
    assert len(installation.servers.statements(mark, label=name)) == 2


def test_redis_dies_while_many_wait_for_one_runner(installation: Installation, name: str) -> None:
    installation.save(
        name,
        "SELECT logs.counted(@label, 0.8) AS label, 42 AS answer",
        parameters=LABEL,
        cache_seconds=600,
        statement_timeout_seconds=5,
    )
    mark = installation.servers.mark()

    with ThreadPoolExecutor(1) as pool:
        calls = pool.submit(call_all, installation, name, [name] * 14)
        until(lambda: bool(installation.servers.statements(mark, label=name)), seconds=5, pause=0.02)
        with installation.servers.redis_killed():
            answers = [answer for _, answer in calls.result()]
    assert {(answer.status, answer.body) for answer in answers} == {(200, body(name))}
    # One for each process at the most, besides the one that was running.
    assert len(installation.servers.statements(mark, label=name)) <= 3
    assert max(answer.seconds for answer in answers) < 4


@each_outage
def test_a_change_made_while_redis_was_away_counts_when_it_is_back(
    installation: Installation, name: str, outage: Outage
) -> None:
    installation.save(name, "SELECT 1 AS version", cache_seconds=600)
    secret = installation.console.do("issue", name=name)
    for each in (secret, installation.secret):
        for _ in range(REACHES_EVERY_PROCESS):
            with installation.caller(secret=each) as caller:
                assert caller.query(name).rows == [{"version": 1}]
    with outage(installation.servers):
        # Nobody calls meanwhile: no web process learns that Redis was away.
        installation.save(name, "SELECT 2 AS version", cache_seconds=600)
        installation.console.do("revoke", name=name)
    for _ in range(REACHES_EVERY_PROCESS):
        with installation.caller() as caller:
            assert caller.query(name).rows == [{"version": 2}]
        with installation.caller(secret=secret) as caller:
            assert caller.query(name).code == "not_authenticated"


def test_a_change_during_a_stall_of_redis_costs_nothing_later(installation: Installation, name: str) -> None:
    cached, _ = save_both(installation, name)
    with installation.servers.redis_frozen():
        installation.save(f"{name}.another", "SELECT 1 AS one", cache_seconds=0)

    def knows_the_endpoint_by_itself() -> bool:
        for _ in range(REACHES_EVERY_PROCESS):
            with installation.caller() as caller:
                if caller.query(cached, {"label": "known"}).cache not in {"hit", "miss"}:
                    return False
        return True

    until(knows_the_endpoint_by_itself, seconds=BACK_SECONDS)
    time.sleep(2)
    assert knows_the_endpoint_by_itself()
    # What every web process knows is relied on again, so nobody needs PostgreSQL.
    with installation.servers.postgres_killed():
        for _ in range(REACHES_EVERY_PROCESS):
            with installation.caller() as caller:
                answer = caller.query(cached, {"label": "known"})
                assert (answer.status, answer.cache) == (200, "hit")
