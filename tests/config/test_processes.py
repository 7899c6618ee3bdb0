"""Real processes: started together, restarted, ended politely or by force, and none left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from config import processes
from config.embedded.places import is_running
from tests.files import PROJECT

# Runs the shell scripts given as arguments, each as a program whose log is <number>.log in the folder.
RUNNER = """
import os, signal, sys
from pathlib import Path
from config.processes import Program, ProgramFailed, run_together
# A suite started by nohup has SIGHUP ignored, and its children with it.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
folder = Path(sys.argv[1])
programs = [
    Program(name=f"program {number}", arguments=["/bin/sh", "-c", script], log=folder / f"{number}.log")
    for number, script in enumerate(sys.argv[2:])
]
try:
    run_together(
        programs, {**os.environ, "GIVEN": "value"}, folder=folder, report=lambda line: print(line, flush=True),
        is_up=lambda: (folder / "up").exists(), announce=lambda: print("announced", flush=True),
        first_delay_seconds=0.01,
    )
except ProgramFailed as error:
    sys.exit(f"failed: {error}")
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


def test_a_signal_in_the_middle_of_a_wait_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = processes._Stop()
    monkeypatch.setattr(processes.time, "sleep", lambda _: stop(signal.SIGTERM, None))
    assert [stop.wait_first(0.1), stop.wait_second(0.1)] == [True, True]


def test_a_program_is_asked_before_its_workers_are_cut_off(run: Runner, tmp_path: Path) -> None:
    runner = run("trap 'wait; echo wound up; exit 0' TERM; (sleep 1; echo worker done) & echo $$ > one; wait")
    _process_ids(tmp_path / "one")
    runner.terminate()
    runner.communicate(timeout=10)
    assert (tmp_path / "0.log").read_text(encoding="ascii") == "worker done\nwound up\n"


def test_a_second_signal_ends_at_once_what_ignores_the_first(run: Runner, tmp_path: Path) -> None:
    runner = run("trap '' TERM; echo $$ > one; while :; do sleep 0.1; done")
    [child] = _process_ids(tmp_path / "one")
    runner.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert is_running(child)
    runner.send_signal(signal.SIGINT)
    runner.communicate(timeout=5)
    assert not is_running(child)


def test_workers_left_by_a_dead_program_are_ended(run: Runner, tmp_path: Path) -> None:
    runner = run("[ -e died ] && exec sleep 60; touch died; sleep 60 & echo $! > worker; exit 3")
    [worker] = _process_ids(tmp_path / "worker")
    _wait_for(lambda: not is_running(worker))
    runner.terminate()
    runner.communicate(timeout=10)


@pytest.mark.parametrize("victim", ["process", "group"])
def test_nothing_survives_a_killed_runner(run: Runner, tmp_path: Path, victim: str) -> None:
    runner = run("sleep 60 & echo $! > worker; echo $$ > leader; wait")
    family = _process_ids(tmp_path / "worker") + _process_ids(tmp_path / "leader")
    runner.kill() if victim == "process" else _kill_with_leader(runner, family[1])
    _wait_for(lambda: not [member for member in family if is_running(member)])


def test_a_program_does_not_begin_when_its_runner_dies_before_the_guard_knows_of_it(tmp_path: Path) -> None:
    run = processes._Run(processes.Program("early", ["/usr/bin/touch", "begun"], tmp_path / "log"))

    def die() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        processes._start(run, os.environ, folder=tmp_path, tell_guard=die)
    assert run.process is not None
    run.process.wait(timeout=30)
    assert not (tmp_path / "begun").exists()


def _kill_with_leader(runner: subprocess.Popen[str], leader: int) -> None:
    runner.kill()
    os.kill(leader, signal.SIGKILL)


def test_a_program_that_dies_is_reported_and_started_again(run: Runner, tmp_path: Path) -> None:
    runner = run(
        "echo $GIVEN in $PWD; echo the reason; [ -e died ] && { touch up; exec sleep 60; }; touch died; exit 3"
    )
    assert runner.stdout is not None
    log = tmp_path / "0.log"
    assert runner.stdout.readline() == (
        f"program 0 ended with status 3 ({log}): the reason; starting it again in 0.01 s\n"
    )
    assert runner.stdout.readline() == "announced\n"
    assert log.read_text(encoding="utf-8") == f"value in {tmp_path}\nthe reason\n" * 2


def test_a_program_that_is_killed_comes_back_however_often(run: Runner, tmp_path: Path) -> None:
    runner = run("echo $$ >> lives; exec sleep 60")
    for life in range(processes.MOST_FAILURES + 2):
        _wait_for(lambda life=life: len(_process_ids(tmp_path / "lives")) > life)  # type: ignore[misc]
        os.kill(_process_ids(tmp_path / "lives")[life], signal.SIGKILL)
    runner.terminate()
    output, _ = runner.communicate(timeout=10)
    assert output.count("ended with status -9") >= processes.MOST_FAILURES + 1
    assert runner.returncode == 0


def test_a_program_that_keeps_dying_ends_the_others(run: Runner, tmp_path: Path) -> None:
    runner = run("exit 7", "echo $$ > other; exec sleep 60")
    [other] = _process_ids(tmp_path / "other")
    output, _ = runner.communicate(timeout=20)
    assert runner.returncode == 1
    assert output.count("starting it again") == processes.MOST_FAILURES - 1
    assert "failed: program 0 ended with status 7" in output
    assert "(it wrote nothing)" in output
    assert not is_running(other)


def test_it_is_announced_once_and_only_when_up(run: Runner, tmp_path: Path) -> None:
    runner = run("echo $$ > one; exec sleep 60")
    _process_ids(tmp_path / "one")
    (tmp_path / "up").touch()
    time.sleep(0.5)
    runner.terminate()
    assert runner.communicate(timeout=10)[0] == "announced\nended\n"


def test_a_large_log_is_put_aside_while_its_writer_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "LOG_LIMIT_BYTES", 10)
    log = tmp_path / "program.log"
    with log.open("a") as writer:
        print("twelve bytes", file=writer, flush=True)
        processes._put_aside_large(log)
        print("more", file=writer, flush=True)
    assert log.read_text(encoding="ascii") == "more\n"
    assert (tmp_path / "program.log.1").read_text(encoding="ascii") == "twelve bytes\n"
