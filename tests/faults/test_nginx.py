"""The nginx of deploy/nginx in front of the service: slow clients stay with it, quick ones do not notice."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.faults.conftest import CACHED, PLAIN
from tests.faults.test_slow_clients import CONNECTIONS, MOST_SECONDS, SlowClients, kinds
from tests.live.installation import Installation
from tests.live.nginx import OF_COMPOSE, nginx

ATTACK_SECONDS = 4.0

pytestmark = pytest.mark.needs("nginx")


@pytest.fixture
def proxy_port(installation: Installation) -> Iterator[int]:
    with nginx(OF_COMPOSE, upstream=installation.port) as (port, _):
        yield port


def test_slow_clients_stay_with_the_proxy(installation: Installation, proxy_port: int) -> None:
    texts = kinds(installation.secret, installation.secret)
    slow = [texts[name] for name in ("login", "query", "load", "unknown_address")] * (CONNECTIONS // 4)
    seconds: list[float] = []
    with SlowClients(proxy_port, slow) as attack:
        deadline = time.monotonic() + ATTACK_SECONDS
        while time.monotonic() < deadline:
            with installation.caller(port=proxy_port) as caller:
                answers = [
                    caller.query(CACHED),
                    caller.request("GET", "/livez"),
                    caller.request(
                        "POST", f"/api/endpoints/query/{PLAIN}", body=b"{}", Content_Type="application/json"
                    ),
                ]
            assert [answer.status for answer in answers] == [200, 200, 200]
            seconds += [answer.seconds for answer in answers]
            time.sleep(0.02)
    assert max(seconds) < MOST_SECONDS
    # None of them has reached the service, which would have answered them.
    assert attack.statuses == {}


def test_a_request_line_of_32_kib_passes(installation: Installation, proxy_port: int) -> None:
    with installation.caller(port=proxy_port) as caller:
        path = f"/api/endpoints/query/{PLAIN}?ignored={'a' * 31_000}"
        assert caller.request("GET", path).status == 200


def test_metrics_are_not_for_everybody(installation: Installation, proxy_port: int) -> None:
    with installation.caller(port=proxy_port) as caller:
        assert caller.request("GET", "/metrics").status == 404
