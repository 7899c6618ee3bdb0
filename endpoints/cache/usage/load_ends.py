"""How the last load into each log source ended, and the last one that failed; for operators.

Noted in the process and written to Redis a second later, by whichever way rows came: HTTP, OTLP or a command.

    lqe:load-ends     <source>|loaded -> {"at": unix seconds, "rows": n, "failure": ""},
                      <source>|failed -> {"at": unix seconds, "rows": 0, "failure": error code}
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from time import time

import orjson

from endpoints.cache.connection import CacheUnavailable, Part, ask_for
from endpoints.cache.keys import PREFIX
from endpoints.cache.usage.flushing import FLUSHER

_ENDS = f"{PREFIX}:load-ends"
_BETWEEN = "|"  # no log source has it in its name


@dataclass(frozen=True, slots=True)
class LoadEnd:
    """A load that ended: when, in unix seconds, with how many new rows or with which failure."""

    at: float
    rows: int
    failure: str = ""


@dataclass(frozen=True, slots=True)
class LoadEnds:
    """The last load of a source that stored its rows, and the last one that failed; None for none yet."""

    loaded: LoadEnd | None = None
    failed: LoadEnd | None = None


_lock = threading.Lock()
_noted: dict[str, LoadEnd] = {}


def note_load_end(source: str, *, rows: int = 0, failure: str = "") -> None:
    """Note a load as the source's last; without a source it says nothing. Never raises and does no I/O."""
    if not source:
        return
    with _lock:
        _noted[f"{source}{_BETWEEN}{'failed' if failure else 'loaded'}"] = LoadEnd(time(), rows, failure)
    FLUSHER.note()


def flush() -> None:
    """Write what was noted; never raises. Loads over HTTP leave that to FLUSHER, commands that end do not."""
    with _lock:
        noted = dict(_noted)
        _noted.clear()
    if not noted:
        return
    fields: list[Part] = [part for name, end in noted.items() for part in (name, orjson.dumps(asdict(end)))]
    try:
        ask_for("HSET", _ENDS, *fields)
    except CacheUnavailable:
        with _lock:
            for name, end in noted.items():
                _noted.setdefault(name, end)  # a later one may have been noted meanwhile


FLUSHER.writes(flush)


def load_ends() -> dict[str, LoadEnds]:
    """Return the ends by log source. Raises CacheUnavailable."""
    stored: Mapping[bytes, bytes] = ask_for("HGETALL", _ENDS)
    found: dict[str, dict[str, LoadEnd]] = {}
    for key, value in stored.items():
        source, _, kind = key.decode().partition(_BETWEEN)
        with suppress(ValueError, TypeError):  # of another form
            found.setdefault(source, {})[kind] = LoadEnd(**orjson.loads(value))
    return {source: LoadEnds(**ends) for source, ends in found.items()}


def forget_load_ends(source: str) -> None:
    """Forget the loads of a source that is dropped. Raises CacheUnavailable."""
    ask_for("HDEL", _ENDS, f"{source}{_BETWEEN}loaded", f"{source}{_BETWEEN}failed")
