"""A pytest plugin (`-p tests.servers`): real servers for the suite, up before Django's settings load.

DATABASE_URL, LOGS_DATABASE_URL and LOGS_GATE_URL together, and REDIS_URL, name servers of one's own; what is unset is
started below `.local/tests`, with its data kept between runs and not forced to disk. LOGS_SUPERUSER_URL is the log
database's superuser, for the tests of what only a superuser can do.
"""

from __future__ import annotations

import atexit
import os
import secrets
from contextlib import ExitStack
from pathlib import Path

from config import embedded
from config.embedded.databases import allow_test_databases

PROJECT = Path(__file__).resolve().parent.parent
DATABASE_VARIABLES = ("DATABASE_URL", "LOGS_DATABASE_URL", "LOGS_GATE_URL")
# A crash of the machine may cost the test data; nothing else is different from the demo's server.
FAST_SETTINGS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


def start_servers() -> None:
    """Start the servers that the environment does not name, and name them there until this process ends."""
    given = [name for name in DATABASE_VARIABLES if os.environ.get(name)]
    missing = [name for name in DATABASE_VARIABLES if name not in given]
    if given and missing:
        raise RuntimeError(f"Set {', '.join(missing)} too, or none of {', '.join(DATABASE_VARIABLES)}.")
    needs_redis = not os.environ.get("REDIS_URL")
    if not missing and not needs_redis:
        return
    stack = ExitStack()
    atexit.register(stack.close)
    servers = stack.enter_context(
        embedded.using(
            embedded.local_folder(PROJECT) / "tests",
            postgres=bool(missing),
            redis=needs_redis,
            settings=FAST_SETTINGS,
        )
    )
    os.environ.update(servers.environment())
    if servers.superuser_url is not None:
        allow_test_databases(servers.superuser_url)
        os.environ["LOGS_SUPERUSER_URL"] = servers.superuser_url


os.environ.setdefault("SECRET_KEY", secrets.token_urlsafe(50))
os.environ.setdefault("HTTPS_ONLY", "false")
start_servers()
