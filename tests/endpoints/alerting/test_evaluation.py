"""When an alert fires, what it sends then, and what keeps it from sending more."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import orjson
import pytest
from django.core.exceptions import ValidationError
from django.db import connection
from django.utils import timezone

from endpoints.alerting import evaluation, messages, webhooks
from endpoints.alerting.evaluation import evaluate_alerts
from endpoints.alerting.messages import deliver_messages, give_secret, send_test
from endpoints.alerting.webhooks import signature
from endpoints.auditing import call_queue
from endpoints.auditing.call_log import CallLog
from endpoints.cache.usage import RecentCall
from endpoints.calling.calls import run_endpoint
from endpoints.calling.query_requests import Call
from endpoints.defining.saving import save_endpoint
from endpoints.models import Alert, AlertMessage, Endpoint
from endpoints.sql.parameters import DeclaredParameter
from tests.endpoints.alerting.receiver import Receiver
from tests.endpoints.conftest import age_results

pytestmark = pytest.mark.django_db


def define(name: str = "test.watched", sql: str = "SELECT @n::int AS n", **settings: Any) -> Endpoint:
    return save_endpoint(Endpoint(name=name, sql=sql, **settings), [DeclaredParameter("n")] if "@n" in sql else [])


@pytest.fixture
def make(receiver: Receiver) -> Callable[..., Alert]:
    def make_alert(**values: Any) -> Alert:
        alert = Alert(**{"name": "test alert", "threshold": 50.0, "webhook_url": receiver.url, **values})
        give_secret(alert)
        alert.full_clean()
        alert.save()
        return alert

    return make_alert


def note(endpoint: Endpoint, *, failed: int = 0, answered: int = 0, refused: int = 0, at: datetime) -> None:
    for status, number in ((504, failed), (200, answered), (403, refused)):
        for _ in range(number):
            call = RecentCall(at.timestamp(), "reports", "0123456789ab", status, "", 1, 2.0, "miss", 1)
            call_queue.note((call, endpoint.as_version(), "", "query", {}, False))


def kinds(receiver: Receiver) -> list[str]:
    return [orjson.loads(body)["kind"] for _, _, body in receiver.received]


def check(now: datetime) -> None:
    evaluate_alerts(now=now)
    deliver_messages(now=now)


def test_fires_resolves_and_says_so_once(audit_log: CallLog, receiver: Receiver, make: Callable[..., Alert]) -> None:
    endpoint, now = define(), timezone.now()
    alert = make(endpoint=endpoint, minutes=5)
    note(endpoint, failed=6, answered=4, at=now)
    audit_log.flush()
    for minute in range(3):
        check(now + timedelta(minutes=minute))
    alert.refresh_from_db()
    assert (kinds(receiver), alert.is_firing, alert.last_value) == (["firing"], True, 60.0)
    for minute in range(7, 9):
        check(now + timedelta(minutes=minute))
    alert.refresh_from_db()
    assert (kinds(receiver), alert.is_firing) == (["firing", "resolved"], False)
    first = orjson.loads(receiver.received[0][2])
    assert {name: first[name] for name in ("alert", "endpoint", "condition", "threshold", "value", "firing")} == {
        "alert": "test alert",
        "endpoint": "test.watched",
        "condition": "failed_share",
        "threshold": 50.0,
        "value": 60.0,
        "firing": True,
    }


@pytest.mark.parametrize(
    ("condition", "threshold", "calls", "fires"),
    [
        ("failed_share", 50, {"failed": 9}, False),  # fewer than minimum_calls
        ("failed_share", 50, {"failed": 5, "answered": 5}, False),
        ("failed_share", 50, {"failed": 6, "answered": 4}, True),
        ("failed_count", 3, {"failed": 3}, False),
        ("failed_count", 3, {"failed": 4}, True),
        ("refused_count", 3, {"refused": 4}, True),
        ("refused_count", 3, {"failed": 4}, False),
        ("failed_share", 0, {}, False),
    ],
)
def test_conditions_over_calls(
    audit_log: CallLog, make: Callable[..., Alert], condition: str, threshold: float, calls: Any, fires: bool
) -> None:
    endpoint, other, now = define(), define("test.other"), timezone.now()
    alert = make(endpoint=endpoint, condition=condition, threshold=threshold)
    note(endpoint, at=now, **calls)
    note(other, failed=50, refused=50, at=now)
    audit_log.flush()
    evaluate_alerts(now=now)
    alert.refresh_from_db()
    assert alert.is_firing is fires


def test_calls_of_every_endpoint_count_without_one(audit_log: CallLog, make: Callable[..., Alert]) -> None:
    now = timezone.now()
    alert = make(condition="failed_count", threshold=5)
    note(define(), failed=3, at=now)
    note(define("test.other"), failed=3, at=now)
    audit_log.flush()
    evaluate_alerts(now=now)
    alert.refresh_from_db()
    assert (alert.is_firing, alert.last_value) == (True, 6.0)


@pytest.mark.parametrize(
    ("condition", "named"),
    [
        ("failed_count", [("test.2", 4), ("test.1", 3)]),
        ("failed_share", [("test.2", 4), ("test.1", 3)]),
        ("refused_count", [("test.1", 9), ("test.3", 2)]),
    ],
)
def test_a_message_on_every_endpoint_names_those_that_count_most(
    audit_log: CallLog, receiver: Receiver, make: Callable[..., Alert], condition: str, named: list[tuple[str, int]]
) -> None:
    now = timezone.now()
    make(condition=condition, threshold=0)
    for number, calls in enumerate(({"failed": 3, "refused": 9}, {"failed": 4}, {"refused": 2, "answered": 7}), 1):
        note(define(f"test.{number}"), at=now, **calls)
    note(define("test.long-ago"), at=now - timedelta(hours=1), failed=90, refused=90)
    audit_log.flush()
    check(now)
    message = orjson.loads(receiver.received[0][2])
    assert message["endpoint"] is None
    assert [(each["endpoint"], each["calls"]) for each in message["endpoints"]] == named


def test_a_message_names_at_most_five_endpoints_and_an_alert_of_one_none(
    audit_log: CallLog, receiver: Receiver, make: Callable[..., Alert]
) -> None:
    now = timezone.now()
    for number in range(7):
        note(define(f"test.{number}"), at=now, failed=number + 1)
    make(condition="failed_count", threshold=0)
    make(name="of one", condition="failed_count", threshold=0, endpoint=Endpoint.objects.get(name="test.3"))
    audit_log.flush()
    check(now)
    told = {message["alert"]: message for _, _, body in receiver.received for message in [orjson.loads(body)]}
    assert [each["endpoint"] for each in told["test alert"]["endpoints"]] == [f"test.{n}" for n in (6, 5, 4, 3, 2)]
    assert (told["of one"]["endpoint"], told["of one"]["endpoints"]) == ("test.3", [])


@pytest.mark.parametrize(
    ("sql", "below", "threshold", "value", "fires"),
    [
        ("SELECT * FROM (VALUES (1.5), (7), (null)) AS v(n)", False, 5, 7.0, True),
        ("SELECT * FROM (VALUES (1.5), (7)) AS v(n)", False, 7, 7.0, False),
        ("SELECT * FROM (VALUES (1.5), (7)) AS v(n)", True, 2, 1.5, True),
        ("SELECT 1 AS n WHERE false", True, 2, None, False),
        ("SELECT 12345678901234567890.5 AS n", False, 1e19, 12345678901234567890.5, True),
    ],
)
def test_a_value_of_the_result(
    make: Callable[..., Alert], sql: str, below: bool, threshold: float, value: float | None, fires: bool
) -> None:
    alert = make(endpoint=define(sql=sql), condition="value", column="n", threshold=threshold, fires_below=below)
    evaluate_alerts()
    alert.refresh_from_db()
    assert (alert.is_firing, alert.last_value, alert.problem) == (fires, value, "")


def test_a_value_that_cannot_be_read_changes_nothing_and_is_said(
    receiver: Receiver, make: Callable[..., Alert]
) -> None:
    endpoint, now = define(), timezone.now()
    alert = make(endpoint=endpoint, condition="value", column="n", threshold=1, arguments={"n": "5"})
    check(now)
    Alert.objects.filter(pk=alert.pk).update(arguments={"n": "no number"})
    check(now + timedelta(minutes=1))
    alert.refresh_from_db()
    assert alert.is_firing
    assert alert.problem
    assert kinds(receiver) == ["firing"]


def test_a_value_is_never_older_than_the_caching_period(
    receiver: Receiver, make: Callable[..., Alert], no_log_database: Callable[[], None]
) -> None:
    """Calls get such a result, marked as stale; an alert is not checked then, and keeps its state."""
    endpoint, now = define(cache_seconds=60), timezone.now()
    alert = make(endpoint=endpoint, condition="value", column="n", threshold=1, arguments={"n": "5"})
    call = Call(arguments={"n": "5"})
    check(now)
    no_log_database()
    problems = []
    # After half of the period, at its end and later: who reads the old value then takes the alert for resolved.
    for minute, state, threshold in ((1, "hit", 1), (2, "stale", 10), (3, "stale", 10)):
        age_results(endpoint, seconds=30)
        assert run_endpoint("test.watched", call=call).served.state == state
        Alert.objects.filter(pk=alert.pk).update(threshold=threshold)
        check(now + timedelta(minutes=minute))
        alert.refresh_from_db()
        problems.append(alert.problem.partition(":")[0])
    assert problems == ["", "database_unavailable", "database_unavailable"]
    assert (alert.is_firing, alert.last_value, kinds(receiver)) == (True, 5.0, ["firing"])


def test_a_value_beyond_the_caching_period_is_read_anew(make: Callable[..., Alert]) -> None:
    endpoint, now = define(sql="SELECT extract(epoch FROM clock_timestamp()) AS n", cache_seconds=60), timezone.now()
    alert = make(endpoint=endpoint, condition="value", column="n", threshold=1)
    read = []
    for minute, older in enumerate((0, 30, 30)):
        age_results(endpoint, seconds=older)
        evaluate_alerts(now=now + timedelta(minutes=minute))
        alert.refresh_from_db()
        read.append(alert.last_value)
    assert read[0] == read[1] < read[2]


def test_a_value_is_one_of_the_endpoints_tenant_and_arguments(
    insert_rows: Any, make: Callable[..., Alert], receiver: Receiver
) -> None:
    """An alert is no way around the tenant: without its argument there is no value at all."""
    now = timezone.now()
    insert_rows("edge_logs", [{"timestamp": now, "project": name} for name in ("acme", "globex", "globex")])
    sql = "SELECT count(*) AS n FROM edge_logs WHERE @project IS NOT NULL"
    endpoint = save_endpoint(
        Endpoint(name="test.tenant", sql=sql, tenant_parameter="project"),
        [DeclaredParameter("project", required=True)],
    )
    ours = make(name="ours", endpoint=endpoint, condition="value", column="n", arguments={"project": "acme"})
    nobodys = make(name="nobody's", endpoint=endpoint, condition="value", column="n")
    evaluate_alerts(now=now)
    ours.refresh_from_db()
    nobodys.refresh_from_db()
    assert (ours.last_value, nobodys.last_value) == (1.0, None)
    assert "project" in nobodys.problem


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"condition": "value"}, "endpoint"),
        ({"condition": "value", "column": "other", "has_endpoint": True}, "column"),
        ({"condition": "value", "column": "n", "has_endpoint": True, "arguments": {"x": "1"}}, "arguments"),
        ({"condition": "value", "column": "n", "has_endpoint": True, "arguments": ["x"]}, "arguments"),
        ({"fires_below": True}, "fires_below"),
        ({"threshold": float("nan")}, "threshold"),
        ({"minutes": 61}, "minutes"),
        ({"threshold": -1}, "threshold"),
        ({"threshold": 100}, "threshold"),  # no share is above it
        ({"threshold": 150}, "threshold"),
        ({"threshold": -1, "condition": "failed_count"}, "threshold"),
        ({"threshold": -1, "condition": "refused_count"}, "threshold"),
        *[
            ({"condition": "value", "column": "n", "sql": f"SELECT {value} AS n"}, "column")
            for value in ("'12'", "'12'::varchar", "true", "now()", "interval '1 s'", "array[1]", "'{}'::uuid[]")
        ],
    ],
)
def test_refuses_alerts_that_make_no_sense(make: Callable[..., Alert], values: dict[str, Any], field: str) -> None:
    if values.pop("has_endpoint", False):
        values["endpoint"] = define()
    if sql := values.pop("sql", ""):
        values["endpoint"] = define(sql=sql)
    with pytest.raises(ValidationError) as refused:
        make(**values)
    assert field in refused.value.message_dict


@pytest.mark.parametrize(
    "values",
    [
        {"threshold": 0},
        {"threshold": 99.9},
        {"threshold": 150, "condition": "failed_count"},
        {"threshold": 0, "condition": "refused_count"},
        *[
            {"condition": "value", "column": "n", "threshold": -5, "sql": f"SELECT {value} AS n"}
            for value in ("1", "1::smallint", "2^40", "1.5::numeric(5,2)", "1::real", "sum(1)", "'{}'::jsonb -> 'a'")
        ],
    ],
)
def test_accepts_alerts_that_can_fire(make: Callable[..., Alert], values: dict[str, Any]) -> None:
    if sql := values.pop("sql", ""):
        values["endpoint"] = define(sql=sql)
    make(**values)


# --- Messages ---------------------------------------------------------------------------------------------------------
def test_signs_with_the_alerts_own_secret_which_the_database_does_not_have(
    receiver: Receiver, make: Callable[..., Alert]
) -> None:
    alert = make()
    secret = give_secret(alert)
    alert.save()
    send_test(alert)
    ((_, headers, body),) = receiver.received
    assert headers["X-Alert-Signature"] == signature(secret, int(headers["X-Alert-Timestamp"]), body)
    with connection.cursor() as cursor:
        cursor.execute("SELECT row_to_json(a)::text FROM endpoints_alert a")
        assert secret not in cursor.fetchone()[0]


def test_a_secret_does_not_sign_for_an_address_that_was_written_past_the_form(
    receiver: Receiver, make: Callable[..., Alert]
) -> None:
    alert = make()
    Alert.objects.filter(pk=alert.pk).update(webhook_url=receiver.url + "&other")
    alert.refresh_from_db()
    assert "secret cannot be read" in send_test(alert).problem
    assert receiver.received == []


def test_tries_again_later_and_later_and_gives_up(
    receiver: Receiver, make: Callable[..., Alert], audit_log: CallLog
) -> None:
    endpoint, now = define(), timezone.now()
    make(endpoint=endpoint, condition="failed_count", threshold=0, remind_minutes=0)
    note(endpoint, failed=1, at=now)
    audit_log.flush()
    receiver.status = 503
    evaluate_alerts(now=now)
    tried_at = []
    for minute in range(130):
        before = len(receiver.received)
        deliver_messages(now=now + timedelta(minutes=minute))
        tried_at += [minute] * (len(receiver.received) - before)
    assert tried_at == [0, 1, 3, 7, 15, 31, 63]
    message = AlertMessage.objects.get()
    assert (message.due_at, message.delivered_at, message.problem) == (None, None, "it answered 503")


def test_a_message_that_failed_arrives_when_the_webhook_is_back(
    receiver: Receiver, make: Callable[..., Alert], audit_log: CallLog
) -> None:
    endpoint, now = define(), timezone.now()
    make(endpoint=endpoint, condition="failed_count", threshold=0)
    note(endpoint, failed=1, at=now)
    audit_log.flush()
    receiver.status = 500
    check(now)
    receiver.status = 200
    deliver_messages(now=now + timedelta(minutes=1))
    first, second = receiver.received
    assert first[1]["X-Alert-Id"] == second[1]["X-Alert-Id"]
    assert first[2] == second[2]
    deliver_messages(now=now + timedelta(minutes=30))
    assert len(receiver.received) == 2


def test_at_most_so_many_messages_an_hour_and_the_last_state_is_told_afterwards(
    receiver: Receiver, make: Callable[..., Alert], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "MESSAGES_AN_HOUR", 4)
    endpoint, now = define(), timezone.now()
    alert = make(endpoint=endpoint, condition="value", column="n", threshold=1, remind_minutes=0)
    for minute in range(20):  # it fires and resolves every minute
        Alert.objects.filter(pk=alert.pk).update(arguments={"n": str(5 * (minute % 2))})
        check(now + timedelta(minutes=minute))
    assert kinds(receiver) == ["firing", "resolved", "firing", "resolved"]
    check(now + timedelta(minutes=59))
    assert len(receiver.received) == 4
    check(now + timedelta(minutes=62))  # the first of them, of minute 1, is an hour old
    assert kinds(receiver)[4:] == ["firing"]


def test_reminds_while_it_fires(receiver: Receiver, make: Callable[..., Alert]) -> None:
    endpoint, now = define(sql="SELECT 5 AS n"), timezone.now()
    make(endpoint=endpoint, condition="value", column="n", threshold=1, remind_minutes=30)
    for minute in range(0, 70):
        check(now + timedelta(minutes=minute))
    assert kinds(receiver) == ["firing", "reminder", "reminder"]


def test_a_disabled_alert_is_not_checked(receiver: Receiver, make: Callable[..., Alert]) -> None:
    make(endpoint=define(sql="SELECT 5 AS n"), condition="value", column="n", threshold=1, enabled=False)
    check(timezone.now())
    assert receiver.received == []


def test_two_workers_share_the_alerts(receiver: Receiver, make: Callable[..., Alert]) -> None:
    now = timezone.now()
    make(endpoint=define(sql="SELECT 5 AS n"), condition="value", column="n", threshold=1)
    for _ in range(2):
        evaluate_alerts(now=now)
        deliver_messages(now=now)
    assert kinds(receiver) == ["firing"]


AHEAD = timedelta(days=1)


def test_a_clock_that_was_ahead_stops_no_alert(receiver: Receiver, make: Callable[..., Alert]) -> None:
    """Checked, told, reminded and delivered by a clock that was a day ahead: all of it goes on when it is right."""
    now = timezone.now()
    alert = make(endpoint=define(), condition="value", column="n", threshold=1, arguments={"n": "5"}, remind_minutes=30)
    check(now + AHEAD)
    assert kinds(receiver) == ["firing"]
    for minute in range(32):
        check(now + timedelta(minutes=minute))
    assert kinds(receiver) == ["firing", "reminder", "reminder"]
    Alert.objects.filter(pk=alert.pk).update(arguments={"n": "0"})
    AlertMessage.objects.filter(kind="reminder").update(due_at=now + AHEAD, delivered_at=None)
    deliver_messages(now=now + timedelta(minutes=33))
    assert kinds(receiver) == ["firing", *["reminder"] * 4]
    check(now + timedelta(minutes=34))
    assert kinds(receiver)[5:] == ["resolved"]


def test_messages_of_a_clock_that_was_ahead_do_not_count_against_the_bound(
    receiver: Receiver, make: Callable[..., Alert], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "MESSAGES_AN_HOUR", 1)
    now = timezone.now()
    alert = make(endpoint=define(), condition="value", column="n", threshold=1, arguments={"n": "5"})
    check(now + AHEAD)
    Alert.objects.filter(pk=alert.pk).update(arguments={"n": "0"})
    check(now)
    assert kinds(receiver) == ["firing", "resolved"]


def test_calls_that_a_clock_ahead_has_noted_are_not_of_now(audit_log: CallLog, make: Callable[..., Alert]) -> None:
    endpoint, now = define(), timezone.now()
    alert = make(endpoint=endpoint, condition="failed_count", threshold=3)
    note(endpoint, failed=9, at=now + timedelta(hours=2))
    audit_log.flush()
    evaluate_alerts(now=now)
    alert.refresh_from_db()
    assert (alert.last_value, alert.is_firing) == (0.0, False)


def test_a_worker_whose_clock_is_a_little_ahead_checks_no_alert_twice(
    receiver: Receiver, make: Callable[..., Alert]
) -> None:
    now = timezone.now()
    alert = make(endpoint=define(), condition="value", column="n", threshold=1, arguments={"n": "0"})
    evaluate_alerts(now=now + timedelta(seconds=5))
    Alert.objects.filter(pk=alert.pk).update(arguments={"n": "5"})
    check(now)
    assert receiver.received == []


def test_an_address_that_is_refused_is_not_tried_again(make: Callable[..., Alert], settings: Any) -> None:
    alert = make()
    settings.ALERT_WEBHOOK_PRIVATE = False
    message = send_test(alert)
    assert (message.due_at, message.delivered_at) == (None, None)
    assert "https" in message.problem


# --- One alert in disorder stops no other -----------------------------------------------------------------------------
@pytest.mark.parametrize("failure", [UnicodeError("label too long"), ValueError("odd"), RuntimeError("a bug")])
def test_a_delivery_that_breaks_in_any_way_stops_no_other(
    receiver: Receiver, make: Callable[..., Alert], monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    now, endpoint = timezone.now(), define(sql="SELECT 5 AS n")
    values = {"endpoint": endpoint, "condition": "value", "column": "n", "threshold": 1}
    for name in ("a", "broken", "z"):
        make(name=name, webhook_url=f"{receiver.url}&name={name}", **values)

    def post(url: str, body: bytes, **options: Any) -> None:
        if url.endswith("broken"):
            raise failure
        webhooks.post(url, body, **options)

    monkeypatch.setattr(messages, "post", post)
    check(now)
    assert sorted(path for path, _, _ in receiver.received) == ["/hook?x=1&name=a", "/hook?x=1&name=z"]
    message = AlertMessage.objects.get(alert__name="broken")
    assert (message.attempts, message.delivered_at) == (1, None)
    assert message.problem == "an internal error; the log has it"
    monkeypatch.setattr(messages, "post", webhooks.post)
    deliver_messages(now=now + timedelta(minutes=1))
    assert receiver.received[-1][0] == "/hook?x=1&name=broken"


@pytest.mark.parametrize(
    "url", ["https://a..b/hook", f"https://{'a' * 64}.example/", "https://[::1", "nonsense", "", "https://a:99999/"]
)
def test_an_address_that_the_form_would_not_take_stops_no_other(
    receiver: Receiver, make: Callable[..., Alert], url: str
) -> None:
    endpoint = define(sql="SELECT 5 AS n")
    values = {"endpoint": endpoint, "condition": "value", "column": "n", "threshold": 1}
    broken = make(name="broken", **values)
    make(name="other", **values)
    broken.webhook_url = url
    give_secret(broken)
    broken.save()
    check(timezone.now())
    assert kinds(receiver) == ["firing"]
    assert send_test(broken).problem


def test_a_check_that_breaks_in_any_way_stops_no_other(
    receiver: Receiver, make: Callable[..., Alert], monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = define(sql="SELECT 5 AS n")
    values = {"endpoint": endpoint, "condition": "value", "column": "n", "threshold": 1}
    for name in ("a", "broken", "z"):
        make(name=name, **values)
    read_value = evaluation.read_value

    def read(alert: Alert, **options: Any) -> Any:
        if alert.name == "broken":
            raise RuntimeError("a bug")
        return read_value(alert, **options)

    monkeypatch.setattr(evaluation, "read_value", read)
    check(timezone.now())
    assert kinds(receiver) == ["firing", "firing"]
    assert Alert.objects.get(name="broken").problem == "An internal error; the log has it."
