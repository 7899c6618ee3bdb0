"""A few made-up rows each second, so that an installation without producers shows what a living one does."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from random import Random
from threading import Event
from typing import Final

import psycopg
from django.db import DatabaseError, connections

from logsources.generation import SOURCE_NAMES, generate_rows, share_rows
from logsources.loading import LoadAborted, OnBadLine, load_rows
from logsources.models import LogSource

EVERY_SECONDS: Final = 2.0

logger = logging.getLogger(__name__)


def trickle(stop: Event, *, rows_per_second: float, at_most: int, projects: Sequence[str]) -> int:
    """Load so many new rows a second until `stop` is set or `at_most` are loaded; return how many they were.

    Each has the time of its load. A log database that does not answer is tried again; its rows are not made up later.
    """
    dice = Random(secrets.token_hex(8))  # noqa: S311 - made-up rows hold no secrets
    weights = share_rows(1000, SOURCE_NAMES)
    loaded, is_failing, owed = 0, False, 0.0
    try:
        while loaded < at_most and not stop.wait(EVERY_SECONDS):
            owed = min(owed + rows_per_second * EVERY_SECONDS, float(at_most - loaded))
            chosen = dice.choices(list(weights), weights=list(weights.values()), k=int(owed))
            try:
                for name in set(chosen):
                    loaded += _load(name, chosen.count(name), projects, seed=str(dice.random()))
                is_failing = False
            except (psycopg.Error, DatabaseError, LoadAborted, LogSource.DoesNotExist) as error:
                if not is_failing:  # once an outage
                    logger.warning("made-up rows are not loaded: %s", " ".join(str(error).split()))
                is_failing = True
            owed -= int(owed)
    finally:
        connections.close_all()  # those of this thread
    return loaded


def _load(name: str, count: int, projects: Sequence[str], *, seed: str) -> int:
    days = EVERY_SECONDS / 86_400
    rows = generate_rows(name, count=count, until=datetime.now(UTC), days=days, projects=projects, seed=seed)
    return load_rows(LogSource.objects.get(name=name), rows, on_bad_line=OnBadLine.ABORT).loaded
