"""The servers of the log database: calls are read from standbys that are fresh enough, everything else on the primary.

Each server has a gate pool. With several, a thread for each looks once a second whether the server answers, whether it
is a standby, and how far it has replayed the log: so a promoted standby, or one that has fallen behind, is noticed
without a restart. How far the primary was at which moment tells the lag of a standby in seconds, also while nothing is
written.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from typing import Final

import structlog
from django.conf import settings

from config.setting_values import PREFER_STANDBY, each_server
from endpoints.errors import DatabaseUnavailable
from endpoints.log_database.gate import GatePool
from endpoints.log_database.liveness import PROBE_SECONDS, Verdict
from endpoints.results.positions import NO_POSITION

LOOK_SECONDS: Final = 1.0  # between two looks at a server
FIRST_LOOKS_SECONDS: Final = 2 * PROBE_SECONDS  # to connect, and to look
REMEMBERED_LOOKS: Final = 600  # of the primary: a larger lag is given as ten minutes

logger = structlog.get_logger(__name__)


class ServerRole(StrEnum):
    """What a server is, as far as this process knows."""

    PRIMARY = "primary"
    STANDBY = "standby"


class ServerState(StrEnum):
    """Whether a server takes calls."""

    SERVES = "serves"
    BEHIND = "behind"  # a standby further behind than ENDPOINTS_STANDBY_MAX_LAG_SECONDS
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class ServerReport:
    """A server at the last look: its `host:port`, and for a standby its lag if it is known."""

    name: str
    role: ServerRole
    state: ServerState
    lag_seconds: float | None


class PrimaryPositions:
    """How far the primary had written its log at each of the last looks.

    A standby must have replayed `least_position` to take calls. Until there are looks over the whole time that a
    standby may be behind, it is the position of the first one.
    """

    def __init__(self, max_lag_seconds: float) -> None:
        self._max_lag_seconds = max_lag_seconds
        self._looks: deque[tuple[float, int]] = deque(maxlen=REMEMBERED_LOOKS)
        self.least_position = NO_POSITION

    def note(self, at: float, position: int) -> None:
        """Note a look, later than those before it."""
        self._looks.append((at, position))
        old_enough = [each for then, each in self._looks if then <= at - self._max_lag_seconds]
        self.least_position = old_enough[-1] if old_enough else self._looks[0][1]

    def forget(self) -> None:
        """Forget the looks at a former primary."""
        self._looks.clear()

    def lag_seconds(self, replayed: int) -> float | None:
        """Return how long before the last look the primary wrote what this standby has not replayed yet; 0 if nothing.

        None if nothing is known about the primary.
        """
        looks = list(self._looks)
        if not looks:
            return None
        missing_since = next((at for at, position in looks if position > replayed), looks[-1][0])
        return looks[-1][0] - missing_since


class LogServers:
    """The servers of the log database, with a pool for each, in the order of LOGS_GATE_URL."""

    def __init__(
        self, pools: Sequence[GatePool], *, prefers_standbys: bool = False, max_lag_seconds: float = 0.0
    ) -> None:
        self._pools = pools
        self._watched = pools if len(pools) > 1 else ()
        self._prefers_standbys = prefers_standbys
        self._positions = PrimaryPositions(max_lag_seconds)
        self._turns = count()
        self._primary = None if self._watched else pools[0]
        self._not_looked_at = set(self._watched)
        self._all_looked_at = threading.Event()
        self._noting = threading.Lock()
        self._closed = threading.Event()
        for pool in self._watched:
            threading.Thread(target=self._watch, args=(pool,), name=f"watch {pool.name}", daemon=True).start()

    @property
    def uses_standbys(self) -> bool:
        """Whether calls may run on other servers than the primary."""
        return bool(self._watched and self._prefers_standbys)

    def standby(self) -> GatePool | None:
        """Return a standby that may take a call, a different one each time; None if there is none."""
        if not self.uses_standbys:
            return None
        self._await_first_looks()
        standbys = [pool for pool in self._watched if self._state(pool) is ServerState.SERVES and _is_standby(pool)]
        return standbys[next(self._turns) % len(standbys)] if standbys else None

    def primary(self) -> GatePool:
        """Return the primary, or the server that was the primary before it went away.

        Raises DatabaseUnavailable if no server has been the primary so far.
        """
        if self._primary is None:
            self._await_first_looks()
        if self._primary is None:
            raise DatabaseUnavailable
        return self._primary

    def successor_of(self, primary: GatePool) -> GatePool | None:
        """Look whether this server is a standby by now; return the primary in its place, None if it has none."""
        if primary not in self._watched or not self._look(primary).is_standby:
            return None
        for pool in self._watched:
            if pool is not primary:
                self._look(pool)
        return None if self._primary is primary else self._primary

    def reports(self) -> list[ServerReport]:
        """Return every server at its last look, if there are several."""
        if self._watched:
            self._await_first_looks()
        return [self._report(pool) for pool in self._watched]

    def close(self) -> None:
        self._closed.set()
        for pool in self._pools:
            pool.close()

    def _await_first_looks(self) -> None:
        """Wait until every server has answered or has had its time: a standby is judged by how far the primary is."""
        if not self._all_looked_at.is_set():
            self._all_looked_at.wait(FIRST_LOOKS_SECONDS)

    def _watch(self, pool: GatePool) -> None:
        while not self._closed.is_set():
            try:
                self._look(pool)
            except Exception as error:  # noqa: BLE001  # the watch must go on; until then the last look counts
                logger.warning("look_failed", server=pool.name, reason=f"{type(error).__name__}: {error}")
            self._not_looked_at.discard(pool)
            if not self._not_looked_at:
                self._all_looked_at.set()
            self._closed.wait(LOOK_SECONDS)

    def _look(self, pool: GatePool) -> Verdict:
        verdict = pool.liveness.look()
        with self._noting:
            self._note(pool, verdict)
        return verdict

    def _note(self, pool: GatePool, verdict: Verdict) -> None:
        if not verdict.is_alive or verdict.position is None:
            return
        if verdict.is_standby:
            pool.least_position = self._positions.least_position
            return
        pool.least_position = NO_POSITION
        if self._primary is not pool and not _is_living_primary(self._primary):
            logger.info("primary_found", server=pool.name)
            self._primary = pool
            self._positions.forget()  # rows that the former one lost may have had higher positions
        if self._primary is pool:
            self._positions.note(verdict.at, verdict.position)

    def _state(self, pool: GatePool) -> ServerState:
        verdict = pool.liveness.verdict
        if not verdict.is_alive or verdict.position is None:
            return ServerState.UNAVAILABLE
        if verdict.is_standby and verdict.position < self._positions.least_position:
            return ServerState.BEHIND
        return ServerState.SERVES

    def _report(self, pool: GatePool) -> ServerReport:
        position = pool.liveness.verdict.position
        is_standby = _is_standby(pool)
        return ServerReport(
            name=pool.name,
            role=ServerRole.STANDBY if is_standby else ServerRole.PRIMARY,
            state=self._state(pool),
            lag_seconds=self._positions.lag_seconds(position) if is_standby and position is not None else None,
        )


def _is_standby(pool: GatePool) -> bool:
    return pool.liveness.verdict.is_standby


def _is_living_primary(pool: GatePool | None) -> bool:
    return pool is not None and pool.liveness.verdict.is_alive and not _is_standby(pool)


_servers: LogServers | None = None
_lock = threading.Lock()


def log_servers() -> LogServers:
    """Return this process's servers, made on first use (after a web server has forked its workers)."""
    global _servers
    with _lock:
        if _servers is None:
            pools = [
                GatePool(
                    {name: value for name, value in server.items() if name != "target_session_attrs"},
                    size=settings.ENDPOINTS_POOL_SIZE,
                    wait_seconds=settings.ENDPOINTS_POOL_WAIT_SECONDS,
                )
                for server in each_server(settings.LOGS_GATE)
            ]
            _servers = LogServers(
                pools,
                prefers_standbys=settings.LOGS_GATE.get("target_session_attrs") == PREFER_STANDBY,
                max_lag_seconds=settings.ENDPOINTS_STANDBY_MAX_LAG_SECONDS,
            )
        return _servers


def close_log_servers() -> None:
    """Close this process's pools; the next statement opens new ones."""
    global _servers
    with _lock:
        if _servers is not None:
            _servers.close()
            _servers = None
