"""Debian's PgBouncer in front of the suite's PostgreSQL, in any of its modes."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any, Final

import psycopg

from config.embedded.postgres_server import account
from tests.live.calls import until
from tests.live.installation import free_port

PGBOUNCER: Final = "/usr/sbin/pgbouncer"
SESSION, TRANSACTION, STATEMENT = MODES = ("session", "transaction", "statement")
START_SECONDS: Final = 30.0


@contextmanager
def pgbouncer(mode: str, login: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Run it for a login of a server, given as libpq's parameters; yield its host and port."""
    folder = Path(tempfile.mkdtemp(prefix="pgbouncer-"))
    folder.chmod(0o755)
    address = {"host": "127.0.0.1", "port": str(free_port())}
    passwords = folder / "passwords"
    passwords.write_text(f'"{login["user"]}" "{login["password"]}"\n')
    settings = f"""
        [databases]
        * = host={login["host"]} port={login.get("port") or 5432}
        [pgbouncer]
        listen_addr = {address["host"]}
        listen_port = {address["port"]}
        unix_socket_dir =
        auth_type = scram-sha-256
        auth_file = {passwords}
        pool_mode = {mode}
        ignore_startup_parameters = options
    """
    file = folder / "pgbouncer.ini"
    file.write_text(dedent(settings))
    runner: dict[str, Any] = {}
    if entry := account():  # PgBouncer refuses root too
        runner = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    process = subprocess.Popen([PGBOUNCER, "--quiet", file], cwd="/", stderr=subprocess.DEVNULL, **runner)
    try:
        until(lambda: _answers({**login, **address}), seconds=START_SECONDS, pause=0.02)
        yield address
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder)


def _answers(parameters: Mapping[str, Any]) -> bool:
    try:
        psycopg.connect(**{name: value for name, value in parameters.items() if name != "options"}).close()
    except psycopg.OperationalError:
        return False
    return True
