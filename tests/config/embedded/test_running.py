"""The embedded servers as their user meets them: made, started, shared, stopped."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from config import embedded
from config.embedded import Servers, running
from config.embedded.postgres_server import PostgresServer
from config.embedded.state import load_secrets
from tests.config.installations import FAST, execute, kill, passwords, postmaster, redis_process, scalar
from tests.files import PROJECT
from tests.live.calls import until
from tests.live.processes import command_line

USER_OF_SERVERS = """
import signal
import sys
from pathlib import Path
from config import embedded
signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
with embedded.using(Path(sys.argv[1]), postgres=sys.argv[2] == "both", settings={"fsync": "off"}):
    print("up", flush=True)
    sys.stdin.readline()
"""


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
            assert scalar(url, "SELECT current_database()") == database
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
            execute(shared.logs_gate_url, "CREATE TEMP TABLE t ()")

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
        assert scalar(shared.superuser_url, f"SELECT current_setting('{setting}')") == value

    def test_text_sorts_by_code_point_and_knows_unicode_letters(self, shared: Servers) -> None:
        assert scalar(shared.database_url, "SELECT 'Z' < 'a' AND upper('é') = 'É'") is True

    def test_a_query_that_takes_all_memory_gets_an_error_and_the_server_lives(self, shared: Servers) -> None:
        with pytest.raises(psycopg.errors.OutOfMemory):
            scalar(shared.logs_gate_url, "SELECT length(repeat('x', 1000000000))")
        assert scalar(shared.logs_gate_url, "SELECT 1") == 1

    def test_redis_asks_for_the_password_and_never_evicts_queues(self, shared: Servers) -> None:
        with redis.Redis.from_url(str(shared.redis_url)) as client:
            assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "volatile-lru"}
        port = urlsplit(str(shared.redis_url)).port
        impatient = Retry(NoBackoff(), retries=0)
        with redis.Redis(port=port or 0, retry=impatient) as stranger, pytest.raises(redis.AuthenticationError):
            stranger.ping()

    def test_preparing_again_changes_nothing(self, shared: Servers, shared_root: Path) -> None:
        again = running.prepare_databases(str(shared.superuser_url), load_secrets(shared_root))
        assert again.environment().items() <= shared.environment().items()
        assert scalar(shared.logs_gate_url, "SELECT 1") == 1


class TestSecrets:
    def test_no_process_shows_a_password(self, shared_root: Path) -> None:
        lines = [" ".join(command_line(int(name))) for name in os.listdir("/proc") if name.isdigit()]
        assert any(str(PostgresServer(shared_root).sockets) in line for line in lines)
        drawn = passwords(shared_root)
        assert not [line for line in lines for value in drawn if value in line]

    def test_no_log_holds_a_password(self, shared: Servers, shared_root: Path) -> None:
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(str(shared.superuser_url), password="wrong")
        logs = [shared_root / "postgres.log", shared_root / "redis" / "redis.log"]
        text = "".join(log.read_text(encoding="utf-8") for log in logs)
        assert "password authentication failed" in text
        drawn = passwords(shared_root)
        assert not [value for value in drawn if value in text]

    @pytest.mark.parametrize("name", ["secrets.json", "redis/redis.log", "postgres.log"])
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
        execute(servers.database_url, "CREATE TABLE kept AS SELECT 42 AS answer")
        first = postmaster(root)
        assert embedded.ensure_running(root, redis=False) == servers == embedded.known_urls(root)
        assert postmaster(root) == first is not None

        embedded.stop(root)
        assert postmaster(root) is None
        assert embedded.known_urls(root) == servers
        assert scalar(embedded.ensure_running(root, redis=False).database_url, "SELECT answer FROM kept") == 42

    def test_redis_alone(self, root: Path) -> None:
        servers = embedded.ensure_running(root, postgres=False)
        assert list(servers.environment()) == ["REDIS_URL"]
        with redis.Redis.from_url(str(servers.redis_url)) as client:
            client.set("kept", "42")
        kill(redis_process(root))
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
        process_id = postmaster(root)
        assert process_id is not None
        for user in users:
            assert postmaster(root) == process_id
            user.communicate("leave\n", timeout=30)
            assert user.returncode == 0
        assert postmaster(root) is None


class TestSharing:
    def test_the_last_user_stops_the_servers(self, root: Path) -> None:
        other = _start_user(root, "redis")
        with embedded.using(root, postgres=False):
            process_id = redis_process(root)
        assert redis_process(root) == process_id is not None
        other.communicate("leave\n", timeout=30)
        assert redis_process(root) is None

    def test_a_killed_user_leaves_servers_that_the_next_one_reuses_and_stops(self, root: Path) -> None:
        other = _start_user(root, "redis")
        process_id = redis_process(root)
        other.kill()
        other.communicate()
        assert redis_process(root) == process_id is not None
        with embedded.using(root, postgres=False):
            assert redis_process(root) == process_id
        assert redis_process(root) is None

    def test_servers_are_stopped_when_their_user_fails(self, root: Path) -> None:
        with pytest.raises(ZeroDivisionError), embedded.using(root, postgres=False):
            1 / 0  # noqa: B018
        assert redis_process(root) is None

    def test_what_a_user_needs_beside_the_servers_of_another_is_started(self, root: Path) -> None:
        other = _start_user(root, "redis")
        process_id = redis_process(root)
        with embedded.using(root, settings=FAST) as servers:
            assert scalar(servers.logs_gate_url, "SELECT 1") == 1
            assert redis_process(root) == process_id
        assert postmaster(root) is not None
        other.communicate("leave\n", timeout=30)
        assert postmaster(root) is redis_process(root) is None

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_signal_while_they_are_started_leaves_nothing(self, root: Path, number: signal.Signals) -> None:
        user = subprocess.Popen(
            [sys.executable, "-c", USER_OF_SERVERS, str(root), "both"],
            cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        # From here on it holds the signals, and PostgreSQL is being made or started.
        until(lambda: (root / "postgres.log").exists(), seconds=30)
        user.send_signal(number)
        user.communicate(timeout=60)
        assert user.returncode != 0
        assert postmaster(root) is None
        assert redis_process(root) is None
        assert not PostgresServer(root).sockets.exists()


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
