"""See that a test notices each seeded fault: a copy of this tree gets one fault, and its test must fail there.

Example:

    make faults ARGS='-k cache -k sql/'

First every named test runs without any fault and must pass. Then, for each fault, one line says:

    caught            its test fails
    NOT CAUGHT        its test passes, or fails before it begins, or cannot be collected
    does not apply    the text that it changes is not in its file exactly once
    test fails        its test does not pass without the fault either

The exit code is 0 if all are caught. This tree is never changed; servers keep their data below `.local/faults`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from time import monotonic
from typing import NamedTuple

from config import embedded
from tests.installed_postgres import allow_test_databases
from tests.seeded_faults.listed import PROJECT, Fault, read_faults, selected
from tests.seeded_faults.reports import VARIABLE
from tests.servers import FAST_SETTINGS

NOT_COPIED = (".git", ".venv", ".local", ".*_cache", ".hypothesis", "__pycache__", "staticfiles", "*.egg-info")
TEST_SECONDS = 60  # a fault may make its test wait for ever
PROCESS_SECONDS = 300
LINT = ["ruff", "check", "--no-cache", "--output-format=concise"]
TYPES = ["mypy", "--cache-dir"]
CAUGHT, NOT_CAUGHT, DOES_NOT_APPLY, TEST_FAILS = "caught", "NOT CAUGHT", "does not apply", "test fails"


class Verdict(NamedTuple):
    """What became of a fault, and why, if that says more."""

    word: str
    reason: str = ""


class Phase(NamedTuple):
    """How set-up, call or teardown of a test ended."""

    node: str
    phase: str
    outcome: str
    error: str

    def is_of(self, node: str) -> bool:
        return self.node == node or self.node.startswith(f"{node}[")


class Place:
    """A copy of the tree, and servers of its own, for one test run at a time."""

    def __init__(self, tree: Path, environment: dict[str, str]) -> None:
        self._tree = tree
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, nodes: Sequence[str], *, seconds: float, keeps_bytecode: bool = False) -> tuple[int, list[Phase]]:
        """Run these tests in the copy; return pytest's exit code, 124 if it took too long, and what it reported."""
        reports = self._tree.parent / f"{self._tree.name}.reports"
        reports.write_text("")
        command = [sys.executable, "-m", "pytest", *nodes, "-q", "--numprocesses=0", f"--timeout={TEST_SECONDS}"]
        plugins = ["-p", "no:cacheprovider", "-p", "no:randomly", "-p", "tests.seeded_faults.reports"]
        environment = {**self._environment, VARIABLE: str(reports)}
        if not keeps_bytecode:
            # A changed file is compiled anew and leaves nothing behind that the next fault could meet.
            environment["PYTHONDONTWRITEBYTECODE"] = "1"
        with (self._tree.parent / f"{self._tree.name}.output").open("wb") as output:
            self._process = subprocess.Popen(
                [*command, *plugins], cwd=self._tree, env=environment, stdout=output, stderr=subprocess.STDOUT
            )
            try:
                code = self._process.wait(seconds)
            except subprocess.TimeoutExpired:
                code = 124
            finally:
                self.stop()
        lines = reports.read_text(encoding="utf-8").splitlines()
        return code, [Phase(**json.loads(line)) for line in lines]

    def stop(self) -> None:
        """End the test run, if one is under way."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def output(self) -> str:
        """Return what the last run printed."""
        return (self._tree.parent / f"{self._tree.name}.output").read_text(encoding="utf-8", errors="replace")

    @contextmanager
    def with_fault(self, fault: Fault) -> Iterator[None]:
        """Have the fault in the copy for the length of the block. Raises ValueError if it does not apply."""
        original, path = PROJECT / fault.file, self._tree / fault.file
        path.write_text(fault.apply(original.read_text(encoding="utf-8")), encoding="utf-8")
        try:
            yield
        finally:
            shutil.copy2(original, path)

    def verdict(self, fault: Fault) -> Verdict:
        """Return what the fault's test says of it."""
        try:
            with self.with_fault(fault):
                code, phases = self.run([fault.test, "--maxfail=1"], seconds=PROCESS_SECONDS)
        except (ValueError, OSError) as error:
            return Verdict(DOES_NOT_APPLY, str(error))
        failed = [phase for phase in phases if phase.outcome == "failed" and phase.is_of(fault.test)]
        errors = ", ".join(sorted({phase.error for phase in failed}))
        if code == 1 and any(phase.phase == "call" for phase in failed):
            return Verdict(CAUGHT, errors)
        if code == 0:
            return Verdict(NOT_CAUGHT, "its test passes")
        where = f"{errors} in {failed[0].phase}" if failed else self.output().strip().rpartition("\n")[2]
        return Verdict(NOT_CAUGHT, f"its test did not fail by itself: exit code {code}, {where}")


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


@contextmanager
def places(number: int) -> Iterator[list[Place]]:
    """Make so many places; the servers stop at the end, the copies are removed."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="seeded-faults-")))
        yield [_place(stack, folder / str(each), str(each)) for each in range(number)]


def _place(stack: ExitStack, tree: Path, name: str) -> Place:
    shutil.copytree(PROJECT, tree, ignore=shutil.ignore_patterns(*NOT_COPIED), symlinks=True)
    data = embedded.local_folder(PROJECT) / "faults" / name
    servers = stack.enter_context(embedded.using(data, postgres=True, redis=True, settings=FAST_SETTINGS))
    superuser = str(servers.superuser_url)
    allow_test_databases(superuser)
    return Place(tree, {**os.environ, **servers.environment(), "LOGS_SUPERUSER_URL": superuser})


def failing_without_fault(place: Place, faults: Iterable[Fault]) -> set[str]:
    """Return the tests that do not pass as the tree is, those that are skipped included."""
    nodes = sorted({fault.test for fault in faults})
    _, phases = place.run(nodes, seconds=PROCESS_SECONDS + 10 * len(nodes), keeps_bytecode=True)
    failing = set()
    for node in nodes:
        own = [phase for phase in phases if phase.is_of(node)]
        if not any(phase.phase == "call" for phase in own) or any(phase.outcome != "passed" for phase in own):
            failing.add(node)
    if failing:
        say(place.output())
    return failing


def try_all(faults: Sequence[Fault], workers: int) -> list[Verdict]:
    """Try every fault and print what became of it."""
    started = monotonic()
    say(f"Starting {workers} pairs of servers …")
    with places(workers) as made:
        say("Running every named test without a fault …")
        failing = failing_without_fault(made[0], faults)
        free: SimpleQueue[Place] = SimpleQueue()
        for place in made:
            free.put(place)
        stopping = threading.Event()

        def judge(fault: Fault) -> tuple[Fault, Verdict, float]:
            began = monotonic()
            if stopping.is_set():
                return fault, Verdict(NOT_CAUGHT, "interrupted"), 0.0
            if fault.test in failing:
                return fault, Verdict(TEST_FAILS, fault.test), 0.0
            place = free.get()
            try:
                return fault, place.verdict(fault), monotonic() - began
            finally:
                free.put(place)

        verdicts = []
        with ThreadPoolExecutor(workers) as pool:
            try:
                for number, done in enumerate(as_completed(pool.submit(judge, fault) for fault in faults), start=1):
                    fault, verdict, seconds = done.result()
                    reason = f"  ({verdict.reason})" if verdict.reason else ""
                    count = f"[{number:{len(str(len(faults)))}}/{len(faults)}]"
                    say(f"{count} {verdict.word:<15} {fault.title}  {seconds:.0f} s{reason}")
                    verdicts.append(verdict)
            except KeyboardInterrupt:
                stopping.set()
                for place in made:
                    place.stop()
                raise
    say(f"{_counted(verdicts)} in {monotonic() - started:.0f} s.")
    return verdicts


def _counted(verdicts: Sequence[Verdict]) -> str:
    words = [verdict.word for verdict in verdicts]
    return ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys([CAUGHT, *words]))


def lint_all(faults: Sequence[Fault]) -> int:
    """Apply the faults to a copy and let ruff and mypy look at it: what they see is no fault for this list."""
    code = 0
    with TemporaryDirectory(prefix="seeded-faults-") as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(PROJECT, tree, ignore=shutil.ignore_patterns(*NOT_COPIED), symlinks=True)
        environment = {**os.environ, "SECRET_KEY": "only-for-reading-the-settings-while-checking-types"}
        waiting = list(faults)
        while waiting:
            applied = _apply_apart(waiting, tree)
            for command in (LINT, [*TYPES, str(Path(folder) / "mypy")]):
                done = subprocess.run([sys.executable, "-m", *command], cwd=tree, env=environment, check=False)
                code = max(code, done.returncode)
            for fault in applied:
                shutil.copy2(PROJECT / fault.file, tree / fault.file)
            waiting = [fault for fault in waiting if fault not in applied]
    return code


def _apply_apart(faults: Iterable[Fault], tree: Path) -> list[Fault]:
    """Apply the faults that change different places and return them. Raises ValueError for one that never applies."""
    applied: list[Fault] = []
    for fault in faults:
        path = tree / fault.file
        try:
            path.write_text(fault.apply(path.read_text(encoding="utf-8")), encoding="utf-8")
        except ValueError:
            if not any(other.file == fault.file for other in applied):
                raise
        else:
            applied.append(fault)
    return applied


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says and return the exit code."""
    description, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="make faults", description=description, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-k", dest="words", action="append", default=[], metavar="WORD", help="only faults named so")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="test runs at the same time; default: 2")
    parser.add_argument("--list", action="store_true", help="print the faults and what each does to users")
    parser.add_argument("--lint", action="store_true", help="see that ruff and mypy notice none of them")
    options = parser.parse_args(arguments)
    faults = selected(read_faults(), options.words)
    if not faults:
        parser.error(f"no fault has {' or '.join(options.words)} in its room or name")
    if options.list:
        for fault in faults:
            say(f"{fault.title}: {fault.harm}")
        return 0
    if options.lint:
        return lint_all(faults)
    return int(any(verdict.word != CAUGHT for verdict in try_all(faults, options.workers)))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
