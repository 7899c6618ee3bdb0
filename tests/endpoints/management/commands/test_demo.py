"""The demo as its user meets it: started, called by the lines it prints, ended, started again."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

import pytest

from config import embedded
from tests.files import PROJECT
from tests.live.processes import command_line
from tests.recorded.recordings import assert_recorded, masked

SETTINGS = (
    "DATABASE_URL", "LOGS_DATABASE_URL", "LOGS_GATE_URL", "LOGS_SUPERUSER_URL", "REDIS_URL", "SECRET_KEY", "HTTPS_ONLY",
)  # fmt: skip
# What is another one in each demo, in lines that are recorded.
DRAWN = {
    r"(?<=--seed )[0-9a-f]{8}": "<seed>",
    r"(?<=  admin / )\S+$": "<password>",
    r"(?<=127\.0\.0\.1:)\d+": "<port>",
    r"20\d\d-\d\d-\d\dT\d\d%3A\d\d%3A\d\d\.\d{6}Z": "<moment>",
}


@pytest.fixture
def root() -> Iterator[Path]:
    # Not tmp_path: pytest closes its folders to other accounts, and root's servers run as another one.
    folder = Path(tempfile.mkdtemp(prefix="endpoints-demo-"))
    folder.chmod(0o755)
    yield folder
    for process in _processes_of(folder):  # of a test that failed
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    embedded.stop(folder)
    shutil.rmtree(folder)


def _start(root: Path, port: int, *options: str) -> tuple[subprocess.Popen[str], list[str]]:
    """Start the demo; return it and what it said until it was up."""
    # Python's own buffering of a pipe: what the demo does not flush would never come.
    inherited = {name: value for name, value in os.environ.items() if name not in (*SETTINGS, "PYTHONUNBUFFERED")}
    process = subprocess.Popen(
        [sys.executable, "manage.py", "demo", "--port", str(port), "--rows", "4500", *options],
        cwd=PROJECT,
        env={**inherited, "ENDPOINTS_LOCAL_DIR": str(root)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    said: list[str] = []
    for line in process.stdout:
        said.append(line.rstrip("\n"))
        if line.startswith("Ctrl-C"):
            return process, said
    process.communicate()
    raise AssertionError("\n".join(said))


def _recorded(line: str, root: Path) -> str:
    """Return what a line of the demo says each time."""
    line = masked(line.replace(str(root), "{folder}"))
    for pattern, name in DRAWN.items():
        line = re.sub(pattern, name, line)
    return line


def _call(curl: str) -> list[dict[str, str]]:
    """Do what a printed line does, without needing curl; return its CSV rows."""
    *words, pipe, head, option, lines = shlex.split(curl)
    assert words[:2] == ["curl", "-s"]
    assert (pipe, head, option) == ("|", "head", "-n")
    headers = dict(words[i + 1].split(": ", 1) for i, word in enumerate(words) if word == "-H")
    with urllib.request.urlopen(urllib.request.Request(words[-1], headers=headers), timeout=60) as answer:
        return list(csv.DictReader(islice(io.TextIOWrapper(answer, "utf-8", newline=""), int(lines))))


def _processes_of(root: Path) -> list[int]:
    """Return the processes that run in the demo's environment, or on its files."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (arguments := command_line(int(entry.name))):
            try:
                environment = (entry / "environ").read_bytes()
            except OSError:
                continue
            if f"={root}".encode() in environment or str(root) in " ".join(arguments):
                found.append(int(entry.name))
    return found


def _title(process: str) -> str:
    return " ".join(command_line(int(process))) if process.isdigit() else ""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _ends(process: subprocess.Popen[str], root: Path) -> None:
    last_words, _ = process.communicate(timeout=60)
    assert (process.returncode, last_words) == (0, "Stopped.\n")
    assert not _processes_of(root)


def test_demo_answers_its_own_lines_and_leaves_nothing_behind(root: Path) -> None:
    port = _free_port()
    process, said = _start(root, port, "--rows-per-second", "0")
    assert_recorded("demo.txt", [_recorded(line, root) for line in said])
    newest, window, counts, redacted = [_call(line) for line in said if line.startswith("curl")]
    assert len(newest) == 19, "a header and as many rows as fit a screen"
    assert window
    assert {"timestamp", "total_rest_requests"} <= counts[0].keys()
    assert "REDACTED" in json.dumps(redacted)
    assert "REDACTED" not in json.dumps(newest)
    assert newest[0].keys() == {"timestamp", "event_message"}
    assert not [line for line in said if line.startswith("Standby")]

    with pytest.raises(AssertionError) as refused:
        _start(root, port)
    assert str(refused.value).startswith(f"manage.py: Port {port} is used by another program")
    assert "\n" not in str(refused.value)

    process.terminate()
    _ends(process, root)
    process, said_again = _start(root, port, "--replicas", "1", "--rows-per-second", "0")
    assert "Sample rows: kept" in said_again
    assert [line for line in said_again if "/admin/" in line] == [line for line in said if "/admin/" in line]
    assert _call(next(line for line in said_again if line.startswith("curl"))) == newest
    assert [line for line in said_again if line.startswith("Standbys: ps ax")]
    shown = [title for title in map(_title, os.listdir("/proc")) if "streaming" in title]
    assert [title for title in shown if "walreceiver" in title]

    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _ends(process, root)
