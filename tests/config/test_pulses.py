"""When a process counts as hanging, and what is done then."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from config import pulses


def test_a_process_is_dead_after_so_many_looks_without_a_beat() -> None:
    silence = pulses.SilenceCounter(most=3)
    assert [silence.is_dead(7, count) for count in (0, 0, 0, 0)] == [False, False, False, True]


def test_a_beat_starts_the_count_again() -> None:
    silence = pulses.SilenceCounter(most=2)
    assert [silence.is_dead(7, count) for count in (0, 0, 1, 1, 2, 2, 2)] == [False] * 6 + [True]


def test_processes_are_counted_apart_and_forgotten() -> None:
    silence = pulses.SilenceCounter(most=1)
    silence.is_dead(7, 0)
    assert not silence.is_dead(8, 0)
    silence.forget_others([8])
    assert not silence.is_dead(7, 0)
    assert silence.is_dead(8, 0)


def test_each_process_has_a_count_of_its_own() -> None:
    shared = pulses.Pulses()
    one, other = shared.new_slot(), shared.new_slot()
    shared.beat(one)
    shared.beat(one)
    assert (shared.count(one), shared.count(other)) == (2, 0)


def test_a_slot_that_is_given_again_starts_at_nought() -> None:
    shared = pulses.Pulses()
    first = shared.new_slot()
    shared.beat(first)
    for _ in range(pulses._SLOTS - 1):
        last = shared.new_slot()
    assert last == first
    assert shared.count(last) == 0


def test_a_start_is_noted_beside_the_beats() -> None:
    shared = pulses.Pulses()
    for _ in range(2 * pulses._SLOTS):
        shared.beat(shared.new_slot())
    assert not shared.has_started()
    shared.note_start()
    assert shared.has_started()


def test_a_silent_process_is_killed_and_a_living_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    class Over(Exception):
        pass

    looks = iter(range(10))

    def no_sleep(seconds: float) -> None:
        if next(looks) == 5:
            raise Over

    monkeypatch.setattr(pulses, "time", SimpleNamespace(sleep=no_sleep))
    reported: list[int] = []
    beats = iter(range(100))
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as silent:
        with pytest.raises(Over):
            pulses.watch(lambda: {silent.pid: 4, os.getpid(): next(beats)}, silent_seconds=2.0, report=reported.append)
        assert silent.wait(10) == -signal.SIGKILL
    assert reported == [silent.pid]


def test_systemd_hears_that_all_is_well(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        pulses.tell_systemd("WATCHDOG=1")
        assert manager.recv(100) == b"WATCHDOG=1"


def test_without_systemd_nobody_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    monkeypatch.setattr(socket, "socket", opened.append)
    pulses.tell_systemd("WATCHDOG=1")
    assert opened == []
