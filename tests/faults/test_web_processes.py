"""A web process that is killed or stopped is replaced, and the others answer meanwhile."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPException

import pytest

from tests.faults.conftest import CACHED
from tests.live.calls import REACHES_EVERY_PROCESS, until
from tests.live.installation import Installation, free_port, wait_until_ready
from tests.live.processes import PROJECT, Process, children, web_server

SILENT_SECONDS = 3
UNREAD_SECONDS = 2


class Web:
    """A web server that is started again where a drill has ended it."""

    def __init__(self, installation: Installation) -> None:
        self.installation = installation
        self.port = free_port()
        self.process = self._start()

    def put_in_order(self) -> None:
        """Wait until both processes answer, whatever the drill before has done to them."""
        if not self.process.is_running:
            self.process = self._start()
        wait_until_ready(self.process, self.port)
        until(lambda: len(self.workers()) == 2, seconds=10)
        until(self.answers_everywhere, seconds=20)

    def _start(self) -> Process:
        arguments = web_server(self.port, workers=2, threads=4)
        arguments += ["--silent-seconds", str(SILENT_SECONDS), "--unread-seconds", str(UNREAD_SECONDS)]
        return self.installation.start(f"web-{self.port}", *arguments)

    def workers(self) -> list[int]:
        return children(self.process.id)

    def answers_everywhere(self) -> bool:
        """Tell whether every new connection is answered, in whichever process it lands."""
        for _ in range(REACHES_EVERY_PROCESS):
            with suppress(OSError, HTTPException), self.installation.caller(port=self.port) as caller:
                if caller.query(CACHED).status == 200:
                    continue
            return False
        return True


@pytest.fixture(scope="module")
def running_web(running_installation: Installation) -> Iterator[Web]:
    web = Web(running_installation)
    yield web
    web.process.kill()


@pytest.fixture
def web(installation: Installation, running_web: Web) -> Web:
    running_web.put_in_order()
    return running_web


def is_replaced(web: Web, victim: int) -> bool:
    return victim not in web.workers() and len(web.workers()) == 2


def test_a_killed_web_process_is_replaced(web: Web) -> None:
    first, second = web.workers()
    os.kill(first, signal.SIGKILL)
    until(lambda: is_replaced(web, first), seconds=15)
    assert second in web.workers()
    until(web.answers_everywhere, seconds=20)
    assert web.process.is_running


def test_a_web_process_that_is_killed_again_and_again_comes_back(web: Web) -> None:
    for _ in range(3):
        for victim in web.workers():
            os.kill(victim, signal.SIGKILL)
            until(lambda victim=victim: is_replaced(web, victim), seconds=15)  # type: ignore[misc]
    until(web.answers_everywhere, seconds=20)
    assert web.process.is_running


def test_a_stopped_web_process_is_replaced(web: Web) -> None:
    victim, other = web.workers()
    os.kill(victim, signal.SIGSTOP)
    until(lambda: is_replaced(web, victim), seconds=SILENT_SECONDS + 15)
    assert other in web.workers()
    until(web.answers_everywhere, seconds=20)


def test_processes_end_with_their_parent(web: Web) -> None:
    workers = web.workers()
    os.kill(web.process.id, signal.SIGKILL)
    until(lambda: not any(os.path.exists(f"/proc/{worker}/exe") for worker in workers), seconds=10)


def test_a_client_that_does_not_read_its_answer_is_closed(web: Web, name: str) -> None:
    web.installation.save(name, "SELECT repeat('a', 16000000) AS text", cache_seconds=0)
    request = (
        f"GET /api/endpoints/query/{name} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-KEY: {web.installation.secret}\r\n\r\n"
    )
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(20)
        client.connect(("127.0.0.1", web.port))
        client.sendall(request.encode())
        assert client.recv(9) == b"HTTP/1.1 "
        until(lambda: is_closed(client), seconds=UNREAD_SECONDS * 5 + 10)


def is_closed(client: socket.socket) -> bool:
    """Tell whether the other side has ended the connection, without reading from it: see tcp(7), CLOSE_WAIT is 8."""
    return client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] in (0, 7, 8)


def test_wrong_settings_end_the_server_soon(installation: Installation) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", *web_server(free_port(), workers=2, threads=4)],
        cwd=PROJECT,
        env={**installation.environment, "SECRET_KEY": "too short"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    assert "giving up" in ended.stdout + ended.stderr


def test_a_second_installation_on_the_same_port_is_refused(web: Web) -> None:
    second = subprocess.run(
        [sys.executable, "-m", *web_server(web.port, workers=1, threads=4)],
        cwd=PROJECT,
        env=web.installation.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert second.returncode == 1
    assert f"port {web.port}" in second.stderr
    assert web.answers_everywhere()
