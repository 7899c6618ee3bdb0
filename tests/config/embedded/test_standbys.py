"""Standbys of the embedded PostgreSQL: copied from it anew at each start, following it, stopped with it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from config import embedded
from config.embedded import EmbeddedServerError, Servers
from config.embedded.postgres_server import PostgresServer
from tests.config.installations import FAST, clean_up, execute, kill, passwords, postmaster, scalar
from tests.live import processes
from tests.live.replicated import Replicated, server_processes

IS_STANDBY = "SELECT pg_is_in_recovery()"


class Pair(Replicated):
    """The servers of a root folder with a standby."""

    def __init__(self, root: Path) -> None:
        self.root = root
        # Without FAST's synchronous_commit: a commit that is not waited for may be lost with its server.
        settings = {name: value for name, value in FAST.items() if name != "synchronous_commit"}
        self.urls = embedded.ensure_running(root, redis=False, replicas=1, settings=settings)
        super().__init__(PostgresServer(root), str(self.urls.superuser_url))

    def start(self, *, replicas: int = 1) -> Servers:
        return embedded.ensure_running(self.root, redis=False, replicas=replicas)

    def write(self, number: int) -> None:
        execute(self.primary_url, f"CREATE TABLE IF NOT EXISTS kept (n int); INSERT INTO kept VALUES ({number})")

    def kept(self) -> object:
        """Return what the standby shows of what was written, when it has replayed everything."""
        self.caught_up()
        return scalar(self.standby_url, "SELECT array_agg(n ORDER BY n) FROM kept")


@pytest.fixture(scope="module")
def shared_pair() -> Iterator[Pair]:
    folder = Path(tempfile.mkdtemp(prefix="endpoints it's "))
    folder.chmod(0o755)
    yield Pair(folder)
    clean_up(folder)


@pytest.fixture
def pair(shared_pair: Pair) -> Pair:
    """One pair for most tests, since each start puts it in order again."""
    shared_pair.start()
    execute(shared_pair.primary_url, "DROP TABLE IF EXISTS kept")
    return shared_pair


def _standby_process(root: Path) -> int | None:
    return processes.postmaster(PostgresServer(root, "standby1"))


class TestUrls:
    def test_gate_prefers_the_standby_and_falls_back_to_the_primary(self, pair: Pair) -> None:
        gate = pair.urls.logs_gate_url
        assert scalar(gate, IS_STANDBY) is True
        kill(_standby_process(pair.root))
        assert scalar(gate, IS_STANDBY) is False

    def test_only_the_gate_url_names_the_standby(self, pair: Pair) -> None:
        urls = pair.urls
        for url in (urls.database_url, urls.logs_database_url, urls.superuser_url):
            assert "standby" not in str(url)
            assert scalar(url, IS_STANDBY) is False
        query = parse_qs(urlsplit(str(urls.logs_gate_url)).query)
        assert query["host"] == [f"{pair.standby.sockets},{pair.primary.sockets}"]
        assert query["target_session_attrs"] == ["prefer-standby"]

    def test_known_urls_are_those_of_the_last_start(self, pair: Pair) -> None:
        assert embedded.known_urls(pair.root) == pair.urls
        embedded.stop(pair.root)
        assert embedded.known_urls(pair.root) == pair.urls
        assert pair.start() == pair.urls
        embedded.stop(pair.root)
        alone = pair.start(replicas=0)
        assert embedded.known_urls(pair.root) == alone
        assert "standby" not in str(alone.logs_gate_url)

    def test_two_standbys_come_in_the_order_of_their_numbers(self, pair: Pair) -> None:
        gate = str(pair.start(replicas=2).logs_gate_url)
        assert gate.index("-standby1,") < gate.index("-standby2,")
        kill(_standby_process(pair.root))
        with psycopg.connect(gate) as connection:
            assert connection.info.host.endswith("-standby2")
        embedded.stop(pair.root)


class TestStartAndStop:
    def test_an_older_cluster_gets_a_standby_with_its_rows(self, root: Path) -> None:
        servers = embedded.ensure_running(root, redis=False, settings=FAST)
        execute(servers.logs_database_url, "CREATE TABLE kept AS SELECT 42 AS answer")
        execute(servers.logs_database_url, "GRANT SELECT ON kept TO PUBLIC")
        gate = embedded.ensure_running(root, redis=False, replicas=1).logs_gate_url
        assert scalar(gate, "SELECT answer FROM kept WHERE pg_is_in_recovery()") == 42

    def test_a_running_standby_is_reused(self, pair: Pair) -> None:
        before = _standby_process(pair.root)
        assert pair.start() == pair.urls
        assert _standby_process(pair.root) == before is not None

    def test_without_replicas_a_running_standby_stays_up_for_its_other_user(self, pair: Pair) -> None:
        before = _standby_process(pair.root)
        assert pair.start(replicas=0) == pair.urls
        assert _standby_process(pair.root) == before is not None

    def test_without_replicas_none_is_started(self, pair: Pair) -> None:
        embedded.stop(pair.root)
        pair.start(replicas=0)
        assert _standby_process(pair.root) is None

    def test_stop_stops_all_and_a_start_copies_the_primary_anew(self, pair: Pair) -> None:
        pair.write(1)
        embedded.stop(pair.root)
        assert postmaster(pair.root) is None
        assert _standby_process(pair.root) is None
        (pair.root / "standby1" / "of the last start").touch()
        pair.start()
        pair.write(2)
        assert pair.kept() == [1, 2]
        assert not (pair.root / "standby1" / "of the last start").exists()

    def test_a_standby_has_the_limits_of_its_primary(self, pair: Pair) -> None:
        execute(pair.primary_url, "ALTER SYSTEM SET max_connections = 120")
        embedded.stop(pair.root)
        pair.start()
        pair.write(1)
        assert pair.kept() == [1]
        execute(pair.primary_url, "ALTER SYSTEM RESET max_connections")
        embedded.stop(pair.root)

    def test_the_last_user_stops_the_standby_too(self, root: Path) -> None:
        with embedded.using(root, redis=False, replicas=1, settings=FAST) as servers:
            assert scalar(servers.logs_gate_url, IS_STANDBY) is True
        assert _standby_process(root) is None
        assert not PostgresServer(root, "standby1").sockets.exists()


class TestAfterADeath:
    def test_a_killed_standby_is_made_anew_and_follows(self, pair: Pair) -> None:
        with psycopg.connect(pair.standby_url, autocommit=True):
            kill(_standby_process(pair.root))
            pair.write(1)
            pair.start()
            assert pair.kept() == [1]

    def test_a_standby_follows_a_primary_that_was_killed(self, pair: Pair) -> None:
        before = _standby_process(pair.root)
        processes.kill(server_processes(pair.primary))
        assert scalar(pair.urls.logs_gate_url, IS_STANDBY) is True
        pair.start()
        pair.write(1)
        assert pair.kept() == [1]
        assert _standby_process(pair.root) == before

    def test_both_killed(self, pair: Pair) -> None:
        pair.write(1)
        processes.kill(server_processes(pair.primary))
        processes.kill(server_processes(pair.standby))
        pair.start()
        assert pair.kept() == [1]


def test_a_primary_that_permits_no_standby_says_so(root: Path) -> None:
    embedded.ensure_running(root, redis=False, settings={**FAST, "max_wal_senders": "0"})
    with pytest.raises(EmbeddedServerError, match=r"pg_basebackup failed.*\n.*max_wal_senders"):
        embedded.ensure_running(root, redis=False, replicas=1)


def test_nothing_of_a_standby_shows_a_password(pair: Pair) -> None:
    lines = [" ".join(processes.command_line(int(name))) for name in os.listdir("/proc") if name.isdigit()]
    assert any("standby1" in line for line in lines)
    shown = [*lines, (pair.root / "standby1.log").read_text(encoding="utf-8")]
    assert not [text for text in shown for value in passwords(pair.root) if value in text]
    for path in (pair.standby.data, pair.standby.log, pair.standby.sockets):
        assert path.stat().st_mode & 0o077 == 0
