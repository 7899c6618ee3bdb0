"""Checks whether the log database keeps its guarantees, and so whether sandbox queries may be served."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

import psycopg
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from config.deadlines import BoundedConnection, answer_within
from config.setting_values import on_primary
from endpoints.errors import DatabaseUnavailable
from endpoints.guarantees.definitions import GUARANTEES, Guarantee, SandboxLevel
from endpoints.guarantees.probes import LogDatabase
from endpoints.log_database.shared_work import SharedWork
from logsources.databases import owner_connection, owner_parameters
from logsources.distribution import worker_addresses
from logsources.session_marks import refuse_shared_sessions

logger = logging.getLogger(__name__)

KEPT_SECONDS: Final = 300.0  # how long an operator's change may go unnoticed
REFUSED_SECONDS: Final = 15.0  # how long a repair may go unnoticed
CONNECTED_WITHIN_SECONDS: Final = 1.2  # calls wait for it; a server that hangs is noticed here
PROBED_WITHIN_SECONDS: Final = 5.0  # per guarantee; all of them take a second, on a busy machine three
VERIFIED_WITHIN_SECONDS: Final = 30.0
WAIT_SECONDS: Final = 15.0  # calls wait no longer for the answer; a later answer serves the next calls
LOOK_SECONDS: Final = 5.0  # between two looks whether it is time to ask; also after a failure
REFUSAL: Final = (
    "Sandbox queries are refused at the moment: the log database lacks a protection that they need. "
    "Its operator finds the reason with `manage.py check_sandbox`."
)
_LEVELS: Final = {"full": SandboxLevel.FULL, "row_security": SandboxLevel.ROW_SECURITY}


@dataclass(frozen=True, slots=True)
class Verdict:
    """A guarantee and the findings against it."""

    guarantee: Guarantee
    findings: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return not self.findings

    @property
    def is_needed(self) -> bool:
        """Whether sandbox queries are refused if it does not hold."""
        return self.guarantee.level <= accepted_level()


@dataclass(frozen=True, slots=True)
class _Answer:
    refusal: str | None
    good_until: float  # time.monotonic()
    renew_at: float  # earlier, so that no caller has to wait for the next answer


def accepted_level() -> SandboxLevel:
    """Return the level that the operator accepts. Raises ImproperlyConfigured for an unknown word."""
    word = settings.ENDPOINTS_SANDBOX_LEVEL
    if word not in _LEVELS:
        raise ImproperlyConfigured(f"ENDPOINTS_SANDBOX_LEVEL is {word!r}; it must be one of {', '.join(_LEVELS)}.")
    return _LEVELS[word]


def verify_guarantees(*, costly: bool = False) -> list[Verdict]:
    """Probe the log database for every guarantee, or for all but the costly ones, which only the operator tries.

    The workers of a cluster are asked too, if they can be reached from here. Raises psycopg.Error if the log database,
    or the coordinator of a cluster, cannot be asked; SharedSession if a pooler shares its sessions.
    """
    parameters = {**on_primary(settings.LOGS_GATE), "autocommit": True}
    with ExitStack() as stack, answer_within(VERIFIED_WITHIN_SECONDS):
        with answer_within(CONNECTED_WITHIN_SECONDS):
            owner = stack.enter_context(owner_connection())
            gate, other = (stack.enter_context(BoundedConnection.connect(**parameters)) for _ in range(2))
            refuse_shared_sessions(owner, stack.enter_context(owner_connection()))
            refuse_shared_sessions(gate, other)  # what one session shows would say nothing of another one
        logs = LogDatabase(owner=owner, gate=gate)
        nodes = [logs, *_workers(logs, stack)]
        return [_verdict(guarantee, nodes) for guarantee in GUARANTEES if costly or not guarantee.is_costly]


def _workers(logs: LogDatabase, stack: ExitStack) -> Iterator[LogDatabase]:
    """Connect to the workers as the owner. One that is dead takes no query either, so nothing waits for it."""
    if not logs.topology.is_distributed:
        return
    for host, port in worker_addresses(logs.owner):
        try:
            with answer_within(CONNECTED_WITHIN_SECONDS):
                parameters = {**owner_parameters(), "host": host, "port": port}
                owner = stack.enter_context(BoundedConnection.connect(**parameters, autocommit=True))
        except psycopg.OperationalError as error:
            logger.warning("worker %s:%s not asked for its guarantees: %s", host, port, error)
        else:
            yield LogDatabase(owner=owner, gate=logs.gate, node=f"{host}:{port}")


def _verdict(guarantee: Guarantee, nodes: Sequence[LogDatabase]) -> Verdict:
    findings: list[str] = []
    for logs in nodes if guarantee.is_of_every_node else nodes[:1]:
        with answer_within(PROBED_WITHIN_SECONDS):
            findings += [f"{logs.node}: {finding}" if logs.node else finding for finding in guarantee.probe(logs)]
    return Verdict(guarantee, tuple(findings))


class _Verification:
    """The last answer, kept up to date by `keep_asking`, or else by its callers."""

    def __init__(self) -> None:
        self._answer: _Answer | None = None
        self._asking: SharedWork[_Answer] = SharedWork(
            "guarantees", self._ask, seconds=WAIT_SECONDS, in_background=True
        )

    def answer(self) -> _Answer:
        """Return a valid answer; shortly before it expires, begin a new one. Raises DatabaseUnavailable."""
        known = self._answer
        if known is None or time.monotonic() >= known.good_until:
            return self._asking.result()
        self.renew()
        return known

    def renew(self) -> None:
        """Begin a new answer if the known one expires soon. Never raises, and waits for nothing."""
        if self._answer is None or time.monotonic() >= self._answer.renew_at:
            self._asking.begin()

    def _ask(self) -> _Answer:
        self._answer = _ask()
        return self._answer


_verification = _Verification()


def sandbox_refusal() -> str | None:
    """Return why sandbox queries are not served, None if they are; ask this before each of them.

    The answer is kept for minutes, a refusal for seconds, and renewed in the background before that time is over. If
    there is no valid answer, because the process has just started or the log database could not be asked, all callers
    wait for the same new one, at most WAIT_SECONDS.
    Raises DatabaseUnavailable if the log database cannot be asked.
    """
    return _verification.answer().refusal


def keep_asking(stop: threading.Event) -> None:
    """Have a valid answer ready at any moment until `stop` is set, so that no caller waits for one.

    For a thread of each web process: an answer takes seconds, and calls may come minutes apart.
    """
    while True:
        _verification.renew()
        if stop.wait(LOOK_SECONDS):
            return


def forget_answer() -> None:
    """Make the next sandbox query ask the log database again."""
    global _verification
    _verification = _Verification()


def _ask() -> _Answer:
    try:
        broken = [verdict for verdict in verify_guarantees() if verdict.is_needed and not verdict.holds]
    except psycopg.Error as error:
        raise DatabaseUnavailable(reason=str(error)) from error
    for verdict in broken:
        logger.error("sandbox guarantee %r does not hold: %s", verdict.guarantee.name, "; ".join(verdict.findings))
    now = time.monotonic()
    if broken:
        return _Answer(REFUSAL, now + REFUSED_SECONDS, now + REFUSED_SECONDS / 2)
    return _Answer(None, now + KEPT_SECONDS, now + KEPT_SECONDS / 2)
