"""What Django's database says of endpoints and access tokens, kept here while it is known to be current.

A known item is served from memory under the marker it was read under (`change_marker`), for FRESH_SECONDS; then the
database is asked again. When that cannot be reached and the marker is still the same, nothing has changed
and the known item is served: so calls go on while Django's database is down, hangs or restarts. Revocation and expiry
of an access token are the caller's to check, at each call.
"""

from __future__ import annotations

import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from time import monotonic
from typing import Any, Final, TypeVar, cast

import structlog
from django.db import Error, InterfaceError, OperationalError, connections
from django.db.models import Q

from config.deadlines import answer_within
from endpoints.access.change_marker import current_marker
from endpoints.access.secrets import OwnLimits
from endpoints.definition import Version
from endpoints.errors import DatabaseUnavailable, EndpointNotFound
from endpoints.models import AccessToken, Endpoint

CAPACITY: Final = 1000  # items
_TURNS: Final = 64  # two items that share one wait for each other, seldom
FRESH_SECONDS: Final = 30.0  # also the longest that a change goes unseen when Redis could not be told of it
LONGEST_REFERENCE: Final = 100  # characters, as Endpoint.name; every way to write a UUID is shorter
READ_SECONDS: Final = 1.5  # to connect takes a busy machine longer than half a second, and the call would fail
RENEW_SECONDS: Final = 0.5  # where the call can go on without the answer
PAUSE_SECONDS: Final = 1.0  # in which a database that did not answer is left alone, by all threads
# last_used_at is for people: to the minute is enough, and a write a call is not worth it.
LAST_USED_PRECISION: Final = timedelta(minutes=1)

Value = TypeVar("Value")
logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class KnownToken:
    """An access token as it was read; `endpoint_ids` None means every endpoint."""

    pk: int
    name: str
    prefix: str
    secret_hash: str = field(repr=False)
    endpoint_ids: frozenset[str] | None
    bound_arguments: Mapping[str, str]
    may_purge: bool
    may_load: bool
    load_sources: frozenset[str]
    default_project: str
    may_issue: bool
    allowed_origins: frozenset[str]
    limits: OwnLimits
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None

    def is_valid_at(self, moment: datetime) -> bool:
        """Tell whether it is neither revoked nor expired at `moment`."""
        return self.revoked_at is None and (self.expires_at is None or moment < self.expires_at)


@dataclass(frozen=True, slots=True)
class _Item:
    value: Any
    marker: str
    read_at: float  # time.monotonic()

    def is_fresh(self) -> bool:
        return monotonic() - self.read_at < FRESH_SECONDS


class KnownRecords:
    """The known items of one process, for all its threads: values that nobody can write to."""

    def __init__(self, marker: Callable[[], str | None], *, capacity: int = CAPACITY) -> None:
        self._marker = marker
        self._capacity = capacity
        self._lock = threading.Lock()
        self._items: OrderedDict[tuple[str, str], _Item] = OrderedDict()
        self._uses: OrderedDict[str, datetime] = OrderedDict()  # by the prefix of the access token
        self._turns = [threading.Lock() for _ in range(_TURNS)]
        self._retry_at: float | None = None  # None: the database answers

    def endpoint(self, reference: str) -> Version:
        """Return the endpoint of this UUID or name. Raises EndpointNotFound and DatabaseUnavailable."""
        # PostgreSQL cannot even compare a NUL. What is longer than any name need not be asked for, nor remembered.
        if "\0" in reference or len(reference) > LONGEST_REFERENCE:
            raise EndpointNotFound
        identifier = _as_uuid(reference)
        endpoint = self._known(("endpoint", identifier or reference), lambda: _read_endpoint(reference, identifier))
        if endpoint is None:
            raise EndpointNotFound
        return endpoint

    def recall_endpoint(self, reference: str) -> Version | None:
        """Return what this process last read of an endpoint, current or not; asks nobody and never raises."""
        if len(reference) > LONGEST_REFERENCE:
            return None
        with self._lock:
            item = self._items.get(("endpoint", _as_uuid(reference) or reference))
        return None if item is None else cast("Version", item.value)

    def access_token(self, prefix: str) -> KnownToken | None:
        """Return the access token of this prefix, or None. Raises DatabaseUnavailable."""
        return self._known(("access token", prefix), lambda: _read_access_token(prefix))

    def allowed_origins(self) -> frozenset[str]:
        """Return the origins that access tokens allow which may issue browser tokens. Raises DatabaseUnavailable."""
        return self._known(("origins", ""), _read_origins) or frozenset()

    def note_use(self, token: KnownToken, *, now: datetime) -> None:
        """Write down, to the minute, that an access token is in use; while the database is away, nothing is."""
        # A use later than until was noted by a clock that was ahead.
        due, until = now - LAST_USED_PRECISION, now + LAST_USED_PRECISION
        with self._lock:
            before = self._uses.get(token.prefix)
            noted = before or token.last_used_at
            if noted is not None and due < noted < until:
                return
            self._uses[token.prefix] = now  # at once: of many threads one writes
            _shorten(self._uses, self._capacity)
        # The condition again in SQL: of many calls at the same moment, in all processes, one writes.
        not_noted = ~Q(last_used_at__gt=due, last_used_at__lt=until)
        try:
            self._ask(
                lambda: AccessToken.objects.filter(not_noted, pk=token.pk).update(last_used_at=now), RENEW_SECONDS
            )
        except DatabaseUnavailable:
            with self._lock:
                if before is None:
                    self._uses.pop(token.prefix, None)
                else:
                    self._uses[token.prefix] = before

    def _known(self, key: tuple[str, str], read: Callable[[], Value | None]) -> Value | None:
        # Asked before the database: what is read after a change is then never kept under the marker before it.
        marker = self._marker()
        item = self._recall(key, marker)
        if item is not None and item.is_fresh():
            return cast("Value", item.value)
        # One thread asks: after a change all of them want the same item, and each would have to connect.
        turn = self._turns[hash(key) % _TURNS]
        if not turn.acquire(timeout=0 if item is not None else READ_SECONDS):
            if item is None:
                raise DatabaseUnavailable  # it has waited as long as the thread that asks
            return cast("Value", item.value)
        try:
            return self._read(key, marker, read)
        finally:
            turn.release()

    def _read(self, key: tuple[str, str], marker: str | None, read: Callable[[], Value | None]) -> Value | None:
        item = self._recall(key, marker)
        if item is not None and item.is_fresh():
            return cast("Value", item.value)
        started = monotonic()
        try:
            value = self._ask(read, READ_SECONDS if item is None else RENEW_SECONDS)
        except DatabaseUnavailable:
            if item is None:
                raise
            return cast("Value", item.value)
        self._keep(key, value, marker, started)
        return value

    def _recall(self, key: tuple[str, str], marker: str | None) -> _Item | None:
        with self._lock:
            item = self._items.get(key)
            if item is None or item.marker != marker:
                return None
            self._items.move_to_end(key)
            return item

    def _keep(self, key: tuple[str, str], value: Any, marker: str | None, read_at: float) -> None:
        with self._lock:
            if value is None:
                self._items.pop(key, None)
            elif marker is not None:
                self._items[key] = _Item(value, marker, read_at)
                self._items.move_to_end(key)
                _shorten(self._items, self._capacity)

    def _ask(self, question: Callable[[], Value], seconds: float) -> Value:
        """Ask the database within so many seconds. Raises DatabaseUnavailable, at once where it was so a moment ago."""
        self._refuse_in_pause()
        connection = connections["default"]
        if not connection.in_atomic_block:
            # As Django does at the beginning of each of its own requests: too old, or broken by the last question.
            connection.close_if_unusable_or_obsolete()
        try:
            with answer_within(seconds):
                answer = question()
        except (OperationalError, InterfaceError) as error:
            if self._retry_at is None:
                logger.error("state_database_unavailable", reason=f"{type(error).__name__}: {error}")
            self._retry_at = monotonic() + PAUSE_SECONDS
            raise DatabaseUnavailable from error
        except Error:
            self._retry_at = None  # a refusal is an answer
            raise
        self._retry_at = None
        return answer

    def _refuse_in_pause(self) -> None:
        """Raise DatabaseUnavailable in a pause; as it ends, one thread gets through, the others when that succeeds."""
        with self._lock:
            now = monotonic()
            if self._retry_at is None:
                return
            if now < self._retry_at:
                raise DatabaseUnavailable
            self._retry_at = now + PAUSE_SECONDS


def _read_endpoint(name: str, identifier: str | None) -> Version | None:
    match = Q(name=name) if identifier is None else Q(name=name) | Q(pk=identifier)
    row = Endpoint.objects.filter(match, version__gt=0).first()
    return None if row is None else row.as_version()


@lru_cache(maxsize=CAPACITY)
def _as_uuid(reference: str) -> str | None:
    """Return a UUID in its one usual form, or None for a name."""
    try:
        return str(uuid.UUID(reference))
    except ValueError:
        return None


def _read_access_token(prefix: str) -> KnownToken | None:
    token = AccessToken.objects.filter(prefix=prefix).first()
    if token is None:
        return None
    return KnownToken(
        pk=token.pk,
        name=token.name,
        prefix=token.prefix,
        secret_hash=token.secret_hash,
        endpoint_ids=(
            None if token.every_endpoint else frozenset(map(str, token.endpoints.values_list("pk", flat=True)))
        ),
        bound_arguments=token.bound_arguments,
        may_purge=token.may_purge,
        may_load=token.may_load,
        load_sources=frozenset(token.load_sources),
        default_project=token.default_project,
        may_issue=token.may_issue,
        allowed_origins=frozenset(token.allowed_origins),
        limits=OwnLimits.of(token),
        expires_at=token.expires_at,
        revoked_at=token.revoked_at,
        last_used_at=token.last_used_at,
    )


def _read_origins() -> frozenset[str]:
    issuers = AccessToken.objects.filter(revoked_at=None, may_issue=True).exclude(allowed_origins=[])
    lists = issuers.values_list("allowed_origins", flat=True)
    return frozenset(origin for origins in lists for origin in origins)


def _shorten(items: OrderedDict[Any, Any], capacity: int) -> None:
    while len(items) > capacity:
        items.popitem(last=False)


KNOWN_RECORDS: Final = KnownRecords(current_marker)
