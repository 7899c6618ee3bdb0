"""Callers without pause (wrk, which costs a few microseconds a request), and one that calls at a fixed pace."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import quantiles
from typing import Final
from urllib.parse import urlsplit

from tests.live.calls import Caller

PACED_CONNECTIONS: Final = 8
_UNITS: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}
_LATENCY: Final = re.compile(r"^\s+(50|99)%\s+([\d.]+)(us|ms|s|m)$", re.MULTILINE)
_RATE: Final = re.compile(r"^Requests/sec:\s+([\d.]+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Load:
    """What callers saw: requests a second of all of them together, and times in seconds."""

    requests_per_second: float
    p50_seconds: float
    p99_seconds: float


class UnexpectedAnswers(Exception):
    """Some answers were no 2xx, so that the figures mean nothing."""


def require_wrk() -> None:
    """Raise RuntimeError with what to do where wrk is missing."""
    if shutil.which("wrk") is None:
        raise RuntimeError("The benchmarks call the service with wrk: apt install wrk")


def call_without_pause(
    url: str, *, headers: Mapping[str, str] | None = None, connections: int, seconds: float, script: str = ""
) -> Load:
    """Call a URL for some seconds. Raises UnexpectedAnswers."""
    command = ["wrk", "--threads", "1", "--connections", str(connections), "--duration", f"{round(seconds)}s"]
    command += ["--timeout", "20s", "--latency"]
    for name, value in (headers or {}).items():
        command += ["--header", f"{name}: {value}"]
    command += ["--script", script] if script else []
    done = subprocess.run([*command, url], capture_output=True, text=True, check=True)
    rate = _RATE.search(done.stdout)
    times = {match[1]: float(match[2]) * _UNITS[match[3]] for match in _LATENCY.finditer(done.stdout)}
    if rate is None or len(times) < 2 or "Non-2xx" in done.stdout or "Socket errors" in done.stdout:
        raise UnexpectedAnswers(f"{url}\n{done.stdout}")
    return Load(requests_per_second=float(rate[1]), p50_seconds=times["50"], p99_seconds=times["99"])


def call_at_pace(urls: Sequence[str], *, secret: str, calls_per_second: float, seconds: float) -> tuple[float, ...]:
    """Call the URLs in turn at a fixed pace, and return the 99th percentile of each one's times, in seconds.

    The calls go out by several connections, so that every web process gets some. A call that is due while the one
    before still runs counts from when it was due. Raises UnexpectedAnswers.
    """
    times: list[list[float]] = [[] for _ in urls]
    with ExitStack() as stack:
        port = urlsplit(urls[0]).port or 80
        callers = [stack.enter_context(Caller(port, secret)) for _ in range(PACED_CONNECTIONS)]
        due = time.monotonic()
        for number in range(round(calls_per_second * seconds)):
            time.sleep(max(0.0, due - time.monotonic()))
            url = urls[number % len(urls)]
            caller = callers[number // len(urls) % PACED_CONNECTIONS]
            answer = caller.request("GET", f"{urlsplit(url).path}?{urlsplit(url).query}")
            if answer.status != 200:
                raise UnexpectedAnswers(f"{url}\n{answer.status} {answer.body!r}")
            times[number % len(urls)].append(time.monotonic() - due)
            due += 1 / calls_per_second
    return tuple(quantiles(each, n=100)[-1] for each in times)
