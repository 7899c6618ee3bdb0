"""A gate pool: this process's connections of the gate login to one server of the log database.

The gate login can read nothing until it becomes a reader.

No wait on them lasts for ever, even if every process of the server is stopped: a connection that hears nothing for
PATIENCE_SECONDS asks for a sign of life by another one; if none comes, it is closed and the call ends. On a living
server a slow statement is never cut before its statement timeout.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Generator, Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from time import monotonic
from typing import Any, Final

import psycopg
from psycopg import RawCursor
from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGresult
from psycopg_pool import ConnectionPool, PoolTimeout

from config.deadlines import NoAnswer, Result, answer_within, watched
from config.exchanges import Exchange
from config.setting_values import DEFAULT_PORT, each_server, option_settings
from endpoints.cache.running_calls import CURRENT_CALL
from endpoints.errors import DatabaseUnavailable, Overloaded
from endpoints.log_database.cancelling import LEFT, CancellableConnection, Interest, LeftStatement, held_until_stopped
from endpoints.log_database.liveness import PROBE_SECONDS, Liveness
from endpoints.results.encoding import register_loaders
from endpoints.results.positions import NO_POSITION
from logsources.session_marks import SHARED_SESSIONS, SharedSession, mark_session, refuse_shared_sessions, shown_mark
from logsources.topology import Topology, read_topology

# --- Prepared statements ----------------------------------------------------------------------------------------------
# The prepared statements of a connection; each takes memory of its server process, mostly for its plan.
KEPT_STATEMENTS: Final = 100  # an installation uses fewer stored queries than that
# Consumers' queries: a plan over 200 partitions takes about a megabyte for each table that it reads, and 8 ms to make.
KEPT_QUERIES: Final = 8
_REMEMBERED_QUERIES: Final = 200


class KeptStatements:
    """The statements that one connection has prepared, each under a key, the least recently used first."""

    def __init__(self, prefix: str, capacity: int) -> None:
        self._prefix = prefix
        self._capacity = capacity
        self._names: OrderedDict[Hashable, bytes] = OrderedDict()
        self._numbers = count()

    def admits(self, key: Hashable) -> bool:
        """Tell whether to prepare a statement that is not prepared; called once for each use of it."""
        return True

    def name_of(self, key: Hashable) -> bytes | None:
        """Return the name of a prepared statement, None if it is not prepared yet."""
        name = self._names.get(key)
        if name is not None:
            self._names.move_to_end(key)
        return name

    def new_name(self) -> bytes:
        return f"{self._prefix}_{next(self._numbers)}".encode()

    def keep(self, key: Hashable, name: bytes) -> None:
        self._names[key] = name

    def give_up(self) -> list[bytes]:
        """Return the names beyond the capacity, for the caller to deallocate."""
        return [self._names.popitem(last=False)[1] for _ in range(len(self._names) - self._capacity)]


class RepeatedStatements(KeptStatements):
    """Keeps only repeated statements: single ones would push them out."""

    def __init__(self, prefix: str, capacity: int) -> None:
        super().__init__(prefix, capacity)
        self._came_once: set[int] = set()  # hashes: if two texts share one, a text is only prepared one time too early

    def admits(self, key: Hashable) -> bool:
        if hash(key) in self._came_once:
            self._came_once.discard(hash(key))
            return True
        if len(self._came_once) >= _REMEMBERED_QUERIES:
            self._came_once.clear()
        self._came_once.add(hash(key))
        return False


# --- Gate -------------------------------------------------------------------------------------------------------------
PATIENCE_SECONDS: Final = 0.2
# With less, a living server on a busy machine might be declared dead.
SHORTEST_PROBE_SECONDS: Final = 0.5
# PostgreSQL ends a statement at its timeout. So much later, its process is stopped or its host is gone.
OVERTIME_SECONDS: Final = 5.0
LONGEST_STATEMENT_SECONDS: Final = 300.0  # if a statement has no timeout of its own
ROLLBACK_SECONDS: Final = 2.0
# After a client was seen to leave, other calls look whether theirs has left too before they run a statement.
DEPARTURE_SECONDS: Final = 5.0
SHARED_SECONDS: Final = 5.0  # in which calls are refused at once, before it is tried whether sessions are still shared
# Seconds, and milliseconds: a host that is gone ends its connections after 25 s.
_CONNECTING: Final[Mapping[str, int]] = {
    "connect_timeout": 2, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}  # fmt: skip
KEPT_FROM_SANDBOX: Final = 2  # connections of a pool that sandbox queries leave free for everything else


class GateConnection(CancellableConnection):
    """A connection of the gate pool; if its server hangs, it raises NoAnswer and closes itself.

    A statement that nobody wants any more is cancelled (QueryCanceled).
    """

    liveness: Liveness | None = None
    pool: GatePool  # that opened it
    mark: bytes  # of its session
    kept_statements: KeptStatements  # statements of the service and stored queries
    kept_queries: KeptStatements  # consumers' queries
    topology: Topology
    left: list[LeftStatement] | None = None  # by whom it was lent, if that waits for what is left running
    longest_wait = LONGEST_STATEMENT_SECONDS + OVERTIME_SECONDS
    probe_seconds = PROBE_SECONDS

    def wait(self, gen: Generator[Any, Any, Result], *args: Any, **kwargs: Any) -> Result:
        if self.liveness is None:
            return super().wait(gen, *args, **kwargs)
        vigil = _Vigil(self, self.liveness)
        # Most statements are done before a check is due, and a vigil over each read costs as much as the read.
        with suppress(psycopg.errors._WaitTimeout):
            return super().wait(gen, timeout=PATIENCE_SECONDS)
        vigil.begin()
        try:
            return super().wait(watched(gen, vigil.look_up), *args, **kwargs)
        except NoAnswer:
            self.close()
            raise

    def close(self) -> None:
        """Close it; what PostgreSQL still runs on it is left to who was lent it."""
        if self.left is not None and not self.closed and self.info.transaction_status == TransactionStatus.ACTIVE:
            self.left.append(LeftStatement(self))
        super().close()

    def require_own_session(self, shown: PGresult) -> None:
        """Raise SharedSession if the result of SHOW_MARK comes from another session than the connection's own."""
        if shown_mark(shown) != self.mark:
            self.close()
            self.pool.keeps_sessions = False
            self.pool.shared_until = monotonic() + SHARED_SECONDS
            raise SharedSession(SHARED_SESSIONS)


class _Vigil:
    """One wait of a connection: when it last heard something, and whether the server was found dead since.

    It also looks whether anybody still wants what the wait is for.
    """

    __slots__ = ("_connection", "_found_dead", "_interest", "_liveness", "_quiet_since")

    def __init__(self, connection: GateConnection, liveness: Liveness) -> None:
        self._connection = connection
        self._liveness = liveness
        self._quiet_since = monotonic()
        self._found_dead = False
        self._interest: Interest | None = None

    def begin(self) -> None:
        """Begin to look: the wait has taken a moment already."""
        call = CURRENT_CALL.get()
        self._interest = None if call is None else Interest(self._connection, call)

    def look_up(self, ready: int | None) -> None:
        if self._interest is not None:
            self._interest.look()
        if ready:
            self._quiet_since = monotonic()
            self._found_dead = False
            return
        quiet_for = monotonic() - self._quiet_since
        if self._found_dead or self._liveness.is_known_dead():
            raise NoAnswer("the log database hangs: it does not answer this connection or another one")
        if quiet_for > self._connection.longest_wait:
            raise NoAnswer("the log database did not keep the statement timeout")
        if quiet_for >= PATIENCE_SECONDS:
            # Give up only at the next look: first read anything that arrived while liveness was asked for.
            self._found_dead = not self._liveness.answers(within=self._connection.probe_seconds)


class GatePool:
    """Connections of the gate login, opened on first use; their number and the wait for one are bounded.

    `least_position` is the position of the log that a statement on these connections must see.
    """

    def __init__(self, conninfo: dict[str, Any], *, size: int, wait_seconds: float) -> None:
        host = conninfo.get("host") or conninfo.get("hostaddr", "")
        self.name = f"{host}:{conninfo.get('port') or DEFAULT_PORT}"
        self.least_position = NO_POSITION
        self.liveness = Liveness(*({"connect_timeout": 2, **server} for server in each_server(conninfo)))
        self._size = size
        self._wait_seconds = wait_seconds
        # Consumers' own queries may take as long as their timeout, so they never get every connection. What PostgreSQL
        # does not stop keeps its turn. Few calls wait for one, since each wait keeps a thread.
        self._sandbox_turns = threading.BoundedSemaphore(max(1, size - KEPT_FROM_SANDBOX))
        self._sandbox_in_hand = threading.BoundedSemaphore(max(1, size - KEPT_FROM_SANDBOX) + max(1, size // 4))
        self._in_use = 0
        self._lock = threading.Lock()
        self._comparing = threading.Lock()
        self.keeps_sessions = False  # as far as two connections have shown
        self.shared_until = float("-inf")
        self._options = {**_CONNECTING, **conninfo, "autocommit": True, "cursor_factory": RawCursor}
        self._pool: ConnectionPool[GateConnection] = ConnectionPool(
            connection_class=GateConnection,
            kwargs=self._options,
            min_size=1,
            max_size=size,
            timeout=wait_seconds,
            max_idle=300,
            # Give up soon: the next call then asks for a connection anew, and no pause delays a server that is back.
            reconnect_timeout=1,
            configure=self._configure,
            open=True,
            name="gate",
        )

    @property
    def is_crowded(self) -> bool:
        """Whether only the connections kept from sandbox queries are left, so that another query would wait."""
        return self._in_use >= max(1, self._size - KEPT_FROM_SANDBOX)

    @contextmanager
    def sandbox_turn(self) -> Iterator[None]:
        """Count a sandbox query, around its connection, until PostgreSQL has stopped it.

        Raises Overloaded if earlier ones take too long.
        """
        with held_until_stopped() as held:
            for places, seconds in ((self._sandbox_in_hand, 0.0), (self._sandbox_turns, self._wait_seconds)):
                if not places.acquire(timeout=seconds):
                    raise Overloaded
                held.callback(places.release)
            yield

    @contextmanager
    def connection(self, *, statement_seconds: float = LONGEST_STATEMENT_SECONDS) -> Iterator[GateConnection]:
        """Lend a connection for statements with this timeout.

        Raises Overloaded if all stay busy, DatabaseUnavailable if none can be opened, the server hangs or sessions are
        shared, and CallEnded if nobody wants the result of this thread's call any more.
        """
        if monotonic() < self.shared_until:
            raise DatabaseUnavailable(reason=SHARED_SESSIONS)
        if self.liveness.refuses():
            raise DatabaseUnavailable
        asked_at = monotonic()
        try:
            connection = self._pool.getconn(timeout=self._wait_seconds)
        except PoolTimeout as error:
            is_busy = self._in_use >= self._size and not self.liveness.is_known_dead()
            refusal = SHARED_SESSIONS if asked_at < self.shared_until else ""
            raise (Overloaded() if is_busy else DatabaseUnavailable(reason=refusal)) from error
        connection.longest_wait = statement_seconds + OVERTIME_SECONDS
        connection.left = LEFT.get()
        now = monotonic()
        connection.probe_seconds = max(SHORTEST_PROBE_SECONDS, PROBE_SECONDS - (now - asked_at))
        with self._lock:
            self._in_use += 1
        try:
            if now - Exchange.a_client_left_at < DEPARTURE_SECONDS or now - asked_at > PATIENCE_SECONDS:
                _end_if_client_left()
            yield connection
        except psycopg.errors.QueryCanceled as error:
            reason = connection.take_reason()
            if reason is None:
                raise
            raise reason from error
        finally:
            with self._lock:
                self._in_use -= 1
            # A cancel request that may still have its effect must not meet the statement of another call.
            if connection.ended_as is not None or connection.info.transaction_status != TransactionStatus.IDLE:
                connection.close()
            connection.left = None
            self._pool.putconn(connection)

    @contextmanager
    def sandbox_connection(self, *, statement_seconds: float) -> Iterator[GateConnection]:
        """Lend a connection for a consumer's query when its turn comes. Raises Overloaded and DatabaseUnavailable."""
        with self.sandbox_turn(), self.connection(statement_seconds=statement_seconds) as connection:
            yield connection

    def connect_apart(self, *, statement_seconds: float) -> GateConnection:
        """Open a connection that is none of the pool's; the caller closes it and bounds their number.

        Raises DatabaseUnavailable if the server hangs, and psycopg.Error.
        """
        if self.liveness.refuses():
            raise DatabaseUnavailable
        connection = GateConnection.connect(**self._options)
        try:
            self._configure(connection)
        except BaseException:
            connection.close()
            raise
        connection.longest_wait = statement_seconds + OVERTIME_SECONDS
        connection.left = LEFT.get()
        return connection

    def discard_broken(self) -> None:
        """Replace idle connections that died with the server, so that a retry meets a live one."""
        if not self.liveness.is_known_dead():
            self._pool.check()

    def close(self) -> None:
        self._pool.close()
        self.liveness.close()

    def _configure(self, connection: GateConnection) -> None:
        """Prepare a new connection; refuse shared sessions, and a server that reads strings or text in another way."""
        connection.liveness = self.liveness
        connection.pool = self
        try:
            with self._comparing:  # one pair at a time: others would change which session a pooler lends next
                if not self.keeps_sessions:
                    with answer_within(PROBE_SECONDS), GateConnection.connect(**self._options) as other:
                        refuse_shared_sessions(connection, other)
                    self.keeps_sessions = True
        except SharedSession:
            self.shared_until = monotonic() + SHARED_SECONDS
            raise
        except psycopg.OperationalError:
            pass  # perhaps there is no second connection to be had now: the next one tries again
        # A pooler may ignore start-up options, so their settings come once more.
        connection.mark = mark_session(connection, dict(option_settings(self._options.get("options") or "")))
        # With the mark in its name, no statement is taken for one that another connection has prepared.
        connection.kept_statements = KeptStatements(f"kept_{connection.mark.decode()}", KEPT_STATEMENTS)
        connection.kept_queries = RepeatedStatements(f"repeated_{connection.mark.decode()}", KEPT_QUERIES)
        if connection.info.parameter_status("standard_conforming_strings") != "on":
            raise psycopg.OperationalError("the log database must have standard_conforming_strings = on")
        if connection.info.encoding != "utf-8":
            raise psycopg.OperationalError("the log database must use UTF8")
        connection.topology = read_topology(connection)
        register_loaders(connection)
        connection.prepare_threshold = None  # `round_trips` prepares the statements that are worth it


def _end_if_client_left() -> None:
    call = CURRENT_CALL.get()
    if call is not None:
        call.end_if_client_left()


def roll_back(connection: GateConnection) -> None:
    """End a failed transaction; if even that fails, the connection is closed and so never reused."""
    connection.longest_wait = ROLLBACK_SECONDS
    try:
        if connection.info.transaction_status != TransactionStatus.IDLE:
            connection.execute("ROLLBACK")
    except psycopg.Error:
        connection.close()
