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
from pathlib import Path

GRACE_SECONDS = 10.0
TICK_SECONDS = 0.1


@contextmanager
def held_signals() -> Iterator[list[int]]:
    """Yield the list of the SIGINT, SIGTERM and SIGHUP that come; what it holds at the end takes effect then.

    Only for the main thread. A signal that is ignored, as SIGHUP is under nohup, stays ignored.
    """
    came: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: came.append(number))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) != signal.SIG_IGN
    }
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for each in came:
            signal.raise_signal(each)


def run_together(
    programs: Mapping[str, Sequence[str]], environment: Mapping[str, str], logs: Path, announce: Callable[[], bool]
) -> str:
    """Run the named programs here until a signal asks for an end, then end them; a second signal kills them.

    `announce` is called until it returns true. If a program ends by itself, all are ended, and the text that is
    returned names it, its status, its log, which is in the folder `logs`, and the last line there.
    """
    running: dict[str, subprocess.Popen[bytes]] = {}
    ended, is_announced = "", False
    with held_signals() as asked:
        try:
            for name, arguments in programs.items():
                group = next((process.pid for process in running.values()), 0)
                with (logs / f"{name}.log").open("wb") as log:
                    running[name] = subprocess.Popen(  # noqa: S603  # programs and arguments are the caller's own
                        arguments, env=environment, process_group=group,
                        stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                    )  # fmt: skip
            while not asked and not ended:
                for name, process in running.items():
                    if process.poll() is not None:
                        log_file = logs / f"{name}.log"
                        words = last_lines(log_file, count=1) or "(it wrote nothing)"
                        ended = ended or f"{name} ended with status {process.returncode} ({log_file}): {words}"
                is_announced = is_announced or announce()
                time.sleep(TICK_SECONDS)
        finally:
            _end([*running.values()], asked)
            asked.clear()
    return ended


def last_lines(log: Path, *, count: int = 8) -> str:
    """Return the end of a log, for an error message."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 8192))
        lines = file.read().decode(errors="replace").splitlines()
    return "\n".join([line.strip() for line in lines if line.strip()][-count:])


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
