"""The times of generated rows: busy afternoons, quiet nights."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from random import Random
from typing import Final

_BUSIEST_HOUR: Final = 15.0  # UTC
_SWING: Final = 0.8  # the busiest hour has (1 + 0.8) / (1 - 0.8) = 9 times the rows of the quietest
_SECONDS_A_DAY: Final = 86_400


def draw_moments(dice: Random, count: int, *, until: datetime, days: float) -> list[datetime]:
    """Return so many moments in ascending order, later than `days` days before `until` and not after it."""
    span_seconds = days * _SECONDS_A_DAY
    offsets: list[float] = []
    while len(offsets) < count:
        offset = dice.random() * span_seconds
        if dice.random() * (1 + _SWING) < _activity(until - timedelta(seconds=offset)):
            offsets.append(offset)
    return [until - timedelta(seconds=offset) for offset in sorted(offsets, reverse=True)]


def _activity(moment: datetime) -> float:
    hour = moment.hour + moment.minute / 60
    return 1 + _SWING * math.cos((hour - _BUSIEST_HOUR) / 24 * 2 * math.pi)
