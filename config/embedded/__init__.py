"""A private PostgreSQL and Redis from wheels, for the demo and the tests; needs no Django.

Usage::

    with embedded.using(embedded.local_folder(project)) as servers:   # starts what is not running
        os.environ.update(servers.environment())
        ...                                                           # the last user stops the servers

All files are below one root folder (`.local` by default)::

    secrets.json     passwords, mode 0600                 servers.json   socket folder, Redis port
    postgres/        the cluster                          redis/         append-only file, redis.conf (0600)
    run/             PostgreSQL's Unix socket             *.lock         flock files, see `running`
    standby1/        a standby, see `standbys`
"""

from __future__ import annotations

from config.embedded.places import EmbeddedServerError
from config.embedded.running import ensure_running, known_urls, local_folder, prepare_databases, stop, using
from config.embedded.state import Servers

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
