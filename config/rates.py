"""Rates as settings write them: ``600/minute``."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from django.core.exceptions import ImproperlyConfigured

_RATE: Final = re.compile(r"([1-9][0-9]{0,8})/(second|minute|hour|day)", re.ASCII)
_SECONDS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}


class Rate(NamedTuple):
    """At most so many calls in a window of so many seconds."""

    calls: int
    seconds: int


def read_rate(text: str, *, setting: str) -> Rate | None:
    """Return the rate a setting names, None when it is empty. Raises ImproperlyConfigured for anything else."""
    if not text:
        return None
    match = _RATE.fullmatch(text)
    if match is None:
        raise ImproperlyConfigured(
            f"{setting} is written number/second, /minute, /hour or /day, such as 600/minute; not {text!r}."
        )
    return Rate(calls=int(match[1]), seconds=_SECONDS[match[2]])
