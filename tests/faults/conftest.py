"""One installation for all drills, in order again before each of them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.live.calls import REACHES_EVERY_PROCESS, until
from tests.live.installation import Installation
from tests.live.processes import OperatorError

CACHED, PLAIN = "drill.pulse.cached", "drill.pulse.plain"


@pytest.fixture(scope="session")
def running_installation() -> Iterator[Installation]:
    with Installation() as installation:
        yield installation


@pytest.fixture
def installation(running_installation: Installation) -> Installation:
    """The installation, in order whatever the drill before has done to it."""
    running_installation.servers.start()
    with running_installation.servers.redis_emptied():
        running_installation.wait_until_ready()
    until(lambda: _can_save(running_installation), seconds=60)
    until(lambda: _is_in_order(running_installation), seconds=60)
    return running_installation


@pytest.fixture
def name() -> str:
    """The name of an endpoint that only this test uses."""
    return f"drill.{uuid.uuid4().hex[:12]}"


def _can_save(installation: Installation) -> bool:
    with suppress(OperatorError):
        installation.save(CACHED, "SELECT 1 AS one", cache_seconds=600)
        installation.save(PLAIN, "SELECT 1 AS one", cache_seconds=0)
        return True
    return False


def _is_in_order(installation: Installation) -> bool:
    """Tell whether every web process answers from PostgreSQL and from the cache; so many connections reach them all."""
    for _ in range(REACHES_EVERY_PROCESS):
        with installation.caller() as caller:
            answers = [caller.query(endpoint) for endpoint in (PLAIN, CACHED)]
        if any(answer.status != 200 for answer in answers) or answers[1].cache == "bypass":
            return False
    return True
