"""What is read of the audit log: every call once, in the right place of the chart."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from endpoints.auditing import call_queue
from endpoints.auditing.call_log import CallLog
from endpoints.auditing.reports import (
    Period,
    Scope,
    calls_without_rows,
    figures_since,
    recorded_calls,
    refusals,
    slowest_arguments,
    usage_over,
)
from endpoints.cache.usage import RecentCall
from endpoints.defining.saving import save_endpoint
from endpoints.definition import Version
from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter

pytestmark = pytest.mark.django_db
NOW = datetime(2031, 5, 7, 12, 30, 30, tzinfo=UTC)


def endpoint(name: str = "test.read", **settings: bool) -> Version:
    saved = save_endpoint(
        Endpoint(name=name, sql="SELECT @word::text AS word", **settings), [DeclaredParameter("word")]
    )
    return saved.as_version()


def note(
    ago: timedelta, of: Version | None = None, *, status: int = 200, ms: float = 2.0, cache: str = "miss",
    prefix: str = "0123456789ab", word: str = "",
) -> None:  # fmt: skip
    code = "" if status < 400 else "query_timeout" if status >= 500 else "argument_not_allowed"
    call = RecentCall((NOW - ago).timestamp(), "reports", prefix, status, code, 1, ms, cache, 1)
    call_queue.note((call, of, "", "query", {"word": word} if word else {}, False))


@pytest.mark.parametrize(
    ("period", "start"),
    [
        (Period.HOUR, datetime(2031, 5, 7, 11, 31, tzinfo=UTC)),
        (Period.DAY, datetime(2031, 5, 6, 13, tzinfo=UTC)),
        (Period.WEEK, datetime(2031, 4, 30, 18, tzinfo=UTC)),
    ],
)
def test_a_period_ends_with_the_point_that_contains_now(period: Period, start: datetime) -> None:
    assert period.start(NOW) == start
    assert start + period.points * period.step > NOW >= start + (period.points - 1) * period.step


def test_counts_each_call_in_its_point_and_by_endpoint_and_access_token(audit_log: CallLog) -> None:
    one, other = endpoint(), endpoint("test.other")
    note(timedelta(seconds=5), one, cache="hit", ms=1.0)
    note(timedelta(seconds=70), one, ms=100.0)
    note(timedelta(minutes=10), other, status=504, ms=9000.0)
    note(timedelta(minutes=20), other, status=403, prefix="ba9876543210")
    note(timedelta(minutes=90), one)
    audit_log.flush()
    hour = usage_over(Period.HOUR, now=NOW)
    assert [point.calls for point in hour.points[-21:]] == [1, *[0] * 9, 1, *[0] * 8, 1, 1]
    assert (hour.total.calls, hour.total.refused, hour.total.failed, hour.total.cached) == (4, 1, 1, 1)
    assert hour.total.cached_share == 0.5
    assert {key: figures.calls for key, figures in hour.by_endpoint.items()} == {str(one.pk): 2, str(other.pk): 2}
    assert {key: figures.calls for key, figures in hour.by_prefix.items()} == {"0123456789ab": 3, "ba9876543210": 1}
    assert 75 < (hour.points[-2].durations.quantile_ms(0.5) or 0) < 135
    assert usage_over(Period.DAY, now=NOW).total.calls == 5
    assert [point.calls for point in usage_over(Period.WEEK, now=NOW).points[-2:]] == [1, 4]
    assert usage_over(Period.DAY, now=NOW, scope=Scope(str(one.pk))).total.calls == 3
    assert usage_over(Period.DAY, now=NOW, scope=Scope(prefix="ba9876543210")).total.refused == 1
    assert figures_since(NOW - timedelta(minutes=15), until=NOW, scope=Scope()).calls == 3


def test_slowest_arguments_have_values_only_where_they_are_recorded(audit_log: CallLog) -> None:
    plain, recording = endpoint(), endpoint("test.recording", record_argument_values=True)
    for word in ("a", "b"):
        note(timedelta(minutes=1), plain, word=word, ms=50.0)
        note(timedelta(minutes=1), recording, word=word, ms=70.0 if word == "a" else 60.0)
    audit_log.flush()
    found = slowest_arguments(NOW - timedelta(hours=1), scope=Scope(), limit=10, with_values=True)
    assert [(slow.slowest.endpoint, slow.slowest.arguments, slow.calls) for slow in found] == [
        ("test.recording", "word=a", 1),
        ("test.recording", "word=b", 1),
        ("test.read", "word", 2),
    ]
    found = slowest_arguments(NOW - timedelta(hours=1), scope=Scope(), limit=10, with_values=False)
    assert [(slow.slowest.arguments, slow.calls) for slow in found] == [("word", 2), ("word", 2)]


def test_refusals_add_up_what_was_counted_together(audit_log: CallLog, monkeypatch: pytest.MonkeyPatch) -> None:
    one = endpoint()
    monkeypatch.setattr(call_queue, "REFUSALS_A_MINUTE", 2)
    for _ in range(7):
        call = RecentCall(NOW.timestamp(), "reports", "0123456789ab", 403, "argument_not_allowed", 0, 1.0, "", 1)
        call_queue.note_refusal((call, one, "", "query", {}, False))
    audit_log.flush()  # by the real clock that minute is over
    (found,) = refusals(NOW - timedelta(hours=1), scope=Scope(), limit=10)
    assert (found.caller, found.endpoint, found.status, found.error_code, found.calls) == (
        "reports", "test.read", 403, "argument_not_allowed", 7,
    )  # fmt: skip


def test_lists_calls_newest_first_and_page_by_page(audit_log: CallLog) -> None:
    one = endpoint()
    for minutes in range(5):
        note(timedelta(minutes=minutes), one, status=504 if minutes == 3 else 200)
    audit_log.flush()
    since = NOW - timedelta(hours=1)
    first = recorded_calls(before=NOW + timedelta(seconds=1), since=since, scope=Scope(), limit=2)
    second = recorded_calls(before=first[-1].at, since=since, scope=Scope(), limit=2)
    assert [call.at for call in (*first, *second)] == [NOW - timedelta(minutes=minutes) for minutes in range(4)]
    failed = recorded_calls(before=NOW, since=since, scope=Scope(), limit=10, only_failed=True)
    assert [call.status for call in failed] == [504]


def test_says_how_many_calls_have_no_row(audit_log: CallLog, settings: Any) -> None:
    settings.ENDPOINTS_AUDIT_ROWS_A_DAY = 4
    for _ in range(22):
        note(timedelta(minutes=1), None)
    audit_log.flush()
    assert calls_without_rows(NOW - timedelta(hours=1)) == 18
