"""Tests whether a server process of the log database has a memory limit: by trying, since no setting shows it.

It is a limit of the operating system (docs/production.md, "Memory of PostgreSQL"). If there is none, the
test takes over a gigabyte for a moment, so the service itself never runs it; `check_sandbox` does.
"""

from __future__ import annotations

from typing import Final

from psycopg import errors

from endpoints.guarantees.probes import LogDatabase
from logsources.roles import SANDBOX_READER

# format() asks for a gigabyte at once, would fill so much of it and copy that: 1.6 GiB. A limit of 1 GiB refuses this
# before a byte is written. The text does not go through the checker, which refuses such widths.
TRIED_CHARACTERS: Final = 600_000_000
MISSING: Final = (
    "a query of 40 characters got over a gigabyte of memory; set a limit for one server process where PostgreSQL is"
    " started: LimitDATA=1G in its systemd unit, `ulimits: data` in docker-compose.yml, or `ulimit -d 1048576` in the"
    " shell"
)


def memory_limit(logs: LogDatabase) -> list[str]:
    """Return the findings after sandbox_reader asked for far more memory than a query needs."""
    try:
        with logs.gate.transaction(force_rollback=True):
            logs.gate.execute("SELECT set_config('role', %s, true)", [SANDBOX_READER])
            logs.gate.execute("SELECT pg_catalog.length(pg_catalog.format(%s, ''))", [f"%{TRIED_CHARACTERS}s"])
    except errors.OutOfMemory:
        return []
    return [MISSING]
