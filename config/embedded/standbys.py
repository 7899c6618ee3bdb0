"""Streaming standbys of the private PostgreSQL: copied from it, started, made anew when they cannot follow it any more.

A standby lies beside its primary, in the same place::

    standby1/        its copy of the cluster         run-standby1/    its Unix socket
    standby1.log     its log                         standby.pgpass   the superuser's password, for all (0600)

The primary keeps no replication slot for it: a standby that nobody starts for weeks would fill the disk with WAL. One
whose WAL is gone is copied again instead.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, LiteralString

from config.embedded.places import EmbeddedServerError, Place, last_lines
from config.embedded.postgres_server import PostgresServer
from config.embedded.state import SUPERUSER

if TYPE_CHECKING:
    import psycopg

logger = logging.getLogger(__name__)

FOLLOW_SECONDS = 60  # The standby first fetches and replays everything that was written since it last ran.
CONNECT_SECONDS = 5
STREAMS: LiteralString = "SELECT FROM pg_stat_replication WHERE application_name = %s AND state = 'streaming'"

SETTINGS: Mapping[str, str] = {
    # Replay stops for a query in its way, such as one on a partition that retention drops, and all rows get older
    # meanwhile. After so long the query is cancelled (40001), and a caller can repeat it on the primary.
    "max_standby_streaming_delay": "5s",
    # Else a vacuum on the primary cancels queries that still see the rows it removes. The price is that the primary
    # keeps such rows longer: no longer than a query's statement timeout.
    "hot_standby_feedback": "on",
    "wal_retrieve_retry_interval": "1s",  # so soon it follows a primary that was restarted
}
# Replay stops for ever if one of these is lower than on the primary (PostgreSQL documentation, "Hot Standby").
AT_LEAST_THE_PRIMARYS = (
    *("max_connections", "max_locks_per_transaction", "max_prepared_transactions"),
    *("max_wal_senders", "max_worker_processes"),
)

_NAME = re.compile(r"standby[1-9][0-9]*")
# A walreceiver's last words when its primary refuses, in contrast to those when the primary has gone away.
_REFUSAL = re.compile(
    r"FATAL:  (could not (?:receive data from|start) WAL stream: ERROR: .*|highest timeline .*|database system id.*)"
)


def made_standbys(place: Place) -> list[PostgresServer]:
    """Return the standbys of a place that were made, whether they run or not, in the order of their numbers."""
    names = [folder.name for folder in place.folder.glob("standby*") if _NAME.fullmatch(folder.name)]
    return [PostgresServer(place, name) for name in sorted(names, key=lambda name: (len(name), name))]


def ensure_standbys(place: Place, primary_url: str, count: int) -> tuple[str, ...]:
    """Let the first `count` standbys of a place follow its primary; return the socket folders of all that run.

    Others that run already, for another user of the servers, are left as they are. Raises EmbeddedServerError.
    """
    wanted = [PostgresServer(place, f"standby{number + 1}") for number in range(count)]
    folders = [ensure_following(standby, primary_url) for standby in wanted]
    others = [standby for standby in made_standbys(place) if standby not in wanted]
    folders += [standby.sockets() for standby in others if standby.process_id() is not None]
    return tuple(map(str, folders))


def ensure_following(standby: PostgresServer, primary_url: str) -> Path:
    """Let a standby run and stream from its primary, and return the folder of its socket.

    It is made first if it does not exist, and made anew if it cannot follow: it was promoted, its primary is another
    cluster by now or has removed WAL that it needs, or it does not start. `primary_url` is the superuser's, by the
    primary's socket. Raises EmbeddedServerError.
    """
    import psycopg  # Slow to import, and known_urls() does not need it.

    try:
        with psycopg.connect(primary_url, autocommit=True, connect_timeout=CONNECT_SECONDS) as primary:
            if standby.data.exists():
                try:
                    return _follow(standby, primary)
                except EmbeddedServerError as error:
                    logger.warning("A standby cannot follow its primary and is made anew: %s", error)
            _copy(standby, primary)
            return _follow(standby, primary)
    except psycopg.Error as error:
        raise EmbeddedServerError(f"The primary of {standby.data} does not answer: {error}") from error


def _follow(standby: PostgresServer, primary: psycopg.Connection[Any]) -> Path:
    # Its own promotion removes this file.
    if not standby.exists() or not (standby.data / "standby.signal").exists():
        raise EmbeddedServerError(f"{standby.data} is no whole copy, or was promoted to be a primary itself.")
    if standby.process_id() is None:
        # The primary may have moved, and got other settings, since the copy was made.
        settings = {name: _setting(primary, name) for name in AT_LEAST_THE_PRIMARYS}
        standby.start({**SETTINGS, **settings, "primary_conninfo": _primary_conninfo(standby, primary)})
    log_start = standby.log.stat().st_size
    deadline = time.monotonic() + FOLLOW_SECONDS
    # A standby's walreceiver names itself after its cluster.
    while primary.execute(STREAMS, [standby.cluster_name]).rowcount == 0:
        with standby.log.open("rb") as log:
            log.seek(log_start)
            refusal = _REFUSAL.search(log.read().decode(errors="replace"))
        if refusal is not None:
            raise EmbeddedServerError(f"{standby.log} says: {refusal[1]}")
        if standby.process_id() is None or time.monotonic() > deadline:
            raise EmbeddedServerError(
                f"The standby does not stream from its primary; the end of {standby.log}:\n{last_lines(standby.log)}"
            )
        time.sleep(0.05)
    return standby.sockets()


def _copy(standby: PostgresServer, primary: psycopg.Connection[Any]) -> None:
    """Copy the running primary; an interrupted attempt leaves nothing that counts."""
    standby.stop()
    for remains in standby.place.folder.glob(f"{standby.name}.*.partial"):
        shutil.rmtree(remains, ignore_errors=True)
    # A pg_basebackup whose starter was killed goes on for a while: two must never write into the same folder.
    partial = standby.place.make_folder(standby.data.with_name(f"{standby.name}.{os.getpid()}.partial"))
    command: list[str | Path] = [standby.program("pg_basebackup"), "--pgdata", partial]
    command += ["--dbname", _primary_conninfo(standby, primary), "--no-password"]
    command += ["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast"]
    command += ["--no-sync"] if _setting(primary, "fsync") == "off" else []
    made = standby.place.run(command)
    if made.returncode != 0:
        output = "\n".join(made.stderr.strip().splitlines()[-8:])
        raise EmbeddedServerError(f"PostgreSQL's pg_basebackup failed in {standby.place.folder}:\n{output}")
    if standby.data.exists():
        shutil.rmtree(standby.data)
    partial.replace(standby.data)


def _primary_conninfo(standby: PostgresServer, primary: psycopg.Connection[Any]) -> str:
    """Write the password to a file, and return what everybody on the machine may read: the rest."""
    from psycopg.conninfo import make_conninfo

    # Any host, port and database: all of them are this primary's. A password from Secrets needs no escapes.
    line = f"*:*:*:{SUPERUSER}:{primary.info.password}\n"
    passwords = standby.place.write_file(standby.place.folder / "standby.pgpass", line)
    host, port = primary.info.host, primary.info.port
    return make_conninfo(user=SUPERUSER, host=host, port=port, passfile=str(passwords))


def _setting(connection: psycopg.Connection[Any], name: str) -> str:
    [(value,)] = connection.execute("SELECT current_setting(%s)", [name]).fetchall()
    return str(value)
