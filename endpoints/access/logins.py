"""Failed logins of the admin, counted in Django's database by django-axes' rules, and the lock-outs they lead to.

Two counts, each of the last LOGIN_LOCKOUT_SECONDS::

    of a user name from an address    LOGIN_FAILURES         the name is refused from there
    of an address                     LOGIN_FAILURES * 10    everything is refused from there

There is none of a user name from everywhere: with it, whoever knows an operator's name could keep the operator out.
"""

from __future__ import annotations

import ipaddress
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import structlog
from axes.handlers.database import AxesDatabaseHandler
from axes.helpers import get_client_username
from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.db import connection
from django.db.models import Max, Q, Sum
from django.http import HttpRequest
from django.utils import timezone

# --- Passwords --------------------------------------------------------------------------------------------------------
# Checks the passwords of the admin a few at a time: each check takes a core for half a second, on purpose.
#
# If every place is taken, a login waits a little, and only a few may wait: a burst of logins never holds all threads
# of a process, and the cores stay free for calls.
CHECKS_AT_ONCE: Final = 1  # per process; there are two by default
MOST_WAITING: Final = 2  # threads of a process; production.md gives a process 16
WAIT_SECONDS: Final = 2.0  # for one of the running checks to end


class PasswordsBusy(Exception):
    """Too many passwords are being checked; this one was not checked."""

    retry_after_seconds: Final = 2


class PasswordTurns:
    """Limits how many threads check a password at once and how many wait; a thread with a turn needs no second one."""

    def __init__(self, *, at_once: int, waiting: int, wait_seconds: float) -> None:
        self._checking = threading.BoundedSemaphore(at_once)
        self._places = threading.BoundedSemaphore(at_once + waiting)
        self._wait_seconds = wait_seconds
        self._of_thread = threading.local()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold a turn; raises PasswordsBusy at once if too many already wait, otherwise after the longest wait."""
        if getattr(self._of_thread, "has_turn", False):
            yield
            return
        if not self._places.acquire(blocking=False):
            raise PasswordsBusy
        try:
            if not self._checking.acquire(timeout=self._wait_seconds):
                raise PasswordsBusy
            self._of_thread.has_turn = True
            try:
                yield
            finally:
                self._of_thread.has_turn = False
                self._checking.release()
        finally:
            self._places.release()


PASSWORD_TURNS: Final = PasswordTurns(at_once=CHECKS_AT_ONCE, waiting=MOST_WAITING, wait_seconds=WAIT_SECONDS)


class BoundedPasswordHasher(PBKDF2PasswordHasher):
    """Django's own hasher, with the same hashes, limited by the process's turns. Raises PasswordsBusy."""

    def encode(self, password: str, salt: str, iterations: int | None = None) -> str:
        with PASSWORD_TURNS.turn():
            return super().encode(password, salt, iterations)


# --- Logins -----------------------------------------------------------------------------------------------------------
FAILURES_OF_ADDRESS: Final = 10  # times LOGIN_FAILURES: an office of several people has one address
UNKNOWN_ADDRESS: Final = "0.0.0.0"  # noqa: S104  # nothing listens there; who connects by a socket file has no address
IPV6_PREFIX: Final = 64  # bits; a caller has the rest for itself (RFC 4291 section 2.5.1)
# One statement, so that failures at the same time are all counted. The user agent is part of the table's key and left
# empty: one that changes would begin a new count. Of the form only the name is kept.
_COUNT: Final = """
INSERT INTO axes_accessattempt AS attempt
    (username, ip_address, user_agent, http_accept, path_info, get_data, post_data, failures_since_start, attempt_time)
VALUES (%(name)s, %(address)s, '', '', '', '', '', 1, %(now)s)
ON CONFLICT (username, ip_address, user_agent) DO UPDATE SET
    failures_since_start = 1 + CASE WHEN attempt.attempt_time > %(since)s AND attempt.attempt_time < %(until)s
        THEN attempt.failures_since_start ELSE 0 END,
    attempt_time = excluded.attempt_time
"""
# Rows that another login is counting or forgetting are left to it: two logins that wait for each other's rows are a
# deadlock, which PostgreSQL ends by failing one of them.
_FORGET: Final = """
DELETE FROM axes_accessattempt WHERE id IN (
    SELECT id FROM axes_accessattempt WHERE attempt_time <= %(since)s LIMIT 1000 FOR UPDATE SKIP LOCKED)
"""

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LockOut:
    """Until when logins are refused, and whether those of every user name from the address."""

    until: datetime
    of_address: bool

    def seconds_left(self, now: datetime) -> int:
        return max(1, -int((now - self.until).total_seconds() // 1))


class LoginHandler(AxesDatabaseHandler):  # type: ignore[misc]  # django-axes ships no types
    """What django-axes asks and tells at each login (AXES_HANDLER), with counts that hold when many come at once."""

    def is_locked(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> bool:
        return lock_out_of(request, _name(request, credentials)) is not None

    def user_login_failed(
        self, sender: object, credentials: dict[str, Any], request: HttpRequest | None = None, **kwargs: object
    ) -> None:
        if request is None:  # a command checks a password
            return
        name = _name(request, credentials)
        # A refused login is not counted, or a lock-out would never end.
        if not request.axes_locked_out:  # type: ignore[attr-defined]  # django-axes has set it
            count_failure(name, client_address(request), now=timezone.now())
            if lock_out_of(request, name) is not None:
                logger.warning("login_locked_out")
                request.axes_locked_out = True  # type: ignore[attr-defined]
        request.axes_credentials = credentials  # type: ignore[attr-defined]

    def user_logged_in(self, sender: object, request: HttpRequest, user: Any, **kwargs: object) -> None:
        """Forget the failures of this name from this address; those of other names still count for the address."""
        lift_lock_outs(AccessAttempt.objects.filter(username=user.get_username(), ip_address=client_address(request)))

    def user_logged_out(self, sender: object, request: HttpRequest, user: Any, **kwargs: object) -> None:
        """Nothing is kept about it."""


def count_failure(name: str, address: str, *, now: datetime) -> None:
    """Count a failed login, and forget failures that are too old to count."""
    times = {"now": now, "since": now - _window(), "until": now + _window()}
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, {"name": name, "address": address, **times})
        cursor.execute(_FORGET, times)


def find_lock_out(name: str, address: str, *, now: datetime) -> LockOut | None:
    """Return the lock-out that a login of this name from this address would meet."""
    counted = AccessAttempt.objects.filter(ip_address=address, attempt_time__gt=now - _window())
    counted = counted.exclude(attempt_time__gte=now + _window())  # by a clock that was ahead
    found = counted.aggregate(
        of_address=Sum("failures_since_start"),
        of_name=Sum("failures_since_start", filter=Q(username=name)),
        last=Max("attempt_time"),
        last_of_name=Max("attempt_time", filter=Q(username=name)),
    )
    if (found["of_address"] or 0) >= settings.LOGIN_FAILURES * FAILURES_OF_ADDRESS:
        return LockOut(found["last"] + _window(), of_address=True)
    if (found["of_name"] or 0) >= settings.LOGIN_FAILURES:
        return LockOut(found["last_of_name"] + _window(), of_address=False)
    return None


def lock_out_of(request: HttpRequest, name: str) -> LockOut | None:
    """Return the lock-out that a login of this name by this request meets."""
    return find_lock_out(name, client_address(request), now=timezone.now())


def lift_lock_outs(attempts: Iterable[AccessAttempt]) -> int:
    """Forget these failures; return how many rows they were."""
    keys = sorted(attempt.pk for attempt in attempts)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM axes_accessattempt WHERE id = ANY(%s)", [keys])
        return int(cursor.rowcount)


def client_address(request: HttpRequest) -> str:
    """Return the address that failures are counted for: the caller's, or for IPv6 the start of its network.

    With PROXIES in front it is the one that the outermost of them has seen; what a caller itself writes into
    X-Forwarded-For stands further left and is not believed.
    """
    seen = request.META.get("REMOTE_ADDR", "")
    if settings.PROXIES:
        forwarded = [part.strip() for part in request.META.get("HTTP_X_FORWARDED_FOR", "").split(",")]
        seen = forwarded[-settings.PROXIES] if len(forwarded) >= settings.PROXIES else seen
    address = _read_address(seen) or _read_address(seen.rpartition(":")[0].strip("[]"))  # some proxies add the port
    if address is None:
        return UNKNOWN_ADDRESS
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, IPV6_PREFIX), strict=False).network_address)


def _read_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


def _window() -> timedelta:
    return timedelta(seconds=settings.LOGIN_LOCKOUT_SECONDS)


def _name(request: HttpRequest, credentials: dict[str, Any] | None) -> str:
    return str(get_client_username(request, credentials) or "")
