"""What manage.py sets up by itself, and when it starts nothing."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from config import local
from config.embedded.state import load_secrets
from config.local import needs_servers
from tests.files import PROJECT

OWN_SERVERS = {
    "DATABASE_URL": "postgresql://a@127.0.0.1:1/service",
    "LOGS_DATABASE_URL": "postgresql://b@127.0.0.1:1/logs",
    "LOGS_GATE_URL": "postgresql://c@127.0.0.1:1/logs",
    "REDIS_URL": "redis://127.0.0.1:1/0",
}
SETTINGS = (
    *OWN_SERVERS,
    "SECRET_KEY",
    "ALLOWED_HOSTS",
    "HTTPS_ONLY",
    "ENDPOINTS_PUBLIC_SCHEMA",
    "ENDPOINTS_METRICS_LOOPBACK",
    "DEBUG",
    "LOGS_SUPERUSER_URL",
)


def _manage(root: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run manage.py as a new user would: no settings but the ones given, its servers below a folder of its own."""
    inherited = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=PROJECT,
        env={**inherited, "ENDPOINTS_LOCAL_DIR": str(root), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "is_needed"),
    [
        ("", False),
        ("help", False),
        ("help migrate", False),
        ("--version", False),
        ("version", False),
        ("migrate --help", False),
        ("collectstatic --noinput", False),
        ("check --deploy", False),
        ("check --database default", True),
        ("check --database=logs", True),
        ("migrate", True),
        ("makemigrations --check", True),
        ("demo", True),
        ("run_query logs.all project=acme", True),
        ("spectacular", True),
    ],
)
def test_servers_are_for_the_commands_that_use_them(arguments: str, is_needed: bool) -> None:
    assert needs_servers(["manage.py", *arguments.split()]) is is_needed


def test_a_command_on_files_starts_nothing_and_writes_nothing(tmp_path: Path) -> None:
    done = _manage(tmp_path / "local", "check")
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "local").exists()


def test_production_still_asks_for_its_secret_key(tmp_path: Path) -> None:
    done = _manage(tmp_path, "check", **OWN_SERVERS)
    assert done.returncode != 0
    assert "SECRET_KEY must be set" in done.stderr


@pytest.fixture
def root() -> Iterator[Path]:
    # Not tmp_path: pytest closes its folders to other accounts, and root's servers run as another one.
    folder = Path(tempfile.mkdtemp(prefix="endpoints-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_a_command_works_on_servers_of_its_own_and_stops_them(root: Path) -> None:
    done = _manage(root, "shell", "--no-imports", "-c", "from django.db import connection as c; c.connect(); print(1)")
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
    assert not _listens(root)


def _listens(root: Path) -> bool:
    known = load_secrets(root)
    assert known is not None
    assert known.redis_port is not None
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", known.redis_port)) == 0


@pytest.mark.parametrize("given", [["DATABASE_URL"], ["LOGS_DATABASE_URL", "LOGS_GATE_URL"]])
def test_refuses_some_of_the_three_databases(tmp_path: Path, given: list[str]) -> None:
    done = _manage(tmp_path, "migrate", **{name: OWN_SERVERS[name] for name in given})
    missing = [name for name in local.DATABASE_VARIABLES if name not in given]
    assert done.returncode == 1
    assert done.stderr == f"manage.py: {', '.join(given)} is set, so {' and '.join(missing)} must be set too.\n"
    assert not list(tmp_path.iterdir())


def test_a_taken_port_ends_the_demo_in_one_line_before_anything_is_started(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = _manage(tmp_path / "local", "demo", "--port", str(port))
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"manage.py: Port {port} is used by another program: stop it, or choose another port "
        f"(make demo PORT={port + 1})."
    ]
    assert not (tmp_path / "local").exists()


@pytest.mark.parametrize("port", ["0", "65536", "-1"])
def test_refuses_what_is_no_port_number(tmp_path: Path, port: str) -> None:
    done = _manage(tmp_path / "local", "demo", f"--port={port}")
    assert done.returncode == 1
    assert "is not a port number" in done.stderr
    assert not (tmp_path / "local").exists()


@pytest.mark.parametrize("option", ["--port=near", "--replicas=many", "--replicas=-1"])
def test_the_demo_explains_what_is_no_number(tmp_path: Path, option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        free = f"--port={other.getsockname()[1]}"
    done = _manage(tmp_path, "demo", free, option, **OWN_SERVERS, SECRET_KEY="unused-" * 8)
    assert done.returncode != 0
    assert f"argument {option.partition('=')[0]}: " in done.stderr


def test_own_servers_are_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, url in OWN_SERVERS.items():
        monkeypatch.setenv(name, url)
    monkeypatch.setenv("ENDPOINTS_LOCAL_DIR", str(tmp_path / "local"))
    with local.servers_for(["manage.py", "migrate"], PROJECT):
        assert os.environ["DATABASE_URL"] == OWN_SERVERS["DATABASE_URL"]
    assert not (tmp_path / "local").exists()


def test_refuses_replicas_of_a_postgres_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, url in OWN_SERVERS.items():
        monkeypatch.setenv(name, url)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
    demo = ["manage.py", "demo", "--replicas", "1", "--port", str(port)]
    with pytest.raises(SystemExit, match="--replicas is for the embedded"), local.servers_for(demo, PROJECT):
        pass


def test_refuses_some_of_the_databases_before_asking_for_the_port(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in OWN_SERVERS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LOGS_GATE_URL", "postgresql://c@127.0.0.1:1/logs")
    with pytest.raises(SystemExit, match="DATABASE_URL"), local.servers_for(["manage.py", "demo"], PROJECT):
        pass
