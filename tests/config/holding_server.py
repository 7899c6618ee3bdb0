"""A web server like the service's whose requests are answered on demand: `python -m … <port>`.

/hold/<name> is held until /release/<name>; /later/<name> likewise, without its thread. /abandoned/<name> answers
whether the client of the held one has left, and /noticed whether the process knows of one that has.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from granian.constants import Interfaces
from granian.server.mp import MPServer

from config.exchanges import PROTOCOL, Exchange, LaterAnswer, use_exchanges

HELD: dict[str, Exchange] = {}
RELEASED: dict[str, threading.Event] = {}


class Later(LaterAnswer):
    """An answer that the release of its name gives."""

    def __init__(self, name: str) -> None:
        self._name = name

    def deliver(self, exchange: Exchange, status: int, headers: Sequence[tuple[str, str]]) -> None:
        HELD[self._name] = exchange

    def __iter__(self) -> Iterator[bytes]:
        raise NotImplementedError


def application(environ: dict[str, Any], start_response: Any) -> Any:
    start_response("200 OK", [("Content-Type", "application/json")])
    _, what, name = environ["PATH_INFO"].split("/")
    if what == "later":
        return Later(name)
    if what == "hold":
        RELEASED[name] = threading.Event()
        HELD[name] = Exchange(environ[PROTOCOL])
        assert RELEASED[name].wait(60)
        return [b'"held"']
    return [json.dumps(_answer(what, name)).encode()]


def _answer(what: str, name: str) -> object:
    if what == "release":
        if name in RELEASED:
            RELEASED[name].set()
        else:
            HELD[name].answer(200, [], b'"later"')
        return True
    if what == "abandoned":
        return HELD[name].is_abandoned() if name in HELD else None
    return Exchange.a_client_left_at > 0


def main(port: int) -> None:
    multiprocessing.set_start_method("fork")
    use_exchanges()
    target = "tests.config.holding_server:application"
    MPServer(target, address="127.0.0.1", port=port, interface=Interfaces.WSGI, workers=1, blocking_threads=8).serve()


if __name__ == "__main__":
    main(int(sys.argv[1]))
