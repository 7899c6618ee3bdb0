"""A private PostgreSQL and Redis from wheels, for the demo and the tests; needs no Django.

All files are below one root folder (`.local` by default), but for the sockets, which are in `/tmp`, since a socket's
whole path has to fit 107 bytes (unix(7)). `secrets.json` has the passwords and what runs.
"""

from __future__ import annotations

from config.embedded.postgres_server import EmbeddedServerError as EmbeddedServerError
from config.embedded.running import ensure_running as ensure_running
from config.embedded.running import local_folder as local_folder
from config.embedded.running import prepare_databases as prepare_databases
from config.embedded.running import stop as stop
from config.embedded.running import using as using
from config.embedded.state import Servers as Servers
from config.embedded.state import known_urls as known_urls
