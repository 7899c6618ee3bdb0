"""Standbys of the embedded PostgreSQL: made, stopped and started with it, following it, made anew when they cannot."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from config import embedded
from config.embedded import EmbeddedServerError, Servers, places
from config.embedded.postgres_server import PostgresServer
from config.embedded.standbys import made_standbys
from config.embedded.state import load_listening, load_secrets
from tests.config.installations import FAST, clean_up, execute, kill, postmaster, scalar
from tests.live.replicated import Replicated, frozen_server

IS_STANDBY = "SELECT pg_is_in_recovery()"
MADE_ANEW = "cannot follow its primary and is made anew"


class Pair(Replicated):
    """The servers of a root folder with a standby."""

    def __init__(self, root: Path) -> None:
        self.root = root
        # Without FAST's synchronous_commit: a commit that is not waited for may be lost with its server.
        settings = {name: value for name, value in FAST.items() if name != "synchronous_commit"}
        self.urls = embedded.ensure_running(root, redis=False, replicas=1, settings=settings)
        super().__init__(PostgresServer(places.find_place(root.resolve())), str(self.urls.superuser_url))

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
    return PostgresServer(places.find_place(root.resolve()), "standby1").process_id()


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
        folder = pair.root.resolve()
        assert query["host"] == [f"{folder}/run-standby1,{folder}/run"]
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
        assert gate.index("run-standby1,") < gate.index("run-standby2,")
        kill(_standby_process(pair.root))
        assert scalar(gate, "SELECT current_setting('cluster_name') ~ 'standby2$'") is True
        embedded.stop(pair.root)
        shutil.rmtree(pair.root / "standby2")

    def test_a_long_path_gets_every_socket_elsewhere(self, root: Path) -> None:
        servers = embedded.ensure_running(root / ("long-" * 20), redis=False, replicas=1, settings=FAST)
        [folder] = load_listening(root / ("long-" * 20)).standby_socket_folders
        try:
            assert scalar(servers.logs_gate_url, IS_STANDBY) is True
            assert len(os.fsencode(Path(folder) / ".s.PGSQL.5432")) <= 103
        finally:
            embedded.stop(root / ("long-" * 20))
            shutil.rmtree(Path(folder).parent)


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

    def test_without_replicas_the_folder_of_a_stopped_standby_stays(self, pair: Pair) -> None:
        embedded.stop(pair.root)
        pair.start(replicas=0)
        assert _standby_process(pair.root) is None
        pair.write(1)
        assert pair.standby.exists()
        pair.start()
        assert pair.kept() == [1]

    def test_stop_stops_all_and_a_start_goes_on_where_they_were(
        self, pair: Pair, caplog: pytest.LogCaptureFixture
    ) -> None:
        pair.write(1)
        embedded.stop(pair.root)
        assert postmaster(pair.root) is None
        assert _standby_process(pair.root) is None
        pair.start()
        pair.write(2)
        assert pair.kept() == [1, 2]
        assert MADE_ANEW not in caplog.text

    def test_a_standby_takes_over_the_limits_of_its_primary(self, pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
        execute(pair.primary_url, "ALTER SYSTEM SET max_connections = 120")
        embedded.stop(pair.root)
        pair.start()
        pair.write(1)
        assert pair.kept() == [1]
        assert MADE_ANEW not in caplog.text
        execute(pair.primary_url, "ALTER SYSTEM RESET max_connections")
        embedded.stop(pair.root)

    def test_the_last_user_stops_the_standby_too(self, root: Path) -> None:
        with embedded.using(root, redis=False, replicas=1, settings=FAST) as servers:
            assert scalar(servers.logs_gate_url, IS_STANDBY) is True
        assert _standby_process(root) is None


class TestAfterADeath:
    def test_a_killed_standby_is_started_again_and_follows(self, pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
        with psycopg.connect(pair.standby_url, autocommit=True):
            kill(_standby_process(pair.root))
            pair.write(1)
            pair.start()
            assert pair.kept() == [1]
        assert MADE_ANEW not in caplog.text

    def test_a_standby_follows_a_primary_that_was_killed(self, pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
        before = _standby_process(pair.root)
        kill(postmaster(pair.root))
        assert scalar(pair.urls.logs_gate_url, IS_STANDBY) is True
        pair.start()
        pair.write(1)
        assert pair.kept() == [1]
        assert _standby_process(pair.root) == before
        assert MADE_ANEW not in caplog.text

    def test_both_killed(self, pair: Pair) -> None:
        pair.write(1)
        kill(postmaster(pair.root))
        kill(_standby_process(pair.root))
        pair.start()
        assert pair.kept() == [1]


class TestMadeAnew:
    @pytest.fixture(autouse=True)
    def made_anew(self, pair: Pair, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
        """Every test breaks the standby; the next start says that it makes it anew, and it follows."""
        pair.write(1)
        yield
        caplog.clear()
        pair.start()
        assert MADE_ANEW in caplog.text
        pair.write(2)
        assert pair.kept() == [1, 2]

    def test_after_a_promotion(self, pair: Pair) -> None:
        pair.promote_standby()
        execute(pair.standby_url, "INSERT INTO kept VALUES (-1)")

    def test_after_a_promotion_and_a_stop(self, pair: Pair) -> None:
        pair.promote_standby()
        embedded.stop(pair.root)

    def test_when_the_primary_has_removed_its_wal(self, pair: Pair) -> None:
        embedded.stop(pair.root)
        pair.start(replicas=0)
        _write_and_remove_wal(pair)

    def test_when_it_runs_and_the_primary_has_removed_its_wal(self, pair: Pair) -> None:
        with frozen_server(pair.standby):
            # Without its connection the primary no longer waits for it.
            execute(pair.primary_url, "SELECT pg_terminate_backend(pid) FROM pg_stat_replication")
            _write_and_remove_wal(pair)

    def test_when_half_of_it_is_missing(self, pair: Pair) -> None:
        embedded.stop(pair.root)
        shutil.rmtree(pair.standby.data / "global")

    def test_when_it_is_empty(self, pair: Pair) -> None:
        embedded.stop(pair.root)
        shutil.rmtree(pair.standby.data)
        pair.standby.data.mkdir()

    def test_when_the_primary_is_another_cluster(self, pair: Pair) -> None:
        embedded.stop(pair.root)
        shutil.rmtree(pair.root / "postgres")
        pair.start(replicas=0)
        pair.write(1)


def _write_and_remove_wal(pair: Pair) -> None:
    """Begin new WAL segments on the primary, and let it remove those that it does not need itself."""
    for _ in range(3):
        execute(pair.primary_url, "CREATE TABLE written (); DROP TABLE written")
        execute(pair.primary_url, "SELECT pg_switch_wal()")
        execute(pair.primary_url, "CHECKPOINT")


def test_an_interrupted_copy_counts_for_nothing(root: Path) -> None:
    (root / "standby1.1.partial" / "base").mkdir(parents=True)
    root.chmod(0o755)
    servers = embedded.ensure_running(root, redis=False, replicas=1, settings=FAST)
    assert scalar(servers.logs_gate_url, IS_STANDBY) is True
    assert not list(root.glob("*.partial"))
    assert [standby.name for standby in made_standbys(places.find_place(root.resolve()))] == ["standby1"]


def test_a_primary_that_permits_no_standby_says_so(root: Path) -> None:
    embedded.ensure_running(root, redis=False, settings={**FAST, "max_wal_senders": "0"})
    with pytest.raises(EmbeddedServerError, match=r"pg_basebackup failed.*\n.*max_wal_senders"):
        embedded.ensure_running(root, redis=False, replicas=1)
    assert not (root / "standby1").exists()


def test_nothing_of_a_standby_shows_a_password(pair: Pair) -> None:
    secrets = load_secrets(pair.root)
    processes = [" ".join(places.command_line(int(name))) for name in os.listdir("/proc") if name.isdigit()]
    assert any("standby1" in line for line in processes)
    shown = [*processes, (pair.root / "standby1.log").read_text(encoding="utf-8")]
    assert not [text for text in shown for item in fields(secrets) if getattr(secrets, item.name) in text]
    for name in ("standby1", "standby1.log", "standby.pgpass", "run-standby1"):
        assert (pair.root / name).stat().st_mode & 0o077 == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the servers as another account")
def test_a_standby_lies_where_its_primary_does(root: Path) -> None:
    root.mkdir(mode=0o700)
    servers = embedded.ensure_running(root / "local", redis=False, replicas=1, settings=FAST)
    outside = places.find_place((root / "local").resolve()).folder
    try:
        assert outside.parent == places.OUTSIDE_FOLDER
        assert (outside / "standby1" / "standby.signal").exists()
        assert scalar(servers.logs_gate_url, IS_STANDBY) is True
    finally:
        clean_up(root / "local")
    assert not outside.exists()
