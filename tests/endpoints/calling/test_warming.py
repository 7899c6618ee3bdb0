"""Warming renews what was asked for, most used first, within its budget, and leaves alone what fails."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django_celery_beat.models import PeriodicTask

from endpoints.cache import acquire, finish, slot, usage
from endpoints.cache.usage import asked
from endpoints.calling.calls import run_endpoint
from endpoints.calling.query_requests import Call
from endpoints.calling.warming import WarmRun, warm_endpoint
from endpoints.defining.saving import save_endpoint
from endpoints.defining.upkeep import WARMING_TASK, delete_endpoints, warming_schedule_name
from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter, ParameterType
from tests.endpoints.conftest import age_results

pytestmark = pytest.mark.django_db
SQL = "SELECT @key AS key, 10 / @divisor AS quotient, random()::text AS run"
PARAMETERS = [DeclaredParameter("key"), DeclaredParameter("divisor", type=ParameterType.INTEGER, default="1")]


@pytest.fixture
def endpoint(db: None) -> Endpoint:
    draft = Endpoint(name="test.warmed", sql=SQL, cache_seconds=60, warm_every_seconds=2)
    return save_endpoint(draft, PARAMETERS)


def call(key: str, **arguments: str) -> tuple[str, bytes]:
    served = run_endpoint("test.warmed", call=Call({"key": key, **arguments})).served
    return served.state.value, served.outcome.body


def warm(endpoint: Endpoint) -> WarmRun:
    asked.flush()
    return warm_endpoint(endpoint.pk)


def grow_old(endpoint: Endpoint) -> None:
    age_results(endpoint, seconds=2)  # more than half of warm_every_seconds: no longer fresh enough to be left alone


def test_renews_what_was_asked_for(endpoint: Endpoint) -> None:
    bodies = {key: call(key)[1] for key in "ab"}
    grow_old(endpoint)
    assert warm(endpoint).warmed == 2
    for key, body in bodies.items():
        state, renewed = call(key)
        assert state == "hit"
        assert renewed != body


def test_leaves_alone_what_another_runner_has_just_renewed(endpoint: Endpoint) -> None:
    call("a")
    assert (warm(endpoint).warmed, warm(endpoint).fresh_enough) == (0, 1)


def test_nobody_asked_so_nothing_runs(endpoint: Endpoint) -> None:
    assert warm(endpoint) == WarmRun(seconds=pytest.approx(0, abs=1))


def test_what_is_no_longer_asked_for_is_no_longer_warmed(endpoint: Endpoint) -> None:
    endpoint.cache_seconds, endpoint.warm_every_seconds = 2, 1
    save_endpoint(endpoint, PARAMETERS)
    call("a")
    time.sleep(1)
    assert warm(endpoint).warmed == 1
    time.sleep(1.1)
    assert warm(endpoint).warmed == 0


def test_the_most_used_come_first_within_the_number(endpoint: Endpoint, settings: Any) -> None:
    settings.ENDPOINTS_WARM_RESULTS = 2
    for key, uses in (("rare", 1), ("often", 3), ("most", 5)):
        for _ in range(uses):
            call(key)
    before = {key: call(key)[1] for key in ("rare", "often", "most")}
    grow_old(endpoint)
    assert warm(endpoint).warmed == 2
    renewed = {key for key, body in before.items() if call(key)[1] != body}
    assert renewed == {"often", "most"}


def test_stops_when_its_time_in_the_database_is_spent(endpoint: Endpoint, settings: Any) -> None:
    settings.ENDPOINTS_WARM_SECONDS = 2.0
    for key in "abcd":
        call(key)
    # The first takes less than all the time, however slow the machine is, and both more.
    Endpoint.objects.filter(pk=endpoint.pk).update(sql=SQL.replace("random()", "pg_sleep(1.1)"))
    grow_old(endpoint)
    run = warm(endpoint)
    assert (run.warmed, run.left_over) == (2, 2)


def test_a_failing_argument_set_keeps_its_entry_and_is_left_alone_for_a_while(endpoint: Endpoint) -> None:
    call("good")
    with pytest.raises(Exception, match="stored query failed"):
        call("bad", divisor="0")
    endpoint.sql = SQL.replace("@divisor", "(@divisor - 1)")
    endpoint.version -= 1
    Endpoint.objects.filter(pk=endpoint.pk).update(sql=endpoint.sql)  # as if the rows had changed under the query
    grow_old(endpoint)
    run = warm(endpoint)
    assert (run.warmed, run.failed) == (0, 1)
    assert call("good")[0] == "hit"
    assert warm(endpoint).backing_off == 1
    statistics = usage.statistics([endpoint.pk.hex])[endpoint.pk.hex]
    assert (statistics.warm_failures, statistics.last_error) == (1, "stored_query_failed")


def test_one_run_of_an_endpoint_at_a_time(endpoint: Endpoint) -> None:
    other = acquire(f"lqe:warmer:{endpoint.pk.hex}", seconds=10)
    assert other is not None
    assert "another run" in warm(endpoint).skipped_because
    finish(other)
    assert warm(endpoint).skipped_because == ""


def test_only_so_many_endpoints_at_a_time(endpoint: Endpoint, settings: Any) -> None:
    settings.ENDPOINTS_WARM_CONCURRENCY = 1
    place = slot(1, seconds=10)
    assert place is not None
    with place:
        assert "largest allowed number of endpoints" in warm(endpoint).skipped_because
    assert warm(endpoint).skipped_because == ""


def test_an_endpoint_that_is_gone_or_not_warmed_is_skipped(endpoint: Endpoint) -> None:
    endpoint.warm_every_seconds = 0
    save_endpoint(endpoint, PARAMETERS)
    assert "not warmed" in warm(endpoint).skipped_because
    delete_endpoints([Endpoint.objects.get(pk=endpoint.pk)])
    assert "not warmed" in warm_endpoint(endpoint.pk).skipped_because


def test_the_schedule_follows_the_setting(endpoint: Endpoint) -> None:
    def scheduled() -> list[tuple[str, int, str]]:
        tasks = PeriodicTask.objects.filter(name=warming_schedule_name(endpoint.pk))
        return [(task.task, task.interval.every, task.args) for task in tasks]

    arguments = f'["{endpoint.pk}"]'
    assert scheduled() == [(WARMING_TASK, 2, arguments)]
    endpoint.warm_every_seconds = 30
    save_endpoint(endpoint, PARAMETERS)
    assert scheduled() == [(WARMING_TASK, 30, arguments)]
    endpoint.warm_every_seconds = 0
    save_endpoint(endpoint, PARAMETERS)
    assert scheduled() == []
    endpoint.warm_every_seconds = 30
    save_endpoint(endpoint, PARAMETERS)
    delete_endpoints([endpoint])
    assert PeriodicTask.objects.filter(task=WARMING_TASK, name__contains="test.warmed").count() == 0


def test_the_shipped_endpoint_is_warmed_every_five_minutes(db: None) -> None:
    shipped = Endpoint.objects.get(name="usage.api-counts")
    task = PeriodicTask.objects.get(name=warming_schedule_name(shipped.pk))
    assert (task.interval.every, task.interval.period, task.enabled) == (300, "seconds", True)
