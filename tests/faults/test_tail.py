"""The loop that the docs show follows a tail of a real server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import textwrap
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.files import PROJECT
from tests.live.calls import until
from tests.live.installation import Installation

GENEROUS_SECONDS = 60.0  # two for a page, the rest for the machine


@pytest.fixture(scope="module")
def loader(running_installation: Installation) -> str:
    secret: str = running_installation.console.do("issue", name="tail loader", may_load=True)
    return secret


def load(installation: Installation, loader: str, message: str) -> None:
    row = {"project": "tailed", "event_message": message, "timestamp": datetime.now(UTC).isoformat()}
    with installation.caller(secret=loader) as caller:
        body, headers = json.dumps(row).encode(), {"content-type": "application/json"}
        answer = caller.request("POST", "/api/logs?source=edge_logs", body=body, **headers)
    assert answer.status == 200, answer.body


def test_the_loop_of_the_docs_follows_a_tail(installation: Installation, loader: str, tmp_path: Path) -> None:
    text = (PROJECT / "docs" / "tail.md").read_text()
    start = text.index("    next=\n")
    loop = textwrap.dedent(text[start : text.index("\n\n", start)])
    loop = loop.replace("project=acme", "project=tailed").replace(
        "lql=m.response.status_code:>=400", "lql=follow s:event_message"
    )
    base = f"http://127.0.0.1:{installation.port}/api/endpoints/query"
    environment = {"PATH": os.environ["PATH"], "TOKEN": installation.secret, "BASE": base}
    output = tmp_path / "output"
    with output.open("w") as file:
        process = subprocess.Popen(["bash", "-c", loop], env=environment, stdout=file, start_new_session=True)
    expected: list[str] = []
    try:
        for number in range(3):
            expected.append(f"follow {number}")
            load(installation, loader, expected[-1])
            until(lambda: output.read_text().split("\n")[:-1] == expected, seconds=GENEROUS_SECONDS)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
