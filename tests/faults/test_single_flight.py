"""One statement for everybody who asks for the same at the same moment, over both web processes and all threads."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.faults.conftest import CACHED
from tests.live.calls import Answer, Caller, all_at_once
from tests.live.installation import Installation

CALLERS = 300
SLOW = "SELECT logs.counted(@label, 0.5) AS label, 42 AS answer"
FAILING = "SELECT logs.counted(@label, 0.5, true) AS label"
ENDLESS = "SELECT logs.counted(@label, 30) AS label"
LABEL = {"label": "text"}


@pytest.fixture
def crowd(installation: Installation) -> Iterator[list[Caller]]:
    """Callers whose connections are open, and reach both web processes."""
    with ExitStack() as stack:
        callers = [stack.enter_context(installation.caller()) for _ in range(CALLERS)]
        for caller in callers:
            assert caller.request("GET", "/livez").status == 200
        shares = installation.connections_per_worker()
        assert len(shares) == 2
        assert min(shares.values()) >= CALLERS / 10, shares
        yield callers


def call_at_once(crowd: list[Caller], endpoint: str) -> list[Answer]:
    return all_at_once([lambda caller=caller: caller.query(endpoint, {"label": endpoint}) for caller in crowd])


def errors_without_request_id(answers: list[Answer]) -> Counter[str]:
    return Counter(
        str({name: value for name, value in answer.error.items() if name != "request_id"}) for answer in answers
    )


def test_the_counter_counts(installation: Installation, name: str) -> None:
    installation.save(name, "SELECT logs.counted(@label, 0) AS label", parameters=LABEL, cache_seconds=0)
    mark = installation.servers.mark()
    for number in range(30):
        with installation.caller() as caller:
            assert caller.query(name, {"label": f"{name} {number % 3}"}).cache == "bypass"
    labels = Counter(statement.label for statement in installation.servers.statements(mark, label=name))
    assert labels == {f"{name} {n}": 10 for n in range(3)}


def test_three_hundred_cold_callers_make_one_statement(
    installation: Installation, crowd: list[Caller], name: str
) -> None:
    installation.save(name, SLOW, parameters=LABEL, cache_seconds=600, statement_timeout_seconds=10)
    mark = installation.servers.mark()
    answers = call_at_once(crowd, name)
    assert {answer.status for answer in answers} == {200}
    assert {answer.body for answer in answers} == {b'{"result":[{"label":"%s","answer":42}]}' % name.encode()}
    assert len(installation.servers.statements(mark, label=name)) == 1
    # Those in the 32 threads have waited for the run; the others came to a thread when it was over.
    states = Counter(answer.cache for answer in answers)
    assert states.keys() == {"miss", "hit"}
    assert 2 <= states["miss"] <= 40, states
    assert {answer.cache for answer in call_at_once(crowd[:20], name)} == {"hit"}
    assert len(installation.servers.statements(mark, label=name)) == 1


def test_every_thread_of_many_waits_for_the_same_statement(installation: Installation, name: str) -> None:
    installation.save(name, SLOW, parameters=LABEL, cache_seconds=600, statement_timeout_seconds=10)
    # More than there are threads: whoever gets one may wait, even where all of a process wait for one result.
    everybody = {"ENDPOINTS_WAITING_CALLS": "40"}
    with installation.another_web(workers=2, threads=30, **everybody) as (_, port), ExitStack() as stack:
        callers = [stack.enter_context(installation.caller(port=port)) for _ in range(150)]
        for caller in callers:  # each process reads what it has to know about the access token, and connects
            assert caller.query(CACHED).status == 200
        mark = installation.servers.mark()
        answers = call_at_once(callers, name)
    assert Counter((answer.status, answer.code) for answer in answers) == {(200, ""): 150}
    assert len({answer.body for answer in answers}) == 1
    assert len(installation.servers.statements(mark, label=name)) == 1
    # How many come in time to wait is the machine's; more than the eight of each process that may by default.
    assert Counter(answer.cache for answer in answers)["miss"] > 2 * 8


@pytest.mark.parametrize(
    ("sql", "status", "code"),
    [
        pytest.param(FAILING, 500, "stored_query_failed", id="a query that fails"),
        pytest.param(ENDLESS, 504, "query_timeout", id="a query that takes too long"),
    ],
)
def test_a_failure_is_shared_by_everybody_who_waits_and_then_forgotten(
    installation: Installation, crowd: list[Caller], name: str, sql: str, status: int, code: str
) -> None:
    installation.save(name, sql, parameters=LABEL, cache_seconds=600, statement_timeout_seconds=1)
    mark = installation.servers.mark()
    # As many as there are threads: who comes to a thread later asks anew, since errors are never cached.
    answers = call_at_once(_one_per_thread(installation, crowd), name)
    assert {(answer.status, answer.code) for answer in answers} == {(status, code)}
    assert len(errors_without_request_id(answers)) == 1
    assert len({answer.error["request_id"] for answer in answers}) == len(answers)
    assert len(installation.servers.statements(mark, label=name)) == 1
    time.sleep(0.2)
    with installation.caller() as caller:
        assert caller.query(name, {"label": name}).code == code
    assert len(installation.servers.statements(mark, label=name)) == 2


def _one_per_thread(installation: Installation, crowd: list[Caller]) -> list[Caller]:
    """Return callers of which each web process has as many as may wait for one result, and the one who runs it."""
    for caller in crowd:
        caller.close()
    chosen: list[Caller] = []
    for caller in crowd:
        caller.request("GET", "/livez")
        if max(installation.connections_per_worker().values()) > 8:
            caller.close()
        else:
            chosen.append(caller)
        if len(chosen) == 14:
            break
    assert min(installation.connections_per_worker().values()) >= 2
    return chosen
