"""Failed logins: counted however many come at once, locked out for a while, shown, and lifted by owners alone."""

from __future__ import annotations

import io
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from axes.models import AccessAttempt
from django.contrib.auth.models import Group, User
from django.contrib.auth.signals import user_login_failed
from django.db import connection
from django.test import Client, RequestFactory
from django.utils import timezone

from endpoints.access import token_limits
from endpoints.access.logins import (
    CHECKS_AT_ONCE,
    LOGINS_OF_ADDRESS,
    MOST_WAITING,
    PASSWORD_TURNS,
    client_address,
    locked_out_until,
)
from endpoints.cache import CacheUnavailable

LOGIN = "/admin/login/"
LIST = "/admin/axes/accessattempt/"
RIGHT = "a pass phrase"
FAILURES = 3
COOL_OFF = timedelta(seconds=600)


@pytest.fixture(autouse=True)
def few_failures(settings: Any) -> None:
    settings.LOGIN_FAILURES = settings.AXES_FAILURE_LIMIT = FAILURES
    settings.AXES_COOLOFF_TIME = COOL_OFF


@pytest.fixture
def person(db: None) -> User:
    return User.objects.create_superuser("person", password=RIGHT)


def log_in(name: str = "person", password: str = "wrong", *, address: str = "192.0.2.1", **headers: str) -> Any:
    return Client(REMOTE_ADDR=address).post(LOGIN, {"username": name, "password": password}, headers=headers)


@pytest.mark.usefixtures("person")
def test_a_login_page_opened_by_itself_leads_to_the_dashboard() -> None:
    assert log_in(password=RIGHT)["Location"] == "/admin/"


@pytest.mark.usefixtures("person")
class TestLockOut:
    def test_a_name_is_locked_out_after_so_many_failures_with_the_right_password_too(self) -> None:
        answers = [log_in().status_code for _ in range(FAILURES + 2)]
        assert answers == [200] * (FAILURES - 1) + [429] * 3
        locked = log_in(password=RIGHT)
        assert locked.status_code == 429
        assert 0 < int(locked["Retry-After"]) <= 600
        assert b"<h1>Too many failed logins</h1>" in locked.content
        assert b"10 minutes" in locked.content
        assert "default-src 'self'" in locked["Content-Security-Policy"]

    def test_from_elsewhere_the_name_logs_in(self) -> None:
        for _ in range(FAILURES):
            log_in()
        assert log_in(password=RIGHT, address="192.0.2.2").status_code == 302

    def test_another_name_from_there_logs_in(self) -> None:
        User.objects.create_superuser("other", password=RIGHT)
        for _ in range(FAILURES):
            log_in()
        assert log_in("other", RIGHT).status_code == 302

    def test_an_address_has_so_many_logins_a_minute_whatever_the_names(self) -> None:
        for number in range(FAILURES * LOGINS_OF_ADDRESS):
            assert log_in(f"name {number}").status_code == 200
        locked = log_in(password=RIGHT)
        assert locked.status_code == 429
        assert 0 < int(locked["Retry-After"]) <= 60
        assert b"Logins from your network address are locked" in locked.content
        assert b"role owner" not in locked.content
        assert log_in(password=RIGHT, address="192.0.2.2").status_code == 302

    def test_an_address_is_limited_while_redis_is_away(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def away(*_: object) -> None:
            raise CacheUnavailable

        monkeypatch.setattr(token_limits, "ask_script", away)
        answers = [log_in(f"name {number}", address="192.0.2.77") for number in range(FAILURES * LOGINS_OF_ADDRESS + 1)]
        assert [answer.status_code for answer in answers] == [200] * FAILURES * LOGINS_OF_ADDRESS + [429]

    def test_neither_user_agent_nor_forged_header_begins_a_new_count(self) -> None:
        headers = [{"user_agent": str(n), "x_forwarded_for": f"198.51.100.{n}"} for n in range(FAILURES)]
        assert [log_in(**each).status_code for each in headers][-1] == 429
        assert set(AccessAttempt.objects.values_list("ip_address", flat=True)) == {"192.0.2.1"}

    def test_a_login_forgets_the_failures_of_its_name_alone(self) -> None:
        log_in()
        log_in("other")
        assert log_in(password=RIGHT).status_code == 302
        assert list(AccessAttempt.objects.values_list("username", flat=True)) == ["other"]

    def test_a_refused_login_does_not_prolong_the_lock_out(self) -> None:
        for _ in range(FAILURES):
            log_in()
        before = AccessAttempt.objects.values("failures_since_start", "attempt_time").get()
        log_in()
        assert AccessAttempt.objects.values("failures_since_start", "attempt_time").get() == before

    def test_no_password_is_kept(self) -> None:
        log_in(password="my secret")
        assert "my secret" not in str(AccessAttempt.objects.values().get())

    def test_a_lock_out_ends(self) -> None:
        for _ in range(FAILURES):
            log_in()
        until = locked_out_until("person", "192.0.2.1")
        assert until is not None
        assert until - COOL_OFF == AccessAttempt.objects.get().attempt_time
        AccessAttempt.objects.update(attempt_time=timezone.now() - COOL_OFF + timedelta(seconds=2))
        assert log_in(password=RIGHT)["Retry-After"] in {"1", "2"}
        AccessAttempt.objects.update(attempt_time=timezone.now() - COOL_OFF)
        assert locked_out_until("person", "192.0.2.1") is None
        assert log_in(password=RIGHT).status_code == 302

    def test_old_failures_do_not_count_and_are_forgotten(self) -> None:
        log_in()
        log_in("other")
        AccessAttempt.objects.update(attempt_time=timezone.now() - COOL_OFF)
        log_in()
        assert list(AccessAttempt.objects.values_list("username", "failures_since_start")) == [("person", 1)]

    def test_a_lock_out_is_one_line_without_the_name(self, caplog: pytest.LogCaptureFixture) -> None:
        for _ in range(FAILURES):
            log_in()
        lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
        assert sum("login_locked_out" in line for line in lines) == 1
        assert "person" not in str(lines)

    @pytest.mark.parametrize("name", ["", "x" * 151, "x" * 300, "a\0b"])
    def test_what_is_no_user_name_is_a_form_error(self, name: str) -> None:
        assert log_in(name).status_code == 200
        assert not AccessAttempt.objects.exists()

    def test_when_every_turn_is_taken_the_answer_is_quick_and_says_so(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(PASSWORD_TURNS, "_wait_seconds", 0.0)
        with PASSWORD_TURNS.turn():
            PASSWORD_TURNS._of_thread.has_turn = False
            busy = log_in(password=RIGHT)
        assert (busy.status_code, busy["Retry-After"]) == (503, "2")
        assert b"was not checked" in busy.content
        assert not AccessAttempt.objects.exists()
        assert log_in(password=RIGHT).status_code == 302

    def test_no_turn_is_held_while_the_form_comes_in(self) -> None:
        free = []

        class Form(io.BytesIO):
            def read(self, size: int | None = -1) -> bytes:
                free.append(PASSWORD_TURNS._checking.acquire(blocking=False))
                PASSWORD_TURNS._checking.release()
                return super().read(size)

        form = urlencode({"username": "person", "password": "wrong"}).encode()
        headers = {"CONTENT_TYPE": "application/x-www-form-urlencoded", "CONTENT_LENGTH": str(len(form))}
        answer = Client().generic("POST", "/admin/login/", **headers, **{"wsgi.input": Form(form)})
        assert (answer.status_code, AccessAttempt.objects.count()) == (200, 1)
        assert free
        assert all(free)


def test_whoever_sets_a_password_gets_a_turn_or_is_told(person: User, settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["endpoints.access.logins.BoundedPasswordHasher"]
    client = Client()
    client.force_login(person)
    new = {"old_password": RIGHT, "new_password1": "another phrase", "new_password2": "another phrase"}
    with ExitStack() as stack:
        for _ in range(CHECKS_AT_ONCE + MOST_WAITING):
            assert PASSWORD_TURNS._places.acquire(blocking=False)
            stack.callback(PASSWORD_TURNS._places.release)
        busy = client.post("/admin/password_change/", new)
    assert (busy.status_code, busy["Retry-After"]) == (503, "2")


@pytest.mark.parametrize(
    ("proxies", "remote", "forwarded", "expected"),
    [
        (0, "192.0.2.1", "198.51.100.1", "192.0.2.1"),
        (1, "10.0.0.1", "198.51.100.1, 192.0.2.1", "192.0.2.1"),
        (2, "10.0.0.1", "198.51.100.1, 192.0.2.1, 10.0.0.2", "192.0.2.1"),
        (1, "10.0.0.1", "", "0.0.0.0"),
        (2, "10.0.0.1", "192.0.2.1", "10.0.0.1"),
        (1, "10.0.0.1", "unknown", "0.0.0.0"),
        (1, "10.0.0.1", "192.0.2.1:4711", "192.0.2.1"),
        (1, "10.0.0.1", "[2001:db8::5]:4711", "2001:db8::"),
        (0, "2001:db8:1:2:3:4:5:6", "", "2001:db8:1:2::"),
        (0, "::ffff:192.0.2.1", "", "192.0.2.1"),
        (0, "", "", "0.0.0.0"),
    ],
)
def test_whose_address_counts(rf: Any, settings: Any, proxies: int, remote: str, forwarded: str, expected: str) -> None:
    settings.PROXIES = proxies
    headers = {"x-forwarded-for": forwarded}
    assert client_address(rf.get("/", REMOTE_ADDR=remote, headers=headers)) == expected


def test_a_burst_of_failures_is_counted_to_the_last_and_none_fails(committed: None, settings: Any) -> None:
    """With old rows in the way that every one of them wants to forget."""
    settings.AXES_FAILURE_LIMIT = settings.LOGIN_FAILURES = 1000
    try:
        for number in range(20):
            AccessAttempt.objects.create(username=f"old {number}", ip_address="192.0.2.9", failures_since_start=1)
        AccessAttempt.objects.update(attempt_time=timezone.now() - COOL_OFF)

        def fail(number: int) -> None:
            request = RequestFactory().post(LOGIN, {"username": f"person {number % 2}"}, REMOTE_ADDR="192.0.2.1")
            try:
                user_login_failed.send("test", credentials={"username": f"person {number % 2}"}, request=request)
            finally:
                connection.close()

        with ThreadPoolExecutor(8) as pool:
            for done in [pool.submit(fail, number) for number in range(64)]:
                done.result(timeout=60)
        counted = sorted(AccessAttempt.objects.values_list("username", "failures_since_start"))
    finally:
        AccessAttempt.objects.all().delete()
    assert counted == [("person 0", 32), ("person 1", 32)]


class TestAdmin:
    @pytest.fixture
    def owner(self, db: None) -> Client:
        one = User.objects.create_user("some-owner", is_staff=True)
        one.groups.add(Group.objects.get(name="owner"))
        client = Client()
        client.force_login(one)
        return client

    def test_an_owner_sees_who_is_locked_out_and_lifts_it(self, owner: Client, person: User) -> None:
        for number in range(FAILURES):
            log_in(user_agent=f"browser {number}")  # a row each, which together lock out
        log_in("other")
        page = owner.get(LIST).content.decode()
        assert "Failed logins" in page
        assert "locked out, until" in page
        assert "192.0.2.1" in page
        chosen = AccessAttempt.objects.filter(username="person").values_list("pk", flat=True)[0]
        owner.post(LIST, {"action": "lift", "_selected_action": [chosen]})
        assert log_in(password=RIGHT).status_code == 302
        assert AccessAttempt.objects.filter(username="other").exists()

    def test_nobody_adds_or_changes_one(self, owner: Client) -> None:
        row = AccessAttempt.objects.create(username="person", ip_address="192.0.2.1", failures_since_start=1)
        assert owner.get(f"{LIST}add/").status_code == 403
        assert owner.post(f"{LIST}{row.pk}/change/", {"failures_since_start": "0"}).status_code == 403
        assert b"/64" not in owner.get(LIST).content
        assert owner.get(f"{LIST}{row.pk}/change/").status_code == 200


def test_a_page_can_ask_whether_its_session_goes_on(client: Client, person: User) -> None:
    assert client.get("/admin/session/").status_code == 401
    client.force_login(person)
    ends = client.session.get_expiry_date()
    answer = client.get("/admin/session/")
    assert (answer.status_code, answer.json()) == (200, {"username": "person"})
    assert "Set-Cookie" not in answer  # asking makes no session longer
    assert client.session.get_expiry_date() <= ends + timedelta(minutes=1)
    person.is_active = False
    person.save()
    assert client.get("/admin/session/").status_code == 401
