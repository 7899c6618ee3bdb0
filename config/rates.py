"""Rates and limits in the form used by settings, forms and commands: ``600/minute``, ``6``, ``none``."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from django.core.exceptions import ImproperlyConfigured

_RATE: Final = re.compile(r"([1-9][0-9]{0,8})/(second|minute|hour|day)", re.ASCII)
_LIMIT: Final = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
NO_LIMIT: Final = "none"
_SECONDS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}


class Rate(NamedTuple):
    """A limit of so many calls in a window of so many seconds."""

    calls: int
    seconds: int

    def __str__(self) -> str:
        (unit,) = (name for name, seconds in _SECONDS.items() if seconds == self.seconds)
        return f"{self.calls}/{unit}"


def read_rate(text: str, *, setting: str) -> Rate | None:
    """Return the rate in a setting, None if it is empty. Raises ImproperlyConfigured for anything else."""
    if not text:
        return None
    match = _RATE.fullmatch(text)
    if match is None:
        raise ImproperlyConfigured(
            f"{setting} is written number/second, /minute, /hour or /day, such as 600/minute; not {text!r}."
        )
    return Rate(calls=int(match[1]), seconds=_SECONDS[match[2]])


def read_limit(text: str, *, setting: str) -> int | None:
    """Return the number in a limit, None for ``none``. Raises ImproperlyConfigured for anything else."""
    try:
        return parse_limit(text)
    except ValueError as error:
        raise ImproperlyConfigured(f"{setting} {error}") from error


def parse_limit(text: str) -> int | None:
    """Return the number in a limit, None for ``none``; the message of a ValueError says what would be right."""
    if text == NO_LIMIT:
        return None
    if _LIMIT.fullmatch(text) is None:
        raise ValueError(f"is a number of at least 1, or {NO_LIMIT}; not {text!r}.")
    return int(text)
