"""Which clients count as not reading; connections and times are the test's own."""

from __future__ import annotations

import socket
from contextlib import ExitStack

from config.connections import BYTES_PER_SECOND, Progress, SlowReaders, sent_so_far, torn_end

SECONDS = 30.0
ENOUGH = int(BYTES_PER_SECOND * SECONDS)


def unread(arrived: int) -> Progress:
    return Progress(sent=10**9, arrived=arrived, is_unfinished=True)


def test_who_takes_nothing_is_closed_after_its_time() -> None:
    readers = SlowReaders(SECONDS)
    assert [readers.look({1: unread(500)}, now) for now in (0.0, 15.0, 29.9, 30.0)] == [[], [], [], [1]]


def test_who_takes_a_little_now_and_then_is_closed_too() -> None:
    readers = SlowReaders(SECONDS)
    taken = [readers.look({1: unread(int(now))}, now) for now in (0.0, 10.0, 20.0, 30.0)]
    assert taken[-1] == [1]


def test_who_reads_slowly_but_steadily_goes_on() -> None:
    readers = SlowReaders(SECONDS)
    for now in range(0, 600, 5):
        assert readers.look({1: unread(now * BYTES_PER_SECOND)}, float(now)) == []


def test_who_has_everything_may_wait_as_long_as_it_likes() -> None:
    readers = SlowReaders(SECONDS)
    finished = Progress(sent=100, arrived=100, is_unfinished=False)
    for now in (0.0, 40.0, 80.0):
        assert readers.look({1: finished}, now) == []


def test_the_time_starts_with_each_answer() -> None:
    readers = SlowReaders(SECONDS)
    readers.look({1: unread(0)}, 0.0)
    readers.look({1: Progress(sent=10, arrived=10, is_unfinished=False)}, 20.0)
    assert readers.look({1: unread(10)}, 31.0) == []
    assert readers.look({1: unread(10)}, 60.0) == []
    assert readers.look({1: unread(10)}, 61.0) == [1]


def test_the_kernel_tells_what_has_arrived() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        with accepted:
            accepted.sendall(b"a" * 1000)
            assert client.recv(1000, socket.MSG_WAITALL) == b"a" * 1000
            progress = sent_so_far(accepted)
            assert progress is not None
            assert progress.sent == 1000


def test_an_answer_that_is_torn_shuts_down_its_own_connection_alone() -> None:
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        clients, accepted = [], []
        for _ in range(3):
            clients.append(stack.enter_context(socket.create_connection(server.getsockname())))
            accepted.append(stack.enter_context(server.accept()[0]))
        for piece in torn_end(server.getsockname()[1], b"the last line"):
            accepted[1].sendall(b"%x\r\n%b\r\n" % (len(piece), piece))  # as the web server sends a chunk
        received = b""
        clients[1].settimeout(30)
        while part := clients[1].recv(65_536):  # until its end
            received += part
        assert received.endswith(b"the last line\r\n")
        for number in (0, 2):
            accepted[number].sendall(b"goes on")
            assert clients[number].recv(100) == b"goes on"


def test_without_its_connection_the_answer_only_has_its_last_line(monkeypatch) -> None:
    monkeypatch.setattr("config.connections.TORN_ROUND_SECONDS", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as server:
        *blanks, last = torn_end(server.getsockname()[1], b"the last line")
    assert last == b"the last line"
    assert set(b"".join(blanks)) == {ord("\n")}
