"""Runs several programs together until told to stop: restarts those that die, and leaves nothing behind. No Django.

Each program leads a session of its own, so Ctrl-C reaches only this process, which ends the others in order. A guard (a
shell that waits for the end of a pipe) ends them if this process cannot: after kill -9 the pipe closes, and the guard
kills every group that it knows. PR_SET_PDEATHSIG would reach only the direct children, and granian's workers outlive a
killed parent.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GRACE_SECONDS = 10.0
TICK_SECONDS = 0.1
LOG_LIMIT_BYTES = 10 * 1024 * 1024
STEADY_SECONDS = 60.0  # After so long a program has recovered, and its earlier failures are forgotten.
# In a row, with delays of 1, 2, 4 and 8 s between them. A killed program (by the kernel for lack of memory, or by a
# person) has not failed, and is restarted every time.
MOST_FAILURES = 5

# Every line replaces the list of process groups; an empty one means that all is well and nothing is left to kill.
GUARD_SCRIPT = """\
trap '' INT TERM HUP
groups=
while read -r line; do groups=$line; done
for group in $groups; do kill -KILL "-$group" 2>/dev/null; done
exit 0
"""
# A program begins once the guard knows it; if this process dies before, the shell reads the end of file and exits.
LAUNCH_SCRIPT = 'read -r known && exec "$@" </dev/null'


@dataclass(frozen=True, slots=True)
class Program:
    """A program to run, its name in reports, and the file for its output."""

    name: str
    arguments: Sequence[str]
    log: Path


class ProgramFailed(Exception):
    """A program died again and again; the text names it, its status and the last line it wrote."""


@dataclass(slots=True)
class _Run:
    program: Program
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    failures: int = 0
    restart_at: float | None = field(default=None)


def run_together(
    programs: Sequence[Program],
    environment: Mapping[str, str],
    *,
    folder: Path,
    report: Callable[[str], None],
    is_up: Callable[[], bool],
    announce: Callable[[], None],
    first_delay_seconds: float = 1.0,
) -> None:
    """Run the programs in this folder until SIGINT, SIGTERM or SIGHUP, then end them; a second signal kills them.

    `announce` is called once, when `is_up` is first true; `report` gets one line for each death and restart. Call it
    from the main thread. Raises ProgramFailed, after ending the others, if one keeps dying.
    """
    runs = [_Run(program) for program in programs]
    with ExitStack() as stack:
        stop = stack.enter_context(_stop_requests())
        guard = stack.enter_context(_guard())
        stack.callback(_end_all, runs, stop)

        def tell_guard() -> None:
            guard(" ".join(str(item.process.pid) for item in runs if item.process is not None))

        def start(run: _Run) -> None:
            _start(run, environment, folder=folder, tell_guard=tell_guard)

        for run in runs:
            start(run)
        is_announced = False
        while not stop.wait_first(TICK_SECONDS):
            if not is_announced and is_up():
                announce()
                is_announced = True
            for run in runs:
                _look_after(run, report, first_delay_seconds)
                if run.restart_at is not None and time.monotonic() >= run.restart_at:
                    start(run)


def last_line(log: Path) -> str:
    """Return the last line of a log that is not blank."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 8192))
        lines = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "(it wrote nothing)"


def _start(run: _Run, environment: Mapping[str, str], *, folder: Path, tell_guard: Callable[[], None]) -> None:
    _put_aside_large(run.program.log)
    held, let_go = os.pipe()
    try:
        with run.program.log.open("ab") as log:
            run.process = subprocess.Popen(  # noqa: S603  # programs and arguments are the caller's own
                ["/bin/sh", "-c", LAUNCH_SCRIPT, "sh", *run.program.arguments],
                env=dict(environment),
                cwd=folder,
                stdin=held,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        run.started_at = time.monotonic()
        run.restart_at = None
        tell_guard()
        os.write(let_go, b"known\n")  # never refused: this process holds the other end too
    finally:
        os.close(held)
        os.close(let_go)


def _look_after(run: _Run, report: Callable[[str], None], first_delay_seconds: float) -> None:
    """Notice a death, end what the dead program left, and set the time of its restart."""
    _put_aside_large(run.program.log)
    if run.process is None or run.process.poll() is None:
        return
    _kill_group(run.process)
    status, run.process = run.process.returncode, None
    if status < 0 or time.monotonic() - run.started_at > STEADY_SECONDS:
        run.failures = 0
    run.failures += 1
    died = f"{run.program.name} ended with status {status} ({run.program.log}): {last_line(run.program.log)}"
    if run.failures >= MOST_FAILURES:
        raise ProgramFailed(died)
    delay = first_delay_seconds * 2 ** (run.failures - 1)
    report(f"{died}; starting it again in {delay:g} s")
    run.restart_at = time.monotonic() + delay


def _end_all(runs: Sequence[_Run], stop: _Stop) -> None:
    """End every program: politely first, its whole group by force when the grace is over or a second signal comes."""
    processes = [run.process for run in runs if run.process is not None]
    for process in processes:
        # Only to the leader, which ends its workers in order; a signal to all would cut a worker's task short.
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + GRACE_SECONDS
    while any(process.poll() is None for process in processes) and time.monotonic() < deadline:
        if stop.wait_second(TICK_SECONDS / 2):
            break
    for process in processes:
        _kill_group(process)
        process.wait()


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the rest of a program's process group; its id stays taken while any member lives."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _put_aside_large(log: Path) -> None:
    """Keep a log bounded: copy a large one to `.1` and empty it; its writers append, so they continue at the start."""
    if log.exists() and log.stat().st_size > LOG_LIMIT_BYTES:
        shutil.copyfile(log, log.with_name(f"{log.name}.1"))
        os.truncate(log, 0)


class _Stop:
    """Counts the signals that ask for an end.

    A plain number: a handler runs in the middle of anything, and a lock that its own thread holds would never be free.
    """

    def __init__(self) -> None:
        self._signals = 0

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        self._signals += 1

    def wait_first(self, seconds: float) -> bool:
        return self._wait(1, seconds)

    def wait_second(self, seconds: float) -> bool:
        return self._wait(2, seconds)

    def _wait(self, number: int, seconds: float) -> bool:
        if self._signals < number:
            time.sleep(seconds)  # continues after a handler
        return self._signals >= number


@contextmanager
def _stop_requests() -> Iterator[_Stop]:
    stop = _Stop()
    # Under nohup SIGHUP is ignored, and stays ignored.
    numbers = [
        number for number in STOP_SIGNALS if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN
    ]
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _guard() -> Iterator[Callable[[str], None]]:
    """Run the guard; yield the function that tells it which process groups to kill if this process dies."""
    guard = subprocess.Popen(  # noqa: S603  # the script above
        ["/bin/sh", "-c", GUARD_SCRIPT],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
        text=True,
    )
    pipe = guard.stdin
    assert pipe is not None  # noqa: S101  # stdin=PIPE

    def tell(groups: str) -> None:
        # A killed guard matters only if this process is killed too.
        with suppress(BrokenPipeError):
            pipe.write(groups + "\n")
            pipe.flush()

    try:
        yield tell
    finally:
        tell("")
        with suppress(BrokenPipeError):
            pipe.close()
        guard.wait()
