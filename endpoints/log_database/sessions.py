"""What arms a transaction for a statement: the reader's role, whose rows it sees, its arguments and its limits.

    SELECT logs_private.log_position(…), set_config('statement_timeout', …, true), …, set_config('role', …, true)
    SELECT logs_private.arm(names, texts), set_config('search_path', …), set_config('role', …, true)   on a cluster

Every setting holds until the end of the transaction. The position comes only if it counts how new the rows are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Any, Final

from endpoints.log_database.round_trips import array_literal
from endpoints.results.outcomes import BoundValue
from endpoints.results.positions import write_position
from endpoints.sql.composition import parse_planner_settings
from logsources.guards import LARGEST_VALUE_SETTING, largest_value
from logsources.roles import PRIVATE_SCHEMA, SANDBOX_READER
from logsources.topology import ONE_SERVER, SANDBOX_SCHEMA_SETTING, Topology

# A consumer's query has one process, and memory for about one sort at a time; a whole pool of them may run.
SANDBOX_LIMITS: Final[Mapping[str, str]] = {
    "max_parallel_workers_per_gather": "0",
    "work_mem": "8MB",
    "hash_mem_multiplier": "1",
    "lock_timeout": "1s",
    # Of more FROM items PostgreSQL tries some orders, not all: all orders of eleven take 260 MB.
    "geqo_threshold": "9",
    "jit": "off",
    # The views read its arguments by name; the bound values are the consumer's own and deserve their own plan.
    "plan_cache_mode": "auto",
}


_ARM_WORKERS: Final = (
    f"SELECT {PRIVATE_SCHEMA}.arm($1::text[], $2::text[]), set_config('search_path', $3, true),"
    " set_config('role', $4, true)"
)

Arming = tuple[str, tuple[bytes, ...]]


@dataclass(frozen=True, slots=True)
class ReaderSession:
    """The role and the limits under which a statement runs.

    `tenant` is the project whose rows PostgreSQL shows; None shows the rows of every project. The views of a sandbox
    schema read `arguments` for ``@name``; `planner_settings` are the operator's, as text.
    """

    role: str
    search_path: str
    statement_timeout_seconds: float
    tenant: str | None
    arguments: Mapping[str, BoundValue] = field(default_factory=dict)
    planner_settings: str = ""

    def settings(self, sql: str) -> dict[str, str]:
        """Return the settings of this statement's transaction in order.

        The role comes last because it may not set the others.
        A text is stored after a `=`, so that logs_private.argument() can tell NULL from the empty text.
        """
        return {
            "statement_timeout": f"{round(self.statement_timeout_seconds * 1000)}ms",
            "search_path": self.search_path,
            "logs.scope": "every_project" if self.tenant is None else "tenant",
            "logs.tenant": "" if self.tenant is None else f"={self.tenant}",
            **{f"logs.arg_{name}": _stored_argument(value) for name, value in self.arguments.items()},
            **_planner_settings(self.planner_settings),
            **(_sandbox_settings(sql) if self.role == SANDBOX_READER else {}),
            "role": self.role,
        }


def session_settings_statement(
    session: ReaderSession, sql: str = "", *, topology: Topology = ONE_SERVER, awaited: int | None = None
) -> Arming:
    """Return the SELECT that arms a transaction for a statement, and the encoded texts that it binds.

    If a position is awaited, its first value is that of the log that the transaction sees.
    """
    if session.role == SANDBOX_READER:
        arming, bound = _arming(session, sql, topology)
    else:
        arming, bound = _arming_of_stored_query(
            topology,
            session.role,
            session.search_path,
            session.statement_timeout_seconds,
            session.tenant,
            session.planner_settings,
        )
    if awaited is None:
        return arming, bound
    return _asking_position(arming, len(bound) + 1), (*bound, write_position(awaited).encode())


def with_trace(arming: Arming, trace_id: str) -> Arming:
    """Return the arming that also names the session after a trace, for pg_stat_activity and the server's log."""
    statement, bound = arming
    return _naming_session(statement, len(bound) + 1), (*bound, f"trace={trace_id}".encode())


@lru_cache(maxsize=1024)
def _arming_of_stored_query(*fields: Any) -> Arming:
    topology, role, search_path, seconds, tenant, planner_settings = fields
    return _arming(ReaderSession(role, search_path, seconds, tenant, planner_settings=planner_settings), "", topology)


def _arming(session: ReaderSession, sql: str, topology: Topology) -> Arming:
    settings = session.settings(sql)
    if topology.is_distributed:
        return _arming_of_workers(session, settings)
    return _set_configs(len(settings)), tuple(text.encode() for text in chain.from_iterable(settings.items()))


def _arming_of_workers(session: ReaderSession, settings: dict[str, str]) -> Arming:
    # A list of schemas is no one text for SET, and a function with its owner's rights may not set the role.
    own = [settings.pop(name) for name in ("search_path", "role")]
    settings.pop("plan_cache_mode", None)  # nothing is kept there, and generic plans are an error
    if session.role == SANDBOX_READER:
        settings[SANDBOX_SCHEMA_SETTING] = own[0].split(",")[0].strip().strip('"')
    texts = array_literal(list(settings)), array_literal(list(settings.values())), *own
    return _ARM_WORKERS, tuple(text.encode() for text in texts)


@lru_cache(maxsize=256)
def _set_configs(number: int) -> str:
    calls = (f"set_config(${first}, ${first + 1}, true)" for first in range(1, 2 * number, 2))
    return f"SELECT {', '.join(calls)}"


@lru_cache(maxsize=256)
def _asking_position(arming: str, number: int) -> str:
    return arming.replace("SELECT ", f"SELECT {PRIVATE_SCHEMA}.log_position(${number}), ", 1)


@lru_cache(maxsize=256)
def _naming_session(arming: str, number: int) -> str:
    return f"{arming}, set_config('application_name', ${number}, true)"


@lru_cache(maxsize=256)
def _planner_settings(text: str) -> Mapping[str, str]:
    return parse_planner_settings(text)


def _sandbox_settings(sql: str) -> Mapping[str, str]:
    return {**SANDBOX_LIMITS, LARGEST_VALUE_SETTING: str(largest_value(sql))}


def _stored_argument(value: BoundValue) -> str:
    if value is None:
        return ""
    return f"={value}" if isinstance(value, str) else f"={array_literal(value)}"
