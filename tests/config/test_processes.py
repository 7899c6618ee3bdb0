"""Real processes: started together, ended together, politely or by force, and none left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from config.processes import held_signals
from tests.files import PROJECT
from tests.live.processes import is_running

# Runs the shell scripts given as arguments, each as a program whose log is <number>.log in the folder.
RUNNER = """
import os, signal, sys
from pathlib import Path
from config.processes import run_together
# A suite started by nohup has SIGHUP ignored, and its children with it.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
folder = Path(sys.argv[1])
programs = {f"program {number}": ["/bin/sh", "-c", script] for number, script in enumerate(sys.argv[2:])}

def announce():
    is_up = (folder / "up").exists()
    if is_up:
        print("announced", flush=True)
    return is_up

environment = {**os.environ, "GIVEN": "value"}
os.chdir(folder)
if ended := run_together(programs, environment, folder, announce):
    sys.exit(f"failed: {ended}")
print("ended", flush=True)
"""
Runner = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Runner]:
    started: list[subprocess.Popen[str]] = []

    def start(*scripts: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", RUNNER, str(tmp_path), *scripts],
            cwd=PROJECT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def _wait_for(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _process_ids(file: Path) -> list[int]:
    _wait_for(lambda: file.exists() and file.read_text(encoding="ascii").endswith("\n"))
    return [int(line) for line in file.read_text(encoding="ascii").split()]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stop_signal_ends_every_program(run: Runner, tmp_path: Path, number: signal.Signals) -> None:
    runner = run("echo $$ > one; exec sleep 60", "echo $$ > two; exec sleep 60")
    children = _process_ids(tmp_path / "one") + _process_ids(tmp_path / "two")
    runner.send_signal(number)
    output, _ = runner.communicate(timeout=10)
    assert (runner.returncode, output) == (0, "ended\n")
    assert not [child for child in children if is_running(child)]


def test_a_program_is_asked_before_its_workers_are_cut_off(run: Runner, tmp_path: Path) -> None:
    runner = run("trap 'wait; echo wound up; exit 0' TERM; (sleep 1; echo worker done) & echo $$ > one; wait")
    _process_ids(tmp_path / "one")
    runner.terminate()
    runner.communicate(timeout=10)
    assert (tmp_path / "program 0.log").read_text(encoding="ascii") == "worker done\nwound up\n"


def test_a_second_signal_ends_at_once_what_ignores_the_first(run: Runner, tmp_path: Path) -> None:
    runner = run("trap 'touch told' TERM; echo $$ > one; while :; do sleep 0.1; done")
    [child] = _process_ids(tmp_path / "one")
    runner.send_signal(signal.SIGINT)
    _wait_for(lambda: (tmp_path / "told").exists())
    assert is_running(child)
    runner.send_signal(signal.SIGINT)
    runner.communicate(timeout=5)
    assert not is_running(child)


def test_workers_left_by_a_program_are_ended(run: Runner, tmp_path: Path) -> None:
    runner = run("sleep 60 & echo $! > worker; exit 3")
    [worker] = _process_ids(tmp_path / "worker")
    runner.communicate(timeout=10)
    assert runner.returncode == 1
    _wait_for(lambda: not is_running(worker))


@pytest.mark.parametrize(
    ("script", "last_words"),
    [("echo one; echo the reason; echo; exit 7", "the reason"), ("exit 7", "(it wrote nothing)")],
)
def test_when_one_ends_all_end_and_its_last_line_is_told(
    run: Runner, tmp_path: Path, script: str, last_words: str
) -> None:
    runner = run(
        "echo $GIVEN in $PWD; echo $$ > other; exec sleep 60", f"while [ ! -e other ]; do sleep 0.1; done; {script}"
    )
    [other] = _process_ids(tmp_path / "other")
    output, _ = runner.communicate(timeout=20)
    assert runner.returncode == 1
    assert output == f"failed: program 1 ended with status 7 ({tmp_path / 'program 1.log'}): {last_words}\n"
    assert not is_running(other)
    assert (tmp_path / "program 0.log").read_text(encoding="utf-8") == f"value in {tmp_path}\n"


def test_all_are_in_one_group_that_the_terminal_does_not_reach(run: Runner, tmp_path: Path) -> None:
    runner = run("echo $$ > one; exec sleep 60", "echo $$ > two; exec sleep 60")
    one, two = _process_ids(tmp_path / "one") + _process_ids(tmp_path / "two")
    assert os.getpgid(one) == os.getpgid(two) == one
    assert os.getpgid(runner.pid) != one


def test_it_is_announced_once_and_only_when_up(run: Runner, tmp_path: Path) -> None:
    runner = run("echo $$ > one; exec sleep 60")
    _process_ids(tmp_path / "one")
    assert runner.stdout is not None
    (tmp_path / "up").touch()
    assert runner.stdout.readline() == "announced\n"
    runner.terminate()
    assert runner.communicate(timeout=10)[0] == "ended\n"


class TestHeldSignals:
    def test_one_that_came_takes_effect_at_the_end(self) -> None:
        seen: list[int] = []

        def work() -> None:
            with held_signals() as came:
                signal.raise_signal(signal.SIGINT)
                seen.extend(came)

        with pytest.raises(KeyboardInterrupt):
            work()
        assert seen == [signal.SIGINT]

    def test_one_that_is_ignored_stays_ignored(self) -> None:
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            with held_signals() as came:
                signal.raise_signal(signal.SIGHUP)
            assert came == []
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        finally:
            signal.signal(signal.SIGHUP, before)

    def test_handlers_are_as_before(self) -> None:
        before = signal.getsignal(signal.SIGTERM)
        with held_signals():
            assert signal.getsignal(signal.SIGTERM) != before
        assert signal.getsignal(signal.SIGTERM) == before
