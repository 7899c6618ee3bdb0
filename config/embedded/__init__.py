"""A private PostgreSQL and Redis from wheels, for the demo and the tests; needs no Django.

Usage::

    with embedded.using(embedded.local_folder(project)) as servers:   # starts what is not running
        os.environ.update(servers.environment())
        ...                                                           # the last user stops the servers

All files are below one root folder (`.local` by default), but for the sockets, which are in `/tmp`, since a socket's
whole path has to fit 107 bytes (unix(7))::

    secrets.json    passwords, what runs; mode 0600     in-use.lock    see `running`
    postgres/       the cluster                         standby1/      a copy of it that follows it
    redis/          its append-only file
"""

from __future__ import annotations

from config.embedded.postgres_server import EmbeddedServerError
from config.embedded.running import ensure_running, local_folder, prepare_databases, stop, using
from config.embedded.state import Servers, known_urls

__all__ = [
    "EmbeddedServerError",
    "Servers",
    "ensure_running",
    "known_urls",
    "local_folder",
    "prepare_databases",
    "stop",
    "using",
]
