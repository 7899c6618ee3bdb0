"""Checks alerts: reads each one's value, keeps whether it fires, and has messages made when that changes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from math import isfinite
from time import monotonic
from typing import Final

import orjson
import structlog
from django.db import Error
from django.db.models import F, Q
from django.utils import timezone

from endpoints.alerting.messages import counted_since, make_message, may_send
from endpoints.auditing.reports import Scope, figures_since
from endpoints.calling.calls import run_endpoint
from endpoints.calling.query_requests import Call
from endpoints.errors import EndpointError
from endpoints.models import Alert, AlertCondition, MessageKind

EVERY: Final = timedelta(seconds=50)  # beat comes once a minute, sometimes a little early
EVALUATION_SECONDS: Final = 120.0  # of one run; those that it does not reach are first in the next
_PROBLEM_CHARACTERS: Final = 300

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Reading:
    """An alert's value, None if there is none (no calls, no rows), and whether it fires by it."""

    value: float | None
    is_firing: bool


class NotReadable(Exception):
    """The value cannot be known at the moment; the text says why, for operators."""


def evaluate_alerts(*, now: datetime | None = None) -> None:
    """Check every enabled alert that is due, the longest unchecked first; several workers share them."""
    started, now = monotonic(), now or timezone.now()
    # A later moment was noted by a clock that was ahead.
    due = ~Q(evaluated_at__gt=now - EVERY, evaluated_at__lt=now + EVERY)
    alerts = Alert.objects.filter(due, enabled=True).select_related("endpoint")
    for alert in alerts.order_by(F("evaluated_at").asc(nulls_first=True)):
        if monotonic() - started > EVALUATION_SECONDS:
            break
        if Alert.objects.filter(due, pk=alert.pk).update(evaluated_at=now):  # or another worker has it
            _evaluate(alert, now=now)


def _evaluate(alert: Alert, *, now: datetime) -> None:
    try:
        reading = read_value(alert, now=now)
    except Exception as error:  # of any kind: other alerts, and the messages of all, wait behind this one
        is_known = isinstance(error, NotReadable)
        reason = str(error) if is_known else "An internal error; the log has it."
        # Neither firing nor resolved: the state stays what it was, and the page says that it is not checked.
        Alert.objects.filter(pk=alert.pk).update(problem=reason[:_PROBLEM_CHARACTERS])
        logger.warning("alert_not_checked", alert=alert.name, reason=reason, exc_info=not is_known)
        return
    if reading.is_firing != alert.is_firing:
        alert.changed_at = now
        logger.info("alert_changed", alert=alert.name, firing=reading.is_firing, value=reading.value)
    alert.is_firing, alert.last_value, alert.problem = reading.is_firing, reading.value, ""
    kind = _message_due(alert, now=now)
    if kind is not None and may_send(alert, now=now):
        make_message(alert, kind, now=now)
        alert.told_firing = alert.is_firing
    alert.save(update_fields=["is_firing", "told_firing", "last_value", "problem", "changed_at"])


def _message_due(alert: Alert, *, now: datetime) -> MessageKind | None:
    """Compare with what was told last: what the bound on messages held back is told as soon as it allows."""
    if alert.is_firing != alert.told_firing:
        return MessageKind.FIRING if alert.is_firing else MessageKind.RESOLVED
    if alert.is_firing and alert.remind_minutes:
        since = now - timedelta(minutes=alert.remind_minutes)
        if not alert.messages.exclude(kind=MessageKind.TEST).filter(created_at__range=(since, now)).exists():
            return MessageKind.REMINDER
    return None


# --- Values -----------------------------------------------------------------------------------------------------------
def read_value(alert: Alert, *, now: datetime) -> Reading:
    """Return the value of an alert at this moment. Raises NotReadable."""
    if alert.condition == AlertCondition.VALUE:
        return _value_of_result(alert)
    scope = Scope(endpoint_id="" if alert.endpoint_id is None else str(alert.endpoint_id))
    try:
        figures = figures_since(counted_since(alert, now=now), until=now, scope=scope)
    except Error as error:
        raise NotReadable("Django's database does not answer.") from error
    match alert.condition:
        case AlertCondition.REFUSED_COUNT:
            value: float | None = figures.refused
        case AlertCondition.FAILED_COUNT:
            value = figures.failed
        case _:
            is_enough = figures.calls > 0 and figures.calls >= alert.minimum_calls
            value = 100 * figures.failed / figures.calls if is_enough else None
    return Reading(value, is_firing=value is not None and value > alert.threshold)


def _value_of_result(alert: Alert) -> Reading:
    """Run the endpoint as its operator: its tenant, limits, cache and redaction hold. The furthest value counts.

    A stale result, which callers get in an outage, says nothing of this moment: then the value cannot be read.
    """
    if alert.endpoint is None:
        raise NotReadable("It has no endpoint.")
    try:
        answer = run_endpoint(str(alert.endpoint.pk), call=Call(arguments=alert.arguments), takes_stale=False)
    except EndpointError as error:
        reasons = "; ".join(f"{each.get('name')}: {each.get('reason')}" for each in error.details)
        raise NotReadable(f"{error.code}: {error.message} {reasons}".strip()) from error
    rows = orjson.loads(answer.outcome.body)["result"]
    if rows and alert.column not in rows[0]:
        raise NotReadable(f"The result has no column {alert.column}.")
    numbers = [_number(row[alert.column], alert.column) for row in rows if row[alert.column] is not None]
    if not numbers:
        return Reading(None, is_firing=False)
    value = min(numbers) if alert.fires_below else max(numbers)
    return Reading(value, is_firing=value < alert.threshold if alert.fires_below else value > alert.threshold)


def _number(value: object, column: str) -> float:
    try:
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else None
    except (ValueError, OverflowError):
        number = None
    if number is None or not isfinite(number):
        raise NotReadable(f"A value of the column {column} is not a number.")
    return number
