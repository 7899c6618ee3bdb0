"""An hour of an endpoint that caches for 15 minutes and is warmed every 5, at a hundredth of the time.

Real Redis, real beat, a real worker. The times are the contract's divided by 100: 900 s -> 9 s, 300 s -> 3 s, a caller
a minute -> every 0.6 s.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from threading import Event

import pytest

from tests.live.calls import Answer, until
from tests.live.installation import WARM_RESULTS, Installation
from tests.live.servers import CountedStatement

HOUR = 36.0
CACHE = 9
WARM = 3
POLL = 0.6
# Long enough to be seen as a wait when a caller had to run it itself.
QUERY_SECONDS = 0.25
LABEL = {"label": "text"}
ARGUMENT_SETS = 500
MOST_USED = 40  # fewer than a warm run renews
BURST_PAUSE = 1.0  # two warm runs are further apart


@pytest.fixture
def scheduled(installation: Installation) -> Iterator[Installation]:
    with installation.worker(), installation.beat():
        yield installation


def repeat(call: Callable[[], None], *, every: float, end: Event) -> None:
    due = time.monotonic()
    while not end.is_set():
        call()
        due += every
        end.wait(max(0.0, due - time.monotonic()))


def bursts(statements: list[CountedStatement]) -> list[list[CountedStatement]]:
    """Return the statements run by run."""
    runs: list[list[CountedStatement]] = []
    for statement in statements:
        if not runs or statement.second - runs[-1][-1].second > BURST_PAUSE:
            runs.append([])
        runs[-1].append(statement)
    return runs


def test_an_hour_with_a_regular_caller_an_abandoned_result_and_five_hundred_others(
    scheduled: Installation, name: str
) -> None:
    regular, crowded = f"{name}.regular", f"{name}.crowded"
    for endpoint, seconds, cache_seconds in ((regular, QUERY_SECONDS, CACHE), (crowded, 0, int(HOUR))):
        scheduled.save(
            endpoint,
            f"SELECT logs.counted(@label, {seconds}) AS label",
            parameters=LABEL,
            cache_seconds=cache_seconds,
            warm_every_seconds=WARM,
            statement_timeout_seconds=5,
        )
    assert scheduled.console.do("warming_seconds", name=regular) == [WARM]
    mark = scheduled.servers.mark()
    polls: list[Answer] = []
    end = Event()
    with scheduled.caller() as caller, scheduled.caller() as other, ThreadPoolExecutor(1) as pool:
        first = caller.query(regular, {"label": f"{name} kept"})
        assert first.cache == "miss"
        assert other.query(regular, {"label": f"{name} abandoned"}).cache == "miss"
        abandoned_at = time.time()
        polling = pool.submit(
            repeat, lambda: polls.append(caller.query(regular, {"label": f"{name} kept"})), every=POLL, end=end
        )
        popular = {f"{name} set {number}" for number in range(MOST_USED)}
        for number in range(ARGUMENT_SETS):
            assert other.query(crowded, {"label": f"{name} set {number}"}).status == 200
        for _ in range(3):
            for label in sorted(popular):
                other.query(crowded, {"label": label})
        asked_until = time.time()
        end.wait(HOUR - (asked_until - abandoned_at))
        end.set()
        polling.result()
    statements = scheduled.servers.statements(mark)

    assert len(polls) >= HOUR / POLL * 0.9
    assert {answer.body for answer in polls} == {first.body}
    states = Counter(answer.cache for answer in polls)
    assert states.keys() <= {"hit", "stale"}, states
    assert states["hit"] >= 0.95 * len(polls), states
    assert max(answer.seconds for answer in polls) < QUERY_SECONDS

    kept = [statement for statement in statements if statement.label == f"{name} kept"]
    # The caller's own and one for each run of the warmer, give or take the scheduler's second.
    assert HOUR / WARM - 3 <= len(kept) <= HOUR / WARM + 2, len(kept)

    abandoned = [statement.second for statement in statements if statement.label == f"{name} abandoned"]
    assert 2 <= len(abandoned) <= 2 + CACHE / WARM
    assert max(abandoned) < abandoned_at + CACHE + WARM

    runs = bursts([s for s in statements if s.label.startswith(f"{name} set") and s.second > asked_until + 1])
    assert len(runs) >= HOUR / WARM - 5
    assert max(map(len, runs)) <= WARM_RESULTS
    for run in runs[1:-1]:
        assert popular <= {statement.label for statement in run}
        assert len(run) == len({statement.label for statement in run}) == WARM_RESULTS
    gaps = [later[0].second - earlier[0].second for earlier, later in pairwise(runs)]
    assert max(gaps) < WARM + 2


def test_saving_the_endpoint_changes_its_schedule(scheduled: Installation, name: str) -> None:
    def save(warm_every_seconds: int) -> None:
        scheduled.save(
            name,
            "SELECT logs.counted(@label, 0) AS label",
            parameters=LABEL,
            cache_seconds=60,
            warm_every_seconds=warm_every_seconds,
        )

    def warmed_at() -> list[float]:
        return [statement.second for statement in scheduled.servers.statements(mark, label=name)]

    save(30)
    assert scheduled.console.do("warming_seconds", name=name) == [30]
    save(1)
    assert scheduled.console.do("warming_seconds", name=name) == [1]
    mark = scheduled.servers.mark()
    with scheduled.caller() as caller:
        assert caller.query(name, {"label": name}).status == 200
        time.sleep(1.1)
        assert caller.query(name, {"label": name}).status == 200  # so that what was asked for is written down
    until(lambda: len(warmed_at()) >= 4, seconds=12)
    save(0)
    assert scheduled.console.do("warming_seconds", name=name) == []
    time.sleep(0.5)  # a run under way
    before = len(warmed_at())
    time.sleep(3)
    assert len(warmed_at()) == before
