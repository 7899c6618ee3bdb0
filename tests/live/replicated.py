"""A PostgreSQL with a streaming standby: the standby killed, stopped, behind, promoted, and in order again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from config.embedded.postgres_server import PostgresServer
from tests.live.calls import until
from tests.live.processes import children, frozen, kill, postmaster

REPLAY_SECONDS = 20.0
STREAMS = "SELECT FROM pg_stat_replication WHERE application_name = %s AND state = 'streaming'"


class Replicated:
    """A primary and its first standby, both reached as the superuser."""

    def __init__(self, primary: PostgresServer, primary_url: str) -> None:
        self.primary = primary
        self.standby = PostgresServer(primary.root, "standby1", primary.programs)
        self.primary_url = primary_url

    @property
    def standby_url(self) -> str:
        return make_conninfo(self.primary_url, host=str(self.standby.sockets))

    def start_standby(self) -> None:
        """Let the standby run and stream; one that does not, such as a promoted one, is made anew."""
        with psycopg.connect(self.primary_url, autocommit=True) as primary:
            streams = primary.execute(STREAMS, [self.standby.name]).rowcount
        if not streams or not self.standby.is_running():
            self.standby.follow(self.primary, str(conninfo_to_dict(self.primary_url)["password"]))

    def caught_up(self) -> None:
        """Wait until the standby has replayed everything that was committed on the primary."""
        with psycopg.connect(self.primary_url, autocommit=True) as primary:
            # Commits of a server with synchronous_commit=off are on their way; this one takes them along.
            primary.execute("SET synchronous_commit = on")
            primary.execute("SELECT pg_logical_emit_message(true, 'tests', 'caught up')")
            row = primary.execute("SELECT pg_current_wal_flush_lsn()").fetchone()
        assert row is not None
        with psycopg.connect(self.standby_url, autocommit=True) as standby:
            query = "SELECT WHERE pg_last_wal_replay_lsn() >= %s::pg_lsn"
            until(lambda: standby.execute(query, row).rowcount == 1, seconds=REPLAY_SECONDS, pause=0.01)

    @contextmanager
    def standby_killed(self) -> Iterator[None]:
        """Kill every process of the standby at once; start it anew at the end, when its primary must be up."""
        kill(server_processes(self.standby))
        try:
            yield
        finally:
            self.start_standby()

    @contextmanager
    def standby_frozen(self) -> Iterator[None]:
        """Stop every process of the standby: sockets stay open and nobody answers."""
        with frozen_server(self.standby):
            yield

    @contextmanager
    def replay_paused(self) -> Iterator[None]:
        """Let the standby receive what is committed meanwhile, and show none of it."""
        value(self.standby_url, "SELECT pg_wal_replay_pause()")
        paused = "SELECT pg_get_wal_replay_pause_state() = 'paused'"
        until(lambda: bool(value(self.standby_url, paused)), seconds=REPLAY_SECONDS, pause=0.01)
        try:
            yield
        finally:
            if value(self.standby_url, "SELECT pg_is_in_recovery()"):  # A promotion ends the pause too.
                value(self.standby_url, "SELECT pg_wal_replay_resume()")

    def promote_standby(self) -> None:
        """Make the standby a primary of its own; `start_standby` makes it a standby again."""
        assert value(self.standby_url, "SELECT pg_promote()")


def value(url: str, query: str) -> object:
    """Return the first value of a query's first row."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]


def server_processes(server: PostgresServer) -> list[int]:
    """Return the processes of a PostgreSQL, the postmaster first; none if it is not up."""
    first = postmaster(server)
    return [] if first is None else [first, *children(first)]


@contextmanager
def frozen_server(server: PostgresServer) -> Iterator[None]:
    # Twice: a process may have been made meanwhile.
    with frozen(server_processes(server)), frozen(server_processes(server)):
        yield
