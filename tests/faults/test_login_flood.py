"""Many logins at once: two passwords are checked at a time, and everybody else is answered as if there were none."""

from __future__ import annotations

import http.client
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from threading import Event
from urllib.parse import urlencode

import pytest

from endpoints.access.logins import CHECKS_AT_ONCE, MOST_WAITING
from tests.faults.conftest import CACHED, PLAIN
from tests.live.calls import PATIENCE_SECONDS, Answer, Caller, all_at_once
from tests.live.installation import Installation

LOGINS = 32
FAILURES = 5
TOKEN = "c" * 32  # any value: the form repeats the cookie's
SLOWEST_CALL_SECONDS = 3.0


@pytest.fixture(scope="module")
def port(running_installation: Installation) -> Iterator[int]:
    """A single web process, whose turns are the only ones."""
    settings = {"LOGIN_FAILURES": str(FAILURES), "LOGIN_LOCKOUT_SECONDS": "3600"}
    with running_installation.another_web(workers=1, threads=16, **settings) as (_, port):
        yield port


def log_in(port: int, name: str) -> Answer:
    """Send a wrong password as a browser does, on a connection of its own."""
    form = urlencode({"username": name, "password": "wrong", "csrfmiddlewaretoken": TOKEN})
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Cookie": f"csrftoken={TOKEN}"}
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)) as connection:
        started = time.monotonic()
        connection.request("POST", "/admin/login/", form, headers)
        response = connection.getresponse()
        answered = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, answered, response.read(), time.monotonic() - started)


@contextmanager
def calls_meanwhile(installation: Installation, port: int) -> Iterator[list[Answer]]:
    """Call a plain and a cached endpoint and /livez without pause, while the body of the statement runs."""
    over, seen = Event(), []

    def call(caller: Caller) -> None:
        while not over.is_set():
            seen.extend((caller.query(PLAIN), caller.query(CACHED), caller.request("GET", "/livez")))

    with installation.caller(port=port) as caller, ThreadPoolExecutor(1) as pool:
        calling = pool.submit(call, caller)
        try:
            yield seen
        finally:
            over.set()
            calling.result()


def login_of(port: int, name: str) -> Callable[[], Answer]:
    return lambda: log_in(port, name)


def test_a_flood_of_logins_holds_up_nobody_else(installation: Installation, port: int) -> None:
    with calls_meanwhile(installation, port) as calls:
        answers = all_at_once([login_of(port, f"name {number}") for number in range(LOGINS)])
    statuses = Counter(answer.status for answer in answers)
    # Checked and wrong, too many for a minute, or not looked at; every one of them was answered.
    assert statuses.keys() <= {200, 429, 503}, statuses
    assert statuses[200] >= CHECKS_AT_ONCE
    # 1 if too many bodies were being read, 2 if too many passwords were waiting to be checked.
    assert {answer.headers["retry-after"] for answer in answers if answer.status == 503} <= {"1", "2"}
    assert {answer.status for answer in calls} == {200}
    assert max(answer.seconds for answer in calls) < SLOWEST_CALL_SECONDS


def test_a_flood_against_one_name_gets_as_many_guesses_as_a_slow_one(installation: Installation, port: int) -> None:
    answers = []
    with calls_meanwhile(installation, port) as calls:
        for _ in range(4):
            answers += all_at_once([login_of(port, "person")] * (CHECKS_AT_ONCE + MOST_WAITING))
    statuses = Counter(answer.status for answer in answers)
    assert statuses.keys() <= {200, 429, 503}, statuses
    # The failure that reaches the limit is a 429 too.
    assert statuses[200] <= FAILURES - 1
    assert statuses[429] >= CHECKS_AT_ONCE
    assert all(0 < int(answer.headers["retry-after"]) <= 3600 for answer in answers if answer.status == 429)
    assert {answer.status for answer in calls} == {200}
