"""A pytest plugin (`-p tests.servers`): real servers for the suite, up before Django's settings load.

DATABASE_URL, LOGS_DATABASE_URL and LOGS_GATE_URL together, and REDIS_URL, name servers of one's own; what is unset is
started below `.local/tests`, with its data kept between runs and not forced to disk. LOGS_SUPERUSER_URL is the log
database's superuser, for the tests of what only a superuser can do.

With `--numprocesses` each worker of pytest-xdist has a PostgreSQL and a Redis of its own, because roles belong to a
whole PostgreSQL server and every test empties its Redis. With `--postgres=FOLDER` the PostgreSQL is the one of that
folder of programs, on a new cluster.
"""

from __future__ import annotations

import atexit
import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from config import embedded
from config.embedded.postgres_server import PostgresServer
from tests.citus_database import VARIABLE, citus_database
from tests.installed_postgres import allow_test_databases, installed_postgres

PROJECT = Path(__file__).resolve().parent.parent
DATABASE_VARIABLES = ("DATABASE_URL", "LOGS_DATABASE_URL", "LOGS_GATE_URL")
# A crash of the machine may cost the test data; nothing else is different from the demo's server.
# The PostgreSQL that this process has started, to give it a standby; none if the environment names one.
SUITE_POSTGRES = pytest.StashKey[PostgresServer]()
FAST_SETTINGS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--postgres",
        metavar="FOLDER",
        default=None,
        # With a blank pytest takes the folder for one of tests, and looks for its configuration there.
        help="run on the PostgreSQL of this folder of programs instead of the embedded one: "
        "--postgres=/usr/lib/postgresql/15/bin",
    )

    parser.addoption("--citus", action="store_true", help=f"put the log database on the cluster of {VARIABLE}")


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Iterator[None]:
    """Start the servers before pytest-django loads the settings, which name them."""
    options = early_config.known_args_namespace
    os.environ.setdefault("SECRET_KEY", secrets.token_urlsafe(50))
    os.environ.setdefault("HTTPS_ONLY", "false")
    # Empty, whatever was collected in this tree: pages of the suite name files as they are.
    static_files = embedded.local_folder(PROJECT) / "tests" / "static"
    static_files.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("STATIC_ROOT", str(static_files))
    if not _leads_workers(options.numprocesses):
        _start_servers(early_config, Path(options.postgres) if options.postgres else None)
    elif named := [name for name in (*DATABASE_VARIABLES, "REDIS_URL") if os.environ.get(name)]:
        raise pytest.UsageError(f"{', '.join(named)} name servers for one process: run the tests with WORKERS=0.")
    return (yield)


def _leads_workers(processes: int | None) -> bool:
    """Tell whether this process only hands tests to workers, and needs no servers itself."""
    return bool(processes) and "PYTEST_XDIST_WORKER" not in os.environ


def _start_servers(config: pytest.Config, programs: Path | None) -> None:
    """Start the servers that the environment does not name, and name them there until this process ends."""
    given = [name for name in DATABASE_VARIABLES if os.environ.get(name)]
    missing = [name for name in DATABASE_VARIABLES if name not in given]
    if given and missing:
        raise pytest.UsageError(f"Set {', '.join(missing)} too, or none of {', '.join(DATABASE_VARIABLES)}.")
    if given and programs:
        raise pytest.UsageError(f"Either --postgres or {', '.join(given)}: both name a PostgreSQL.")
    needs_redis = not os.environ.get("REDIS_URL")
    if not missing and not needs_redis:
        return
    stack = ExitStack()
    atexit.register(stack.close)
    if programs:
        config.stash[SUITE_POSTGRES], variables = stack.enter_context(installed_postgres(programs, FAST_SETTINGS))
        os.environ.update(variables)
        missing = []
    folder = embedded.local_folder(PROJECT) / "tests" / os.environ.get("PYTEST_XDIST_WORKER", "")
    servers = stack.enter_context(
        embedded.using(folder, postgres=bool(missing), redis=needs_redis, settings=FAST_SETTINGS)
    )
    os.environ.update(servers.environment())
    if servers.superuser_url is not None:
        config.stash[SUITE_POSTGRES] = PostgresServer(folder)
        allow_test_databases(servers.superuser_url)
        os.environ["LOGS_SUPERUSER_URL"] = servers.superuser_url
    if config.known_args_namespace.citus:
        os.environ.update(stack.enter_context(citus_database(os.environ[VARIABLE])))
