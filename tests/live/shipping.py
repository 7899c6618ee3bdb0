"""A log shipper as they are: it sends the very same body again, until it has been told that the rows are kept."""

from __future__ import annotations

import http.client
import json
import random
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

BATCH_ROWS = 40
PATIENCE_SECONDS = 20.0
PAUSE_SECONDS = 0.05


class Shipper:
    """Sends batches of rows without some fields, each row with a message of its own; for one thread."""

    def __init__(self, port: int, secret: str, *, name: str, source: str, without: tuple[str, ...] = ()) -> None:
        self._port = port
        self._headers = {"X-API-KEY": secret, "Content-Type": "application/json"}
        self._path = f"/api/logs?source={source}"
        self._name = name
        self._without = without
        self._dice = random.Random(name)
        self._numbers = iter(range(10**9))
        self._connection: http.client.HTTPConnection | None = None
        self.acknowledged: list[str] = []  # the messages of rows that are kept
        self.retries = 0
        self.known_again = 0  # rows that a second sending found in the table

    def ship_while(self, goes_on: Callable[[], bool]) -> Shipper:
        """Send batches as long as it goes on, and the last one until it is acknowledged."""
        while goes_on():
            self.ship()
        self.close()
        return self

    def ship(self) -> None:
        """Send one batch until it is acknowledged. Raises AssertionError for a refusal, or after PATIENCE_SECONDS."""
        messages = [f"{self._name} {next(self._numbers)}" for _ in range(BATCH_ROWS)]
        body = json.dumps(list(self._rows(messages))).encode()
        deadline = time.monotonic() + PATIENCE_SECONDS
        if self._dice.random() < 0.2:
            self._send_and_hang_up(body)
        while not self._is_taken(body):
            assert time.monotonic() < deadline, "it was not taken in time"
            self.retries += 1
            time.sleep(PAUSE_SECONDS)
        self.acknowledged += messages

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _rows(self, messages: list[str]) -> Iterator[dict[str, object]]:
        for message in messages:
            row = {
                "id": str(uuid.UUID(int=self._dice.getrandbits(128))),
                "timestamp": datetime.now(UTC).isoformat(),
                "project": "acme",
                "event_message": message,
            }
            yield {name: value for name, value in row.items() if name not in self._without}

    def _is_taken(self, body: bytes) -> bool:
        connection = self._connection or http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_SECONDS)
        self._connection = None
        try:
            connection.request("POST", self._path, body, self._headers)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            return False
        self._connection = connection
        if answer.status != 200:
            assert answer.status in (429, 503), (answer.status, content)
            assert int(answer.headers["Retry-After"]) > 0
            return False
        (result,) = json.loads(content)["result"]
        assert result["loaded"] + result["already_there"] == BATCH_ROWS
        self.known_again += result["already_there"]
        return True

    def _send_and_hang_up(self, body: bytes) -> None:
        """The answer to this one never arrives."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_SECONDS)
        try:
            connection.request("POST", self._path, body, self._headers)
            time.sleep(self._dice.random() * 0.05)
        except OSError:
            return
        finally:
            connection.close()
