"""How the web server is started: its options, and the port that it does not share."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from config import serve
from tests.files import PROJECT


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_second_server_of_the_same_port_is_refused(port: int) -> None:
    with (
        serve.claimed("127.0.0.1", port),
        pytest.raises(serve.PortTaken) as refused,
        serve.claimed("127.0.0.1", port, patience_seconds=0),
    ):
        pass
    assert f"127.0.0.1 port {port}" in str(refused.value)
    assert "--port" in str(refused.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_port_that_somebody_else_would_share_is_refused(port: int, host: str) -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        with pytest.raises(serve.PortTaken), serve.claimed(host, port, patience_seconds=0):
            pass


def test_a_port_is_free_again_after_its_server(port: int) -> None:
    for _ in range(2):
        with serve.claimed("127.0.0.1", port, patience_seconds=0):
            pass


def test_two_ports_do_not_meet(port: int) -> None:
    with serve.claimed("127.0.0.1", port), serve.claimed("127.0.0.2", port, patience_seconds=0):
        for host in ("127.0.0.1", "127.0.0.2"):
            with pytest.raises(serve.PortTaken), serve.claimed(host, port, patience_seconds=0):
                pass


def test_a_taken_port_is_one_line_and_a_status(port: int) -> None:
    with serve.claimed("127.0.0.1", port):
        ended = subprocess.run(
            [sys.executable, "-m", "config.serve", "--port", str(port)],
            cwd=PROJECT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1
    assert f"port {port}" in ended.stderr


@pytest.mark.parametrize(
    "arguments",
    [["--port", "0"], ["--port", "70000"], ["--port", "x"], ["--threads", "1"], ["--workers", "-1"], ["extra"]],
)
def test_refuses_options_that_make_no_sense(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        serve._parser().parse_args(arguments)
    assert refused.value.code == 2
    assert arguments[-1] in capsys.readouterr().err


def test_its_threads_are_those_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENDPOINTS_WEB_THREADS", "24")
    assert serve._parser().parse_args([]).threads == 24
    monkeypatch.delenv("ENDPOINTS_WEB_THREADS")
    assert serve._parser().parse_args([]).threads == 16


def test_help_has_an_example() -> None:
    assert "Example: python -m config.serve" in serve._parser().format_help()
