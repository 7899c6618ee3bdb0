"""Callers without pause: wrk, whose cost per request is a few microseconds, over kept connections."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

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
