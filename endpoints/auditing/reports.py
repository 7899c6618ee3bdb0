"""What pages and alerts read of the audit log: calls over time, by endpoint and access token, the slowest, the refused.

Counts and durations come from the sums by minute and hour, which contain every call; single calls from the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

import orjson
from django.db import connection

from endpoints.auditing.call_entries import NO_ENDPOINT
from endpoints.cache.usage import Durations
from endpoints.cache.usage.recent_calls import BUCKETS

_SLOWEST_LOOKED_AT: Final = 500


class Period(StrEnum):
    """How far back a report goes."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"

    @property
    def step(self) -> timedelta:
        """The time of one point of a chart."""
        return {"hour": timedelta(minutes=1), "day": timedelta(hours=1), "week": timedelta(hours=6)}[self.value]

    @property
    def points(self) -> int:
        return {"hour": 60, "day": 24, "week": 28}[self.value]

    def start(self, now: datetime) -> datetime:
        """Return when the first point begins, so that the last one contains `now`."""
        step = self.step.total_seconds()
        end = datetime.fromtimestamp(now.timestamp() // step * step, now.tzinfo) + self.step
        return end - self.points * self.step

    @property
    def table(self) -> str:
        return "endpoints_call_minute" if self is Period.HOUR else "endpoints_call_hour"


@dataclass(frozen=True, slots=True)
class Scope:
    """Which calls a report is about: of one endpoint (a UUID), of one access token (its prefix), "" for all."""

    endpoint_id: str = ""
    prefix: str = ""

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of _IN_SCOPE."""
        return {"endpoint_id": self.endpoint_id or None, "prefix": self.prefix}


_IN_SCOPE: Final = (
    " AND (%(endpoint_id)s::uuid IS NULL OR endpoint_id = %(endpoint_id)s) AND (%(prefix)s = '' OR prefix = %(prefix)s)"
)


@dataclass(frozen=True, slots=True)
class Figures:
    """Counts of calls and how long they took, without refused ones."""

    calls: int = 0
    refused: int = 0
    failed: int = 0
    cached: int = 0
    durations: Durations = field(default_factory=Durations)

    @property
    def cached_share(self) -> float | None:
        """The share of answered calls that the cache answered, 0 to 1; None if there were none."""
        answered = self.calls - self.refused - self.failed
        return self.cached / answered if answered else None


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Figures of a period: of each point of it in order, of each endpoint id and prefix that was in use, of all."""

    start: datetime
    points: tuple[Figures, ...]
    by_endpoint: Mapping[str, Figures]
    by_prefix: Mapping[str, Figures]
    total: Figures


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A row of the audit log; `calls` is more than one for refused calls that were counted together."""

    at: datetime
    request_id: str
    kind: str
    endpoint_id: str
    endpoint: str
    version: int
    caller: str
    prefix: str
    argument_names: tuple[str, ...]
    argument_values: Mapping[str, str]
    cache: str
    status: int
    error_code: str
    rows: int
    milliseconds: float
    calls: int
    reason: str = ""

    @property
    def arguments(self) -> str:
        """The arguments in one line, with their values where the endpoint has them recorded."""
        known = self.argument_values
        return ", ".join(f"{name}={known[name]}" if name in known else name for name in self.argument_names)

    def without_values(self) -> RecordedCall:
        """Return it for people who may not see the values of arguments; a log source is no secret."""
        return replace(self, argument_values={}) if self.endpoint_id else self


@dataclass(frozen=True, slots=True)
class SlowArguments:
    """The slowest calls of an endpoint with the same arguments, as far as those are recorded."""

    slowest: RecordedCall
    calls: int


@dataclass(frozen=True, slots=True)
class Refusals:
    """Refused calls of one access token at one endpoint for one reason."""

    caller: str
    prefix: str
    endpoint: str
    kind: str
    status: int
    error_code: str
    calls: int
    last_at: datetime


# --- Figures ----------------------------------------------------------------------------------------------------------
_SUMS: Final = """
SELECT date_bin(%(step)s, start, %(since)s) AS point, endpoint_id::text, prefix,
       sum(calls), sum(refused), sum(failed), sum(cached)
FROM {table} WHERE start >= %(since)s{scope}
GROUP BY GROUPING SETS ((1), (2), (3), ())
"""
_DURATIONS: Final = """
SELECT date_bin(%(step)s, start, %(since)s) AS point, endpoint_id::text, prefix, each.place, sum(each.calls)
FROM {table}, unnest(durations) WITH ORDINALITY AS each(calls, place)
WHERE start >= %(since)s{scope} AND each.calls > 0
GROUP BY GROUPING SETS ((1, 4), (2, 4), (3, 4), (4))
"""
_TOTALS: Final = (
    """
SELECT coalesce(sum(calls), 0), coalesce(sum(refused), 0), coalesce(sum(failed), 0), coalesce(sum(cached), 0)
FROM endpoints_call_minute WHERE start BETWEEN %(since)s AND %(until)s"""
    + _IN_SCOPE
)
_TOTALS_BY_ENDPOINT: Final = """
SELECT endpoint_id::text, sum(calls), sum(refused), sum(failed), sum(cached)
FROM endpoints_call_minute WHERE start BETWEEN %(since)s AND %(until)s GROUP BY 1
"""
_Key = tuple[Any, Any, Any]


def usage_over(period: Period, *, now: datetime, scope: Scope = Scope()) -> UsageReport:
    """Return the figures of the period that ends now. Raises django.db.Error."""
    start = period.start(now)
    parameters = {"step": period.step, "since": start, **scope.parameters()}
    counts: dict[_Key, Sequence[int]] = {}
    durations: dict[_Key, list[int]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_SUMS.format(table=period.table, scope=_IN_SCOPE), parameters)
        for *key, calls, refused, failed, cached in cursor.fetchall():
            counts[tuple(key)] = [int(each or 0) for each in (calls, refused, failed, cached)]
        cursor.execute(_DURATIONS.format(table=period.table, scope=_IN_SCOPE), parameters)
        for *key, place, number in cursor.fetchall():
            durations.setdefault(tuple(key), [0] * BUCKETS)[place - 1] = int(number)

    def figures(key: _Key) -> Figures:
        calls, refused, failed, cached = counts.get(key, (0, 0, 0, 0))
        return Figures(calls, refused, failed, cached, Durations(tuple(durations.get(key, [0] * BUCKETS))))

    moments = [start + number * period.step for number in range(period.points)]
    return UsageReport(
        start=start,
        points=tuple(figures((moment, None, None)) for moment in moments),
        by_endpoint={key[1]: figures(key) for key in counts if key[1] not in (None, NO_ENDPOINT)},
        by_prefix={key[2]: figures(key) for key in counts if key[2]},
        total=figures((None, None, None)),
    )


def figures_since(since: datetime, *, until: datetime, scope: Scope) -> Figures:
    """Return the counts of calls between two moments, by whole minutes, at most a day back. Raises django.db.Error."""
    with connection.cursor() as cursor:
        cursor.execute(_TOTALS, {"since": since, "until": until, **scope.parameters()})
        calls, refused, failed, cached = map(int, cursor.fetchone())
    return Figures(calls, refused, failed, cached)


def figures_by_endpoint(since: datetime, *, until: datetime) -> dict[str, Figures]:
    """Return the counts of calls between two moments by endpoint id, by whole minutes. Raises django.db.Error."""
    with connection.cursor() as cursor:
        cursor.execute(_TOTALS_BY_ENDPOINT, {"since": since, "until": until})
        return {
            endpoint_id: Figures(int(calls), int(refused), int(failed), int(cached))
            for endpoint_id, calls, refused, failed, cached in cursor.fetchall()
        }


# --- Rows -------------------------------------------------------------------------------------------------------------
_ROWS: Final = """
SELECT at, request_id, kind, coalesce(endpoint_id::text, ''), endpoint, version, caller, prefix, argument_names,
       argument_values::text, cache, status, error_code, result_rows, milliseconds, calls, reason
FROM endpoints_call WHERE at >= %(since)s{scope}
"""
_SLOWEST: Final = (
    _ROWS + "AND status < 400 AND endpoint_id IS NOT NULL ORDER BY milliseconds DESC LIMIT %(limit)s"
).format(scope=_IN_SCOPE)
_NEWEST: Final = (_ROWS + "AND at < %(before)s AND status >= %(status)s ORDER BY at DESC LIMIT %(limit)s").format(
    scope=_IN_SCOPE
)
_REFUSED: Final = f"""
SELECT caller, prefix, endpoint, kind, status, error_code, sum(calls)::bigint, max(at) FROM endpoints_call
WHERE status >= 400 AND status < 500 AND at >= %(since)s{_IN_SCOPE}
GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY 7 DESC, 8 DESC LIMIT %(limit)s
"""  # noqa: S608  # of constants


def _recorded(row: Sequence[Any]) -> RecordedCall:
    fields: list[Any] = [*row[:8], tuple(row[8]), orjson.loads(row[9]) if row[9] else {}, *row[10:]]
    return RecordedCall(*fields)


def slowest_arguments(since: datetime, *, scope: Scope, limit: int, with_values: bool) -> list[SlowArguments]:
    """Return the slowest answered calls since then, those with the same endpoint and arguments together.

    Of the 500 slowest calls; without values the names of the arguments are what is the same. Raises django.db.Error.
    """
    with connection.cursor() as cursor:
        cursor.execute(_SLOWEST, {"since": since, "limit": _SLOWEST_LOOKED_AT, **scope.parameters()})
        rows = [call if with_values else call.without_values() for call in map(_recorded, cursor.fetchall())]
    found: dict[tuple[str, str], SlowArguments] = {}
    for row in rows:
        key = (row.endpoint_id, row.arguments)
        before = found.get(key)
        found[key] = SlowArguments(row if before is None else before.slowest, 1 if before is None else before.calls + 1)
    return list(found.values())[:limit]


def refusals(since: datetime, *, scope: Scope, limit: int) -> list[Refusals]:
    """Return who was refused since then and why, the most frequent first. Raises django.db.Error."""
    with connection.cursor() as cursor:
        cursor.execute(_REFUSED, {"since": since, "limit": limit, **scope.parameters()})
        return [Refusals(*row) for row in cursor.fetchall()]


def recorded_calls(
    *, before: datetime, since: datetime, scope: Scope, limit: int, only_failed: bool = False
) -> list[RecordedCall]:
    """Return the calls of a time, the newest first. Raises django.db.Error."""
    status = 400 if only_failed else 0
    with connection.cursor() as cursor:
        parameters: dict[str, Any] = {"before": before, "since": since, "status": status, "limit": limit}
        cursor.execute(_NEWEST, parameters | scope.parameters())
        return list(map(_recorded, cursor.fetchall()))


def calls_without_rows(since: datetime) -> int:
    """Return how many calls have no row of their own: sampled out, or dropped. Raises django.db.Error."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT coalesce(sum(left_out), 0) FROM endpoints_call_day WHERE day >= %s", [since.date()])
        return int(cursor.fetchone()[0])
