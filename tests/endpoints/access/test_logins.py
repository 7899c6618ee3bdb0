"""Turns for checking passwords: two at once, few who wait, everybody else refused at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from endpoints.access.logins import PASSWORD_TURNS, BoundedPasswordHasher, PasswordsBusy, PasswordTurns


def test_a_turn_is_refused_at_once_when_nobody_more_may_wait() -> None:
    turns = PasswordTurns(at_once=1, waiting=0, wait_seconds=600)
    with turns.turn(), ThreadPoolExecutor(1) as pool:
        assert isinstance(pool.submit(_take, turns).exception(timeout=60), PasswordsBusy)


def test_a_wait_for_a_turn_ends() -> None:
    turns = PasswordTurns(at_once=1, waiting=1, wait_seconds=0.01)
    with turns.turn(), ThreadPoolExecutor(1) as pool:
        assert isinstance(pool.submit(_take, turns).exception(timeout=60), PasswordsBusy)


def test_who_waits_gets_the_turn_that_ends() -> None:
    turns = PasswordTurns(at_once=1, waiting=1, wait_seconds=600)
    with ThreadPoolExecutor(1) as pool:
        with turns.turn():
            waiting = pool.submit(_take, turns)
        assert waiting.exception(timeout=60) is None


def test_a_thread_needs_one_turn_only() -> None:
    turns = PasswordTurns(at_once=1, waiting=0, wait_seconds=0)
    with turns.turn():
        _take(turns)
        with pytest.raises(ZeroDivisionError), turns.turn():
            1 / 0  # noqa: B018
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(_take, turns).exception(timeout=60) is not None
    _take(turns)


def test_no_more_than_so_many_have_a_turn() -> None:
    turns = PasswordTurns(at_once=2, waiting=30, wait_seconds=600)
    inside, most = [], []
    lock = threading.Lock()

    def work() -> None:
        with turns.turn():
            with lock:
                inside.append(1)
                most.append(len(inside))
            with lock:
                inside.pop()

    with ThreadPoolExecutor(32) as pool:
        for future in [pool.submit(work) for _ in range(32)]:
            future.result(timeout=60)
    assert max(most) <= 2


def test_hashing_takes_a_turn_and_writes_what_django_reads() -> None:
    hasher = BoundedPasswordHasher()
    encoded = hasher.encode("a pass phrase", "salt", iterations=1)
    assert encoded.startswith("pbkdf2_sha256$1$salt$")
    assert hasher.verify("a pass phrase", encoded)
    assert not hasher.verify("another", encoded)


def test_hashing_is_refused_when_every_turn_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("endpoints.access.logins.PASSWORD_TURNS", PasswordTurns(at_once=1, waiting=0, wait_seconds=0))
    import endpoints.access.logins as module

    with module.PASSWORD_TURNS.turn(), ThreadPoolExecutor(1) as pool:
        future = pool.submit(BoundedPasswordHasher().encode, "a pass phrase", "salt", 1)
        assert isinstance(future.exception(timeout=60), PasswordsBusy)
    assert PASSWORD_TURNS is not module.PASSWORD_TURNS


def _take(turns: PasswordTurns) -> None:
    with turns.turn():
        pass
