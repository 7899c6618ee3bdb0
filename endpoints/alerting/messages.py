"""Messages of alerts: stored first, then delivered; what fails is tried again later, and given up at last.

At most MESSAGES_AN_HOUR of one alert are made in an hour, tests apart. A newer message takes the place of an older one
that is still undelivered: the webhook then learns the present state, not that of an hour ago.
"""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta
from time import monotonic
from typing import Any, Final

import orjson
import structlog
from django.db.models import F, Q
from django.utils import timezone

from endpoints.access.sealing import Seal, SealBroken
from endpoints.alerting.webhooks import WebhookFailed, WebhookRefused, post
from endpoints.auditing.reports import figures_by_endpoint
from endpoints.models import Alert, AlertCondition, AlertMessage, Endpoint, MessageKind

MESSAGES_AN_HOUR: Final = 10
ENDPOINTS_NAMED: Final = 5  # in a message of an alert on every endpoint
ATTEMPTS: Final = 7
FIRST_WAIT: Final = timedelta(minutes=1)  # doubled after each attempt: the last one comes an hour after the first
LONGEST_WAIT: Final = FIRST_WAIT * 2**ATTEMPTS
DELIVERY_SECONDS: Final = 60.0  # of one run; the next one goes on
KEPT: Final = timedelta(days=14)
_PROBLEM_CHARACTERS: Final = 300
_SEAL: Final = Seal(b"log query endpoints: secrets of alerts")

logger = structlog.get_logger(__name__)


# --- Secrets ----------------------------------------------------------------------------------------------------------
def give_secret(alert: Alert) -> str:
    """Give an alert a new secret and return it: the only moment anybody sees it. The caller saves the alert."""
    secret = f"lqa_{secrets.token_urlsafe(32)}"
    alert.sealed_secret = _SEAL.seal(secret.encode(), _bound_to(alert))
    return secret


def _secret_of(alert: Alert) -> str:
    return _SEAL.unseal(bytes(alert.sealed_secret), _bound_to(alert)).decode()


def _bound_to(alert: Alert) -> str:
    # Whoever can write the row could otherwise have this secret sign for an address of their own.
    return alert.webhook_url


def move_secret(alert: Alert, before: Alert) -> None:
    """Keep the secret of an alert whose address a person has changed; the caller saves it. Raises SealBroken."""
    if alert.webhook_url != before.webhook_url:
        alert.sealed_secret = _SEAL.seal(_secret_of(before).encode(), _bound_to(alert))


# --- Making -----------------------------------------------------------------------------------------------------------
def may_send(alert: Alert, *, now: datetime) -> bool:
    """Tell whether this alert has messages left in the last hour."""
    recent = alert.messages.filter(created_at__range=(now - timedelta(hours=1), now)).exclude(kind=MessageKind.TEST)
    return recent.count() < MESSAGES_AN_HOUR


def make_message(alert: Alert, kind: MessageKind, *, now: datetime) -> AlertMessage:
    """Store a message for delivery; older ones of the alert that are not delivered yet are given up."""
    alert.messages.filter(due_at__isnull=False).update(due_at=None, problem="a newer message has taken its place")
    message = AlertMessage(alert=alert, kind=kind, created_at=now, due_at=now)
    message.body = orjson.dumps(
        {
            "id": str(message.pk),
            "kind": kind.value,
            "alert": alert.name,
            "endpoint": alert.endpoint.name if alert.endpoint else None,
            "endpoints": [] if alert.endpoint else _most_counted(alert, now=now),
            "condition": alert.condition,
            "column": alert.column or None,
            "threshold": alert.threshold,
            "fires_below": alert.fires_below,
            "minutes": alert.minutes,
            "value": alert.last_value,
            "firing": alert.is_firing,
            "at": now.isoformat(),
        }
    ).decode()
    message.save(force_insert=True)
    return message


def counted_since(alert: Alert, *, now: datetime) -> datetime:
    """Return from when on the alert counts calls: this minute, which has only begun, and those before."""
    return now.replace(second=0, microsecond=0) - timedelta(minutes=alert.minutes)


def _most_counted(alert: Alert, *, now: datetime) -> list[dict[str, Any]]:
    """Return the endpoints with most of the calls that the alert counts; without a name: of no endpoint, or deleted."""
    is_refused = alert.condition == AlertCondition.REFUSED_COUNT
    figures = figures_by_endpoint(counted_since(alert, now=now), until=now)
    calls = {pk: each.refused if is_refused else each.failed for pk, each in figures.items()}
    most = sorted((pk for pk in calls if calls[pk]), key=calls.__getitem__, reverse=True)[:ENDPOINTS_NAMED]
    names = {str(pk): name for pk, name in Endpoint.objects.filter(pk__in=most).values_list("pk", "name")}
    return [{"endpoint": names.get(pk), "calls": calls[pk]} for pk in most]


def send_test(alert: Alert) -> AlertMessage:
    """Send a test message at once, one attempt; return it as it ended."""
    now = timezone.now()
    message = make_message(alert, MessageKind.TEST, now=now)
    _attempt(message, now=now)
    AlertMessage.objects.filter(pk=message.pk).update(due_at=None)
    message.refresh_from_db()
    return message


# --- Delivering -------------------------------------------------------------------------------------------------------
def deliver_messages(*, now: datetime | None = None) -> None:
    """Try every message that is due, new ones first; several workers share them. Forgets those of two weeks ago."""
    started, now = monotonic(), now or timezone.now()
    is_due = Q(due_at__lte=now) | Q(due_at__gt=now + LONGEST_WAIT)  # noted by a clock that was ahead
    due = AlertMessage.objects.filter(is_due).select_related("alert").order_by("attempts", "due_at")
    for message in due[:500]:
        if monotonic() - started > DELIVERY_SECONDS:
            break
        _attempt(message, now=now)
    AlertMessage.objects.filter(created_at__lt=now - KEPT).delete()


def _attempt(message: AlertMessage, *, now: datetime) -> None:
    """Try once. The next attempt is noted before this one: a worker that is killed loses no message."""
    attempts = message.attempts + 1
    later = now + FIRST_WAIT * 2**message.attempts if attempts < ATTEMPTS else None
    mine = AlertMessage.objects.filter(pk=message.pk, attempts=message.attempts, due_at=message.due_at)
    if not mine.update(attempts=F("attempts") + 1, due_at=later):
        return  # another worker has it
    own = AlertMessage.objects.filter(pk=message.pk)
    try:
        post(
            message.alert.webhook_url,
            message.body.encode(),
            secret=_secret_of(message.alert),
            message_id=str(message.pk),
            timestamp=int(timezone.now().timestamp()),
        )
    except Exception as error:  # of any kind: the messages of other alerts wait behind this one
        problem = str(error) or "its secret cannot be read: SECRET_KEY has changed; make a new secret"
        if not isinstance(error, WebhookFailed | SealBroken):
            problem = "an internal error; the log has it"
            logger.exception("alert_delivery_broken", alert=message.alert.name)
        logger.warning("alert_not_delivered", alert=message.alert.name, attempts=attempts, reason=problem)
        own.update(problem=problem[:_PROBLEM_CHARACTERS])
        if isinstance(error, WebhookRefused | SealBroken):
            own.update(due_at=None)
    else:
        logger.info("alert_delivered", alert=message.alert.name, kind=message.kind)
        own.update(due_at=None, delivered_at=timezone.now(), problem="")
