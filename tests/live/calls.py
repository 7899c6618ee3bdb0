"""Calling an installation over HTTP as a consumer does: a kept connection per caller, answers with their times."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

PATIENCE_SECONDS = 40.0  # a call that takes longer counts as a hang, and fails the test
# The kernel gives each connection to one of the two web processes by a hash: so many leave one out in 1 of 8,000,000.
REACHES_EVERY_PROCESS = 24

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, read to its end: a body shorter than announced raises http.client.IncompleteRead instead."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes
    seconds: float

    @property
    def cache(self) -> str:
        return self.headers.get("x-cache", "")

    @property
    def rows(self) -> list[dict[str, Any]]:
        assert self.status == 200, (self.status, self.body)
        rows: list[dict[str, Any]] = json.loads(self.body)["result"]
        return rows

    @property
    def error(self) -> dict[str, Any]:
        """The error of the one body, which has no other fields."""
        document = json.loads(self.body)
        assert document.keys() == {"error"}
        assert document["error"].keys() == {"code", "message", "details", "request_id"}
        error: dict[str, Any] = document["error"]
        return error

    @property
    def code(self) -> str:
        return "" if self.status == 200 else str(self.error["code"])


class Caller:
    """A consumer with an access token and one connection, made anew after a failure; for one thread at a time."""

    def __init__(self, port: int, secret: str) -> None:
        self._port = port
        self.secret = secret
        self._connection: http.client.HTTPConnection | None = None

    def query(self, endpoint: str, arguments: Mapping[str, Any] | None = None, **headers: str) -> Answer:
        """Call an endpoint; `accept="text/csv"` and the like are headers."""
        path = f"/api/endpoints/query/{quote(endpoint)}?{urlencode(arguments or {})}"
        return self.request("GET", path, body=None, **headers)

    def purge(self, endpoint: str) -> Answer:
        return self.request("DELETE", f"/api/endpoints/cache/{quote(endpoint)}")

    def request(self, method: str, path: str, *, body: bytes | Iterable[bytes] | None = None, **headers: str) -> Answer:
        """Send a request; pieces of a body come in chunks."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        started = time.monotonic()
        connection = self._connection or http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_SECONDS)
        self._connection = None
        try:
            connection.request(method, path, body, headers={"X-API-KEY": self.secret, **sent})
            response = connection.getresponse()
            content = response.read()
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return Answer(
            status=response.status,
            headers={name.lower(): value for name, value in response.getheaders()},
            body=content,
            seconds=time.monotonic() - started,
        )

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Caller:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def all_at_once(works: Sequence[Callable[[], Result]]) -> list[Result]:
    """Do every work in a thread of its own, all beginning at the same moment; return the results in order."""
    barrier = threading.Barrier(len(works))

    def begin(work: Callable[[], Result]) -> Result:
        barrier.wait()
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(begin, works))


def until(condition: Callable[[], bool], *, seconds: float, pause: float = 0.05) -> float:
    """Wait until the condition holds and return after how long; a test that waits in vain fails here."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < seconds, "it did not come about in time"
        time.sleep(pause)
    return time.monotonic() - started
