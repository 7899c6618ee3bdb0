"""The partitions of the audit log: a few days ahead, and no more than are kept."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from endpoints.auditing import call_queue
from endpoints.auditing.call_log import CallLog
from endpoints.auditing.call_partitions import make_partitions, roll_call_partitions
from endpoints.cache.usage import RecentCall
from endpoints.tasks import roll_call_partitions as task

pytestmark = [pytest.mark.django_db, pytest.mark.sql]
TODAY = date(2031, 5, 7)


def partitions() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'endpoints_call'::regclass ORDER BY 1"
        )
        return [name for (name,) in cursor.fetchall()]


def names(*days: date) -> list[str]:
    return [f"endpoints_call_d{day:%Y%m%d}" for day in days]


def test_makes_today_and_three_days_and_is_repeatable(audit_log: CallLog) -> None:
    for _ in range(2):
        roll_call_partitions(today=TODAY)
        assert partitions() == names(*(TODAY + timedelta(days=ahead) for ahead in range(4)))


def test_drops_what_is_no_longer_kept(audit_log: CallLog, settings: Any) -> None:
    settings.ENDPOINTS_AUDIT_DAYS = 2
    make_partitions([TODAY - timedelta(days=back) for back in range(5)])
    at = datetime(2031, 5, 3, 12, tzinfo=UTC).timestamp()
    call_queue.note((RecentCall(at, "a", "b", 200, "", 1, 1.0, "hit", 1), None, "", "query", {}, False))
    audit_log.flush()
    roll_call_partitions(today=TODAY)
    assert partitions()[0] == names(TODAY - timedelta(days=2))[0]
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM endpoints_call_hour")
        assert cursor.fetchone() == (0,)
        cursor.execute("SELECT count(*) FROM endpoints_call_day")
        assert cursor.fetchone() == (0,)


def test_drops_everything_if_the_log_is_switched_off(audit_log: CallLog, settings: Any) -> None:
    make_partitions([TODAY])
    settings.ENDPOINTS_AUDIT_DAYS = 0
    roll_call_partitions(today=TODAY)
    assert partitions() == []


def test_beat_rolls_them(audit_log: CallLog) -> None:
    task()
    assert names(datetime.now(UTC).date())[0] in partitions()
