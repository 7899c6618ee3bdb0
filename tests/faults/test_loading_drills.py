"""Rows come in while processes are killed: none that was acknowledged is lost, none is there twice."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from threading import Event

import psycopg
import pytest

from tests.live import processes
from tests.live.calls import Answer, until
from tests.live.installation import Installation, free_port, wait_until_ready
from tests.live.processes import Process
from tests.live.servers import Servers
from tests.live.shipping import Shipper

SOURCE = "rest_logs"
FEWEST_KILLS = 3
MOST_KILLS = 30
BETWEEN_SECONDS = 0.7
SLOWEST_SECONDS = 2.0
WITHOUT = ((), ("id",), ("timestamp",), ("id", "timestamp"))

Outage = Callable[[Servers], AbstractContextManager[None]]


@pytest.fixture
def secret(installation: Installation, name: str) -> str:
    issued: str = installation.console.do("issue", name=name, may_load=True, no_endpoints=True)
    return issued


class Web:
    """A web server that can be killed, and comes back at the same port."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self.port = free_port()
        self._process = self._start()

    def kill(self) -> None:
        self._process.kill()

    def restart(self) -> None:
        self.kill()
        self._process = self._start()

    def _start(self) -> Process:
        process = self._installation.start(f"web-{self.port}", *processes.web_server(self.port, workers=2, threads=4))
        wait_until_ready(process, self.port)
        return process


@contextmanager
def web_server(installation: Installation) -> Iterator[Web]:
    web = Web(installation)
    try:
        yield web
    finally:
        web.kill()


def stored_messages(installation: Installation, name: str) -> Counter[str]:
    with psycopg.connect(str(installation.servers.urls.superuser_url)) as connection:
        rows = connection.execute(
            f"SELECT event_message, count(*) FROM logs.{SOURCE} WHERE starts_with(event_message, %s) GROUP BY 1",
            [name],
        )
        return Counter(dict(rows.fetchall()))


def kill_web(_: Installation, web: Web) -> None:
    web.restart()


def kill_postgres(installation: Installation, _: Web) -> None:
    with installation.servers.postgres_killed():
        time.sleep(0.2)


@pytest.mark.parametrize("kill", [kill_web, kill_postgres])
def test_a_kill_loses_no_acknowledged_row_and_doubles_none(
    installation: Installation, name: str, secret: str, kill: Callable[[Installation, Web], None]
) -> None:
    over = Event()
    with web_server(installation) as web, ThreadPoolExecutor(len(WITHOUT)) as pool:
        shippers = [
            Shipper(web.port, secret, name=f"{name} {number}", source=SOURCE, without=without)
            for number, without in enumerate(WITHOUT)
        ]
        running = [pool.submit(shipper.ship_while, lambda: not over.is_set()) for shipper in shippers]
        try:
            kills = 0
            # The drill means something only once answers were lost, and rows known again, for every kind of row.
            while kills < FEWEST_KILLS or not all(shipper.retries and shipper.known_again for shipper in shippers):
                for each in running:
                    if each.done():
                        each.result()  # it says what a shipper was refused
                assert kills < MOST_KILLS, [(shipper.retries, shipper.known_again) for shipper in shippers]
                time.sleep(BETWEEN_SECONDS)
                kill(installation, web)
                kills += 1
            time.sleep(BETWEEN_SECONDS)
        finally:
            over.set()
        for each in running:
            each.result()

    stored = stored_messages(installation, name)
    acknowledged = {message for shipper in shippers for message in shipper.acknowledged}
    assert acknowledged - stored.keys() == set()
    assert {message: times for message, times in stored.items() if times > 1} == {}
    assert stored.keys() - acknowledged == set()  # each batch was sent until it was acknowledged


# --- The database away ------------------------------------------------------------------------------------------------


def send(installation: Installation, secret: str) -> Answer:
    row = {"project": "acme", "event_message": "sent in an outage"}
    with installation.caller(secret=secret) as caller:
        return caller.request(
            "POST", f"/api/logs?source={SOURCE}", body=json.dumps(row).encode(), content_type="application/json"
        )


@pytest.mark.parametrize("outage", [Servers.postgres_killed, Servers.postgres_frozen, Servers.postgres_refusing])
def test_loads_are_put_off_soon_while_postgres_is_away(installation: Installation, secret: str, outage: Outage) -> None:
    until(lambda: all(send(installation, secret).status == 200 for _ in range(6)), seconds=5)
    with outage(installation.servers):
        answers = [send(installation, secret) for _ in range(8)]
    assert {(answer.status, answer.code) for answer in answers} == {(503, "database_unavailable")}
    assert all(int(answer.headers["retry-after"]) > 0 for answer in answers)
    assert max(answer.seconds for answer in answers) < SLOWEST_SECONDS
    until(lambda: all(send(installation, secret).status == 200 for _ in range(6)), seconds=5)


def test_a_load_under_way_ends_when_postgres_stops(installation: Installation, secret: str) -> None:
    assert send(installation, secret).status == 200
    superuser = psycopg.connect(str(installation.servers.urls.superuser_url))
    with ThreadPoolExecutor(1) as pool:
        superuser.execute(f"LOCK TABLE logs.{SOURCE} IN ACCESS EXCLUSIVE MODE")
        load = pool.submit(send, installation, secret)
        time.sleep(0.5)
        assert not load.done()
        frozen_at = time.monotonic()
        with installation.servers.postgres_frozen():
            assert load.result().code == "database_unavailable"
            assert time.monotonic() - frozen_at < SLOWEST_SECONDS
        superuser.close()
    until(lambda: send(installation, secret).status == 200, seconds=5)
