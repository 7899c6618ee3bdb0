"""An installation with a standby, which is killed, frozen, held back and promoted while callers load and read."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from urllib.parse import quote

import pytest

from tests.live.calls import Answer, Caller, until
from tests.live.installation import Installation
from tests.live.servers import Servers

SOURCE = "rest_logs"
SQL = f"SELECT count(*) AS rows FROM {SOURCE} WHERE starts_with(event_message, @prefix)"
CALLERS = 3
LOADS = 100  # of each caller, where nothing happens to the servers
BEFORE_SECONDS = 0.5
OUTAGE_SECONDS = 2.0
BACK_SECONDS = 5.0
READY_SECONDS = 20.0

Outage = Callable[[Servers], AbstractContextManager[None]]


@pytest.fixture(scope="module")
def pair() -> Iterator[Installation]:
    with Installation(replicas=1) as installation:
        for name, cache_seconds in (("rows.plain", 0), ("rows.cached", 600)):
            installation.save(name, SQL, parameters={"prefix": "text"}, cache_seconds=cache_seconds)
        yield installation


@pytest.fixture
def installation(pair: Installation) -> Installation:
    """The installation with a standby that takes calls, whatever the drill before has done to it."""
    pair.servers.start()
    pair.wait_until_ready()
    until(lambda: all(pair.server_states() == ["serves", "serves"] for _ in range(12)), seconds=READY_SECONDS)
    return pair


@pytest.fixture
def shipper(pair: Installation, name: str) -> str:
    secret: str = pair.console.do("issue", name=name, may_load=True)
    return secret


@dataclass
class LoadAndRead:
    """A caller: it loads a row, and at once counts every row it loaded: by no-cache, then plainly from the cache."""

    port: int
    secret: str
    prefix: str
    endpoint: str
    loaded: int = 0
    reads: int = 0
    stale: list[tuple[int, int]] = field(default_factory=list)  # rows that were there, and rows that it was shown
    refused: list[tuple[float, str]] = field(default_factory=list)  # when, and the code

    def once(self, caller: Caller) -> None:
        self._load(caller)
        for headers in ({"cache_control": "no-cache"}, {}) if self.is_cached else ({"cache_control": "no-cache"},):
            answer = caller.query(self.endpoint, {"prefix": self.prefix}, **headers)
            if self._is_refused(answer):
                return
            self.reads += 1
            if answer.rows[0]["rows"] != self.loaded:
                self.stale.append((self.loaded, answer.rows[0]["rows"]))

    @property
    def is_cached(self) -> bool:
        return self.endpoint == "rows.cached"

    def until_over(self, over: threading.Event) -> None:
        while not over.is_set():
            with Caller(self.port, self.secret) as caller:
                self.once(caller)

    def _load(self, caller: Caller) -> None:
        """Load the next row until it is acknowledged: an equal body never doubles it."""
        row = {"project": "acme", "event_message": f"{self.prefix} {self.loaded}"}
        while True:
            answer = caller.request(
                "POST", f"/api/logs?source={SOURCE}", body=json.dumps(row).encode(), content_type="application/json"
            )
            if not self._is_refused(answer):
                self.loaded += 1
                return
            time.sleep(0.05)

    def _is_refused(self, answer: Answer) -> bool:
        if answer.status == 200:
            return False
        assert answer.status == 503, answer.body
        self.refused.append((time.monotonic(), answer.code))
        return True


def callers(installation: Installation, secret: str, name: str, *, port: int | None = None) -> list[LoadAndRead]:
    return [
        LoadAndRead(port or installation.port, secret, f"{name}.{number}.", ("rows.plain", "rows.cached")[number % 2])
        for number in range(CALLERS)
    ]


def test_a_read_after_a_load_is_never_stale(installation: Installation, shipper: str, name: str) -> None:
    running = callers(installation, shipper, name)

    def go_on(each: LoadAndRead) -> None:
        with Caller(each.port, each.secret) as caller:
            for _ in range(LOADS):
                each.once(caller)

    with ThreadPoolExecutor(CALLERS) as pool:
        list(pool.map(go_on, running))
    assert [(each.stale, each.refused) for each in running] == [([], [])] * CALLERS
    assert [each.reads for each in running] == [LOADS * (1 + each.is_cached) for each in running]


def test_a_plain_call_may_see_older_rows(installation: Installation, shipper: str, name: str) -> None:
    with installation.servers.replay_paused(), Caller(installation.port, shipper) as caller:
        each = LoadAndRead(installation.port, shipper, name, "rows.plain")
        each.once(caller)
        assert each.stale == []
        # The primary may answer too, while the standby's pool still connects; long before it counts as behind.
        until(lambda: caller.query("rows.plain", {"prefix": name}).rows == [{"rows": 0}], seconds=5)


@pytest.mark.parametrize("outage", [Servers.standby_killed, Servers.standby_frozen, Servers.replay_paused])
def test_nobody_is_refused_or_shown_old_rows_whatever_happens_to_the_standby(
    installation: Installation, shipper: str, name: str, outage: Outage
) -> None:
    over = threading.Event()
    running = callers(installation, shipper, name)
    with ThreadPoolExecutor(CALLERS) as pool:
        futures = [pool.submit(each.until_over, over) for each in running]
        try:
            time.sleep(BEFORE_SECONDS)
            with outage(installation.servers):
                time.sleep(OUTAGE_SECONDS)
            back_at = time.monotonic()
            until(lambda: installation.server_states() == ["serves", "serves"], seconds=READY_SECONDS)
            recovered_after = time.monotonic() - back_at
            time.sleep(BEFORE_SECONDS)
        finally:
            over.set()
        for future in futures:
            future.result()
    assert [(each.stale, each.refused) for each in running] == [([], [])] * CALLERS
    assert recovered_after < BACK_SECONDS


def test_a_promoted_standby_is_the_primary_without_a_restart(
    installation: Installation, shipper: str, name: str
) -> None:
    servers = installation.servers
    over = threading.Event()
    with installation.another_web(**_both_hosts(servers)) as (_, port):
        running = callers(installation, shipper, name, port=port)
        for each in running:
            with Caller(each.port, each.secret) as caller:
                each.once(caller)
        until(lambda: installation.server_states(port=port) == ["serves", "serves"], seconds=READY_SECONDS)
        servers.caught_up()
        with servers.postgres_killed(), ThreadPoolExecutor(CALLERS) as pool:
            futures = [pool.submit(each.until_over, over) for each in running]
            try:
                time.sleep(BEFORE_SECONDS)
                servers.promote_standby()
                promoted_at = time.monotonic()
                time.sleep(BACK_SECONDS + 2 * BEFORE_SECONDS)
            finally:
                over.set()
            for future in futures:
                future.result()
    assert [each.stale for each in running] == [[]] * CALLERS
    assert all(each.reads > 1 for each in running)
    late = [
        (at - promoted_at, code) for each in running for at, code in each.refused if at > promoted_at + BACK_SECONDS
    ]
    assert late == []


def _both_hosts(servers: Servers) -> dict[str, str]:
    """Return the variables of a service whose databases may move to the standby."""
    hosts = f"{quote(str(servers.standby.sockets))},"
    urls = {"DATABASE_URL": servers.urls.database_url, "LOGS_DATABASE_URL": servers.urls.logs_database_url}
    return {
        name: str(url).replace("?host=", f"?host={hosts}") + "&target_session_attrs=read-write"
        for name, url in urls.items()
    }
