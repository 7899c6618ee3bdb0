"""Starts the web server, the same way for the demo, the image and the units: `python -m config.serve`.

It adapts granian: processes that die, grow or hang are replaced one by one; unfinished heads are given up; a port is
never shared with another installation. No Django before the processes load.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from time import monotonic, sleep
from typing import Any, Final
from weakref import WeakKeyDictionary

from granian._internal import load_target
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import logger
from granian.server.mp import MPServer, WorkerProcess

from config.connections import cut_off_unread_answers
from config.exchanges import use_exchanges
from config.pulses import Pulses, watch

TARGET: Final = "config.wsgi:application"
HEAD_BYTES: Final = 65_536  # request lines of 32 KiB are promised
# Also between two requests: a proxy must give up its idle connections earlier (deploy/nginx).
HEAD_SECONDS: Final = 30
BACKLOG: Final = 2048
# Per process; an open connection that sends nothing takes a few KiB.
MOST_CONNECTIONS: Final = 8192
_FILES_BESIDE_CONNECTIONS: Final = 256
STOP_SECONDS: Final = 20  # running calls finish in this time; a statement timeout is 15 s
MOST_DEATHS: Final = 20  # in DEATHS_SECONDS: then the service cannot start, and the program that started it should know
DEATHS_SECONDS: Final = 60.0
# A call waits for the interpreter's lock several times, each time so long for a thread that computes (a large body, a
# page): with Python's 5 ms another caller's p99 was 70 ms, with 1 ms it is 17, and no thread gets less done.
SWITCH_SECONDS: Final = 0.001
PATIENCE_SECONDS: Final = 5.0  # the processes of a killed server are gone in a moment


class PortTaken(Exception):
    """Another program listens on the port; the text says where and what to do."""


class WebServer(MPServer):
    """granian's server, with a pulse for each process."""

    def __init__(self, *, unread_seconds: float, **options: Any) -> None:
        super().__init__(TARGET, **options)
        self._unread_seconds = unread_seconds
        self._pulses = Pulses()
        self._slots: WeakKeyDictionary[WorkerProcess, int] = WeakKeyDictionary()
        self._deaths: list[float] = []
        self.has_given_up = False

    def counts(self) -> dict[int, int]:
        """Return how often each process has beaten, by process id."""
        workers = [worker for worker in list(self.wrks) if worker.inner.pid is not None]
        return {worker.inner.pid: self._pulses.count(self._slots[worker]) for worker in workers}

    def _spawn_worker(  # type: ignore[override]  # as MPServer, not as its base class has it
        self, idx: int, target: Any, callback_loader: Any
    ) -> WorkerProcess:
        slot = self._pulses.new_slot()
        worker = super()._spawn_worker(
            idx, target, partial(_load, self._pulses, slot, self.bind_port, self._unread_seconds, callback_loader)
        )
        self._slots[worker] = slot
        return worker

    def _respawn_workers(self, workers: Any, spawn_target: Any, target_loader: Any, delay: float = 0) -> None:
        """Replace processes, or give up: early until one has started, since the settings may be wrong; later rarely.

        granian itself gives up if one process dies twice within seconds, but never if two die in turn.
        """
        now = monotonic()
        self._deaths = [each for each in self._deaths if now - each < DEATHS_SECONDS] + [now]
        if len(self._deaths) >= (MOST_DEATHS if self._pulses.has_started() else 2 * self.workers):
            logger.error("The web processes die again and again: giving up")
            self.has_given_up = self.interrupt_signal = True
            self.main_loop_interrupt.set()
            return
        super()._respawn_workers(workers, spawn_target, target_loader, delay)
        self.respawned_wrks.clear()


def _load(pulses: Pulses, slot: int, port: int, unread_seconds: float, callback_loader: Callable[[], Any]) -> Any:
    """The first steps of a new process."""
    sys.setswitchinterval(SWITCH_SECONDS)
    pulses.keep_beating(slot)
    cut_off_unread_answers(port, unread_seconds)
    application = callback_loader()
    pulses.note_start()
    return application


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    # The processes inherit it: the application divides its threads by this number.
    os.environ["ENDPOINTS_WEB_THREADS"] = str(options.threads)
    # Only forked processes share the memory of the pulses.
    multiprocessing.set_start_method("fork")
    connections = _raise_file_limit() - _FILES_BESIDE_CONNECTIONS
    try:
        with claimed(options.host, options.port):
            use_exchanges()
            server = WebServer(
                unread_seconds=options.unread_seconds,
                address=options.host,
                port=options.port,
                interface=Interfaces.WSGI,
                workers=options.workers,
                blocking_threads=options.threads,
                # HTTP/2 would let one connection bring hundreds of requests; proxies speak HTTP/1.1 to their backends.
                http=HTTPModes.http1,
                http1_settings=HTTP1Settings(header_read_timeout=HEAD_SECONDS * 1000, max_buffer_size=HEAD_BYTES),
                backlog=BACKLOG,
                backpressure=max(BACKLOG // 8, min(MOST_CONNECTIONS, connections)),
                websockets=False,
                respawn_failed_workers=True,
                respawn_interval=3.5,
                workers_lifetime=options.lifetime_seconds or None,
                workers_max_rss=options.max_rss_mib or None,
                workers_kill_timeout=STOP_SECONDS,
            )
            server.on_startup(partial(_start_watch, server, options.silent_seconds))
            server.serve(target_loader=partial(load_target, TARGET), wrap_loader=False)
    except PortTaken as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 1 if server.has_given_up else 0


def _start_watch(server: WebServer, silent_seconds: float) -> None:
    def report(process: int) -> None:
        logger.error(f"The web process {process} has not answered for {silent_seconds:g} s: it is replaced")

    options = {"silent_seconds": silent_seconds, "report": report}
    threading.Thread(target=watch, args=(server.counts,), kwargs=options, name="watch", daemon=True).start()


@contextmanager
def claimed(host: str, port: int, *, patience_seconds: float = PATIENCE_SECONDS) -> Iterator[None]:
    """Hold this address for one web server. Raises PortTaken.

    granian lets its processes share the port by SO_REUSEPORT, so any other program of the same user could share it too,
    and each would get some of the calls. A name that only one program can have prevents a second start at the same
    moment.
    """
    deadline = monotonic() + patience_seconds
    while True:
        with socket.socket(socket.AF_UNIX) as name:
            try:
                if sys.platform == "linux":
                    name.bind(f"\0log-query-endpoints {host}:{port}")
                _refuse_listener(host, port)
            except OSError as error:
                if monotonic() < deadline:
                    sleep(0.1)
                    continue
                raise PortTaken(
                    f"The web server cannot listen on {host} port {port} ({error.strerror}): stop the program that "
                    f"does, or choose another port with --port."
                ) from error
            yield
            return


def _refuse_listener(host: str, port: int) -> None:
    with socket.socket(_family(host)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _raise_file_limit() -> int:
    """Allow this process and its children as many open files as the system permits; return the number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * MOST_CONNECTIONS
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return max(soft, allowed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m config.serve",
        description="Serve the API and the admin over HTTP until SIGTERM or Ctrl-C.",
        epilog="Example: python -m config.serve --host 0.0.0.0 --port 8000 --workers 2 --threads 16",
    )
    add = partial(parser.add_argument, metavar="N")
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="default: %(default)s")
    add("--port", type=_number(1, 65_535), default=8000, help="default: %(default)s")
    add("--workers", type=_number(1, 512), default=2, help="web processes; default: %(default)s")
    add(
        "--threads",
        type=_number(2, 512),
        default=os.environ.get("ENDPOINTS_WEB_THREADS") or "16",
        help="threads of each process; default: ENDPOINTS_WEB_THREADS, else 16",
    )
    add(
        "--max-rss-mib",
        type=_number(0, 1_048_576),
        default=1024,
        help="replace a process that uses more memory than this, MiB; 0: never; default: %(default)s",
    )
    add(
        "--lifetime-seconds",
        type=_number(0, 31_536_000),
        default=86_400,
        help="replace a process of this age (at least 60); 0: never; default: %(default)s",
    )
    add(
        "--silent-seconds",
        type=_number(2, 3600),
        default=10,
        help="kill and replace a process that has done nothing for this time; default: %(default)s",
    )
    add(
        "--unread-seconds",
        type=_number(1, 3600),
        default=30,
        help="close a connection whose client reads almost no data for this time; default: %(default)s",
    )
    return parser


def _number(least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} to {most}")
        return int(text)

    return read


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
