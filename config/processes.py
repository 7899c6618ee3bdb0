"""Runs several programs together until one of them ends or somebody asks for an end; none is left then. No Django.

They are one process group of their own, so Ctrl-C reaches only this process, which ends the others in order.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

GRACE_SECONDS = 10.0
TICK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Program:
    """A program to run with this environment, its name in reports, and the file for its output."""

    name: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    log: Path


class ProgramEnded(Exception):
    """A program ended by itself; the text names it, its status and the last line it wrote."""


@contextmanager
def held_signals() -> Iterator[list[int]]:
    """Yield the list of the SIGINT, SIGTERM and SIGHUP that come; what it holds at the end takes effect then.

    Only for the main thread. A signal that is ignored, as SIGHUP is under nohup, stays ignored.
    """
    came: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    for number, handler in before.items():
        if handler != signal.SIG_IGN:
            signal.signal(number, lambda number, _: came.append(number))
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for each in came:
            signal.raise_signal(each)


def run_together(
    programs: Sequence[Program], folder: Path, is_up: Callable[[], bool], announce: Callable[[], None]
) -> None:
    """Run the programs in this folder until a signal asks for an end, then end them; a second signal kills them.

    `announce` is called once, when `is_up` is first true. Raises ProgramEnded, after ending the others.
    """
    running: list[subprocess.Popen[bytes]] = []
    is_announced = False
    with held_signals() as asked:
        try:
            for program in programs:
                running.append(_start(program, folder, group=running[0].pid if running else 0))
            while not asked:
                for program, process in zip(programs, running, strict=True):
                    if process.poll() is not None:
                        told = f"{program.name} ended with status {process.returncode} ({program.log})"
                        raise ProgramEnded(f"{told}: {last_lines(program.log, count=1) or '(it wrote nothing)'}")
                if not is_announced and is_up():
                    announce()
                    is_announced = True
                time.sleep(TICK_SECONDS)
        finally:
            _end(running, asked)
            asked.clear()


def last_lines(log: Path, *, count: int = 8) -> str:
    """Return the end of a log, for an error message."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 8192))
        lines = file.read().decode(errors="replace").splitlines()
    return "\n".join([line.strip() for line in lines if line.strip()][-count:])


def _start(program: Program, folder: Path, *, group: int) -> subprocess.Popen[bytes]:
    with program.log.open("wb") as log:
        return subprocess.Popen(  # noqa: S603  # programs and arguments are the caller's own
            program.arguments, env=program.environment, cwd=folder, process_group=group,
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip


def _end(processes: Sequence[subprocess.Popen[bytes]], asked: Sequence[int]) -> None:
    """End every program: politely first, the whole group by force after the grace, or when asked a second time."""
    for process in processes:
        process.terminate()  # only these: a signal to the whole group would cut a worker's task short
    deadline = time.monotonic() + GRACE_SECONDS
    while any(process.poll() is None for process in processes) and time.monotonic() < deadline and len(asked) < 2:
        time.sleep(TICK_SECONDS / 2)
    with suppress(ProcessLookupError, IndexError):
        os.killpg(processes[0].pid, signal.SIGKILL)
    for process in processes:
        process.wait()
