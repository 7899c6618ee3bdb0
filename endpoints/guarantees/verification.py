"""Whether the log database keeps its guarantees, and whether sandbox queries may be served on it."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

import psycopg
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from config.deadlines import BoundedConnection, answer_within
from endpoints.errors import DatabaseUnavailable
from endpoints.guarantees.catalogue import GUARANTEES, Guarantee, SandboxLevel
from endpoints.guarantees.probes import LogDatabase
from logsources.connections import owner_connection

logger = logging.getLogger(__name__)

KEPT_SECONDS: Final = 300.0  # how long an operator's change may go unnoticed
REFUSED_SECONDS: Final = 15.0  # how long a repair may
CONNECTED_WITHIN_SECONDS: Final = 1.2  # a call waits for it; a server that hangs shows here
VERIFIED_WITHIN_SECONDS: Final = 30.0
REFUSAL: Final = (
    "Sandbox queries are not served at the moment: the log database does not keep what they rely on. "
    "Its operator finds the reason with `manage.py check_sandbox`."
)
_LEVELS: Final = {"full": SandboxLevel.FULL, "row_security": SandboxLevel.ROW_SECURITY}


@dataclass(frozen=True, slots=True)
class Verdict:
    """A guarantee and what was found against it."""

    guarantee: Guarantee
    findings: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return not self.findings

    @property
    def is_needed(self) -> bool:
        """Whether sandbox queries are refused while it does not hold."""
        return self.guarantee.level <= accepted_level()


@dataclass(frozen=True, slots=True)
class _Answer:
    refusal: str | None
    good_until: float  # time.monotonic()


def accepted_level() -> SandboxLevel:
    """Return the level that the operator accepts. Raises ImproperlyConfigured for an unknown word."""
    word = settings.ENDPOINTS_SANDBOX_LEVEL
    if word not in _LEVELS:
        raise ImproperlyConfigured(f"ENDPOINTS_SANDBOX_LEVEL is {word!r}; it is one of {', '.join(_LEVELS)}.")
    return _LEVELS[word]


def verify_guarantees() -> list[Verdict]:
    """Probe the log database for every guarantee. Raises psycopg.Error when it cannot be asked."""
    with ExitStack() as stack, answer_within(VERIFIED_WITHIN_SECONDS):
        with answer_within(CONNECTED_WITHIN_SECONDS):
            owner = stack.enter_context(owner_connection())
            gate = stack.enter_context(BoundedConnection.connect(**settings.LOGS_GATE, autocommit=True))
        logs = LogDatabase(owner=owner, gate=gate)
        return [Verdict(guarantee, tuple(guarantee.probe(logs))) for guarantee in GUARANTEES]


def sandbox_refusal() -> str | None:
    """Return why sandbox queries are not served, None when they are: to be asked before each one.

    The answer is kept for minutes, a refusal for seconds; while it is looked at anew the old one serves.
    Raises DatabaseUnavailable when the log database cannot be asked.
    """
    global _answer
    known = _answer
    if known is not None and time.monotonic() < known.good_until:
        return known.refusal
    if known is not None and not _lock.acquire(blocking=False):
        return known.refusal
    if known is None:
        _lock.acquire()  # there is no answer to serve meanwhile
    try:
        latest = _answer
        if latest is None or latest is known:
            _answer = latest = _ask()
        return latest.refusal
    finally:
        _lock.release()


_answer: _Answer | None = None
_lock = threading.Lock()


def forget_answer() -> None:
    """Have the next sandbox query ask the log database again."""
    global _answer
    _answer = None


def _ask() -> _Answer:
    try:
        broken = [verdict for verdict in verify_guarantees() if verdict.is_needed and not verdict.holds]
    except psycopg.Error as error:
        raise DatabaseUnavailable from error
    for verdict in broken:
        logger.error("sandbox guarantee %r does not hold: %s", verdict.guarantee.name, "; ".join(verdict.findings))
    if broken:
        return _Answer(REFUSAL, time.monotonic() + REFUSED_SECONDS)
    return _Answer(None, time.monotonic() + KEPT_SECONDS)
