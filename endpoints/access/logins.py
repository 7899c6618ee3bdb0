"""Limits of logins to the admin::

    failures of a user name from an address    LOGIN_FAILURES in LOGIN_LOCKOUT_SECONDS, by django-axes
    logins from an address                     LOGIN_FAILURES * 4 a minute, as calls of an access token are counted
    passwords checked at the same time         one in a process

There is none of a user name from everywhere: with it, whoever knows an operator's name could keep the operator out.
"""

from __future__ import annotations

import ipaddress
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Final

from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.db.models import Max, Sum
from django.http import HttpRequest
from django.utils import timezone

from endpoints.access.token_limits import seconds_until_admitted

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
LOGINS_OF_ADDRESS: Final = 4  # times LOGIN_FAILURES, a minute: an office of several people has one address
UNKNOWN_ADDRESS: Final = "0.0.0.0"  # noqa: S104  # nothing listens there; who connects by a socket file has no address
IPV6_PREFIX: Final = 64  # bits; a caller has the rest for itself (RFC 4291 section 2.5.1)


def seconds_until_login(request: HttpRequest) -> int:
    """Count a login from the caller's address; return 0 if it may go on, else in how many seconds the next one may."""
    return seconds_until_admitted(
        f"logins:{client_address(request)}", calls=settings.LOGIN_FAILURES * LOGINS_OF_ADDRESS, window_seconds=60
    )


def locked_out_until(name: str, address: str) -> datetime | None:
    """Return until when django-axes refuses this name from this address; None if it does not."""
    counted = AccessAttempt.objects.filter(
        username=name, ip_address=address, attempt_time__gte=timezone.now() - settings.AXES_COOLOFF_TIME
    )
    found = counted.aggregate(failures=Sum("failures_since_start"), last=Max("attempt_time"))
    is_locked = (found["failures"] or 0) >= settings.AXES_FAILURE_LIMIT
    return found["last"] + settings.AXES_COOLOFF_TIME if is_locked else None


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
