"""The clock of one machine is wrong, or steps: no result lives longer or shorter for it, none is forgotten."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.live.calls import Answer, until
from tests.live.installation import Installation

LABEL = {"label": "text"}
CACHE_SECONDS = 3
pytestmark = pytest.mark.needs("libfaketime")
STEPS = ["+3600", "-3600", "+0"]  # seconds; the last one is a step too, back to the true time


def faketime_library() -> str:
    """Debian's libfaketime, preloaded: the wall clock is wrong, the monotonic one is not, as after a step of NTP."""
    return str(min(Path("/usr/lib").glob("*/faketime/libfaketime.so.1")))


@pytest.fixture
def step(tmp_path: Path) -> Callable[[str], None]:
    """Set how many seconds the wrong clock is ahead."""
    file = tmp_path / "step"
    file.write_text("+0")

    def write(seconds: str) -> None:
        new = tmp_path / "new"
        new.write_text(seconds)
        os.replace(new, file)  # whoever reads it meanwhile reads one or the other

    return write


@pytest.fixture
def wrong_port(installation: Installation, tmp_path: Path, step: Callable[[str], None]) -> Iterator[int]:
    """Another web server of the installation, under the wrong clock."""
    with installation.another_web(
        LD_PRELOAD=faketime_library(),
        FAKETIME_TIMESTAMP_FILE=str(tmp_path / "step"),
        FAKETIME_NO_CACHE="1",
        FAKETIME_DONT_FAKE_MONOTONIC="1",
    ) as (_, port):
        yield port


def ask(installation: Installation, endpoint: str, label: str, port: int | None = None) -> Answer:
    with installation.caller(port=port) as caller:
        answer = caller.query(endpoint, {"label": label})
    assert (answer.status, answer.rows) == (200, [{"label": label, "answer": 42}])
    return answer


def logged_ahead(installation: Installation, port: int) -> float:
    """Return how far the newest log line of a web server is ahead of the true time, in seconds."""
    lines = (installation.servers.root / f"web-{port}.log").read_text().splitlines()
    moments = [found[1] for line in lines if (found := re.search(r'"timestamp":"([^"]+)"', line))]
    return (datetime.fromisoformat(moments[-1]) - datetime.now(UTC)).total_seconds()


def test_a_result_lives_as_long_as_it_should_under_every_clock(
    installation: Installation, name: str, wrong_port: int, step: Callable[[str], None]
) -> None:
    sql = "SELECT logs.counted(@label, 0) AS label, 42 AS answer"
    installation.save(name, sql, parameters=LABEL, cache_seconds=CACHE_SECONDS)
    for number, seconds in enumerate(STEPS):
        step(seconds)
        label = f"{name} {number}"
        mark = installation.servers.mark()
        answers = [ask(installation, name, label, port) for port in (wrong_port, None, wrong_port, None)]
        assert [answer.cache for answer in answers] == ["miss", "hit", "hit", "hit"]
        assert {answer.headers["etag"] for answer in answers} == {answers[0].headers["etag"]}
        assert all(0 <= int(answer.headers["age"]) <= 1 for answer in answers[1:])
        assert abs(logged_ahead(installation, wrong_port) - float(seconds)) < 60  # the clock is really wrong
        time.sleep(CACHE_SECONDS + 0.5)
        assert len(installation.servers.statements(mark, label=label)) == 1
        assert ask(installation, name, label, wrong_port).cache != "hit"
        until(lambda: ask(installation, name, label).cache == "hit", seconds=2)  # noqa: B023  # ends within the turn
        assert len(installation.servers.statements(mark, label=label)) == 2


def test_what_is_asked_for_stays_worth_warming_whatever_the_clocks_say(
    installation: Installation, name: str, wrong_port: int, step: Callable[[str], None]
) -> None:
    sql = "SELECT logs.counted(@label, 0) AS label, 42 AS answer"
    installation.save(name, sql, parameters=LABEL, cache_seconds=600, warm_every_seconds=300)
    labels = [f"{name} {number}" for number in range(len(STEPS) + 1)]
    ask(installation, name, labels[0])
    for seconds, label in zip(STEPS, labels[1:], strict=True):
        step(seconds)
        ask(installation, name, label, wrong_port)
        time.sleep(1.2)  # notes are written once a second
    run = installation.console.do("warm", name=name)
    assert (run["fresh_enough"], run["warmed"], run["failed"]) == (len(labels), 0, 0)
