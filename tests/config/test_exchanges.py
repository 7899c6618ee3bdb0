"""Whether a client has left its request: read from the real web server's memory, and never guessed."""

from __future__ import annotations

import ctypes
import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from config import exchanges
from config.exchanges import Exchange
from tests.files import PROJECT
from tests.live.calls import until
from tests.live.installation import free_port


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """The port of a holding server."""
    number = free_port()
    command = [sys.executable, "-m", "tests.config.holding_server", str(number)]
    server = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
    try:
        until(lambda: _answers(number), seconds=30)
        yield number
    finally:
        server.terminate()
        server.wait(30)


def _answers(port: int) -> bool:
    try:
        ask(port, "noticed", "")
    except OSError:
        return False
    return True


def ask(port: int, what: str, name: str) -> Any:
    connection = send(port, what, name)
    try:
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def send(port: int, what: str, name: str) -> http.client.HTTPConnection:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=40)
    connection.request("GET", f"/{what}/{name}")
    return connection


@pytest.mark.parametrize("how", ["hold", "later"])
def test_the_request_whose_client_left_is_abandoned_and_the_other_one_is_not(port: int, how: str) -> None:
    # Fails if an update of granian moves what is read: then find the words anew, and adapt `_KNOWN_BUILD`.
    leaving, staying = send(port, how, f"{how}-leaving"), send(port, how, f"{how}-staying")
    for name in ("leaving", "staying"):
        until(lambda name=name: ask(port, "abandoned", f"{how}-{name}") is False, seconds=10)  # type: ignore[misc]
    leaving.close()
    until(lambda: ask(port, "abandoned", f"{how}-leaving") is True, seconds=10)
    assert ask(port, "abandoned", f"{how}-staying") is False
    assert ask(port, "noticed", "") is True
    ask(port, "release", f"{how}-staying")
    assert json.loads(staying.getresponse().read()) == ("held" if how == "hold" else "later")
    staying.close()
    assert ask(port, "abandoned", f"{how}-staying") is False, "nobody has left an answered exchange"
    ask(port, "release", f"{how}-leaving")


@pytest.fixture
def fresh_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanges._Layout, "is_readable", None)


@pytest.mark.parametrize("build", [("2.8.8", "cpython", "x86_64", "linux"), ("2.8.7", "cpython", "riscv64", "linux")])
def test_in_another_build_nobody_is_taken_for_gone_and_the_log_says_so_once(
    fresh_layout: None, monkeypatch: pytest.MonkeyPatch, build: tuple[str, ...]
) -> None:
    monkeypatch.setattr(exchanges, "_KNOWN_BUILD", build)
    with capture_logs() as logs:
        assert [Exchange(object()).is_abandoned() for _ in range(3)] == [False] * 3
    assert [line["event"] for line in logs] == ["leaving_clients_unnoticed"]


def test_an_object_of_another_size_is_not_read(fresh_layout: None) -> None:
    with capture_logs() as logs:
        assert not Exchange(object()).is_abandoned()
    assert [line["log_level"] for line in logs] == ["warning"]


class Memory:
    """A protocol object and its channel with these words."""

    def __init__(self, *, has_sender: int = 1, owners: int = 2, weak_owners: int = 1, state: int = 1) -> None:
        self.channel = (ctypes.c_uint64 * 8)(owners, weak_owners, 0, 0, 0, 0, state, 0)
        self.protocol = (ctypes.c_uint64 * 5)(9, 9, 0, has_sender, ctypes.addressof(self.channel))

    def is_gone(self) -> bool:
        file = os.open("/proc/self/mem", os.O_RDONLY)
        try:
            return exchanges._look(file, ctypes.addressof(self.protocol))
        finally:
            os.close(file)


@pytest.mark.parametrize(
    ("memory", "is_gone"),
    [
        pytest.param(Memory(), False, id="the receiver waits"),
        pytest.param(Memory(state=0), False, id="the receiver was not looked at yet"),
        pytest.param(Memory(owners=1, state=4), True, id="the receiver is gone"),
        pytest.param(Memory(owners=1, state=5), True, id="it went while it waited"),
        pytest.param(Memory(owners=2, state=4), False, id="it is going"),
        pytest.param(Memory(owners=1, state=1), False, id="only one of two signs"),
        pytest.param(Memory(has_sender=0, owners=1, state=4), False, id="answered: the channel may be anything"),
    ],
)
def test_the_words_of_a_channel(memory: Memory, is_gone: bool) -> None:
    assert memory.is_gone() is is_gone


@pytest.mark.parametrize(
    "memory",
    [Memory(owners=0), Memory(owners=3), Memory(weak_owners=2), Memory(state=2), Memory(state=2**63)],
)
def test_words_that_make_no_sense_are_an_error(memory: Memory) -> None:
    with pytest.raises(exchanges._LayoutUnknown):
        memory.is_gone()


@pytest.mark.parametrize("address", [8, 2**47 - 4096])
def test_a_wrong_address_is_an_error_and_no_crash(address: int) -> None:
    memory = Memory()
    memory.protocol[4] = address
    with pytest.raises(OSError, match="Input/output error"):
        memory.is_gone()
