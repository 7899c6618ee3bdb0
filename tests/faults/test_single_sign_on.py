"""A provider that hangs: few threads wait for it, and calls are answered as if nobody wanted to log in."""

from __future__ import annotations

import http.client
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.faults.test_login_flood import SLOWEST_CALL_SECONDS, calls_meanwhile
from tests.live.calls import PATIENCE_SECONDS, Answer, all_at_once
from tests.live.identity_provider import IdentityProvider
from tests.live.installation import Installation
from tests.live.processes import frozen

LOGINS = 32


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider() as provider:
        yield provider


@pytest.fixture(scope="module")
def port(running_installation: Installation, provider: IdentityProvider) -> Iterator[int]:
    with running_installation.another_web(workers=1, threads=16, **provider.environment) as (_, port):
        yield port


def click(port: int) -> Answer:
    """Follow "Log in with …", on a connection of its own."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)) as connection:
        started = time.monotonic()
        connection.request("GET", "/admin/sso/")
        response = connection.getresponse()
        answered = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, answered, response.read(), time.monotonic() - started)


def test_a_provider_that_hangs_holds_up_no_call(
    installation: Installation, port: int, provider: IdentityProvider
) -> None:
    with frozen([provider.process_id]), calls_meanwhile(installation, port) as calls:
        answers = all_at_once([lambda: click(port)] * LOGINS)
    statuses = Counter(answer.status for answer in answers)
    assert statuses.keys() == {503}
    # 30 if the provider did not respond, 2 if too many waited for it, 1 if the web server had no thread.
    assert {answer.headers["retry-after"] for answer in answers} <= {"1", "2", "30"}
    assert {answer.status for answer in calls} == {200}
    assert max(answer.seconds for answer in calls) < SLOWEST_CALL_SECONDS
