"""A few made-up rows each second, so that an installation without producers shows what a living one does."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Sequence
from io import StringIO
from random import Random
from threading import Event
from typing import Final

from django.core.management import CommandError, call_command
from django.db import connections

from logsources.generation import SOURCE_NAMES, share_rows

EVERY_SECONDS: Final = 2.0

logger = logging.getLogger(__name__)


def trickle(stop: Event, *, rows_per_second: float, at_most: int, projects: Sequence[str]) -> int:
    """Load so many new rows a second until `stop` is set or `at_most` are loaded; return how many they were.

    Each has the time of its load. A log database that does not answer is tried again; its rows are not made up later.
    """
    dice = Random(secrets.token_hex(8))  # noqa: S311 - made-up rows hold no secrets
    weights = share_rows(1000, SOURCE_NAMES)
    options = {"days": EVERY_SECONDS / 86_400, "projects": ",".join(projects)}
    loaded, is_failing, owed = 0, False, 0.0
    try:
        while loaded < at_most and not stop.wait(EVERY_SECONDS):
            owed = min(owed + rows_per_second * EVERY_SECONDS, float(at_most - loaded))
            chosen = dice.choices(list(weights), weights=list(weights.values()), k=int(owed))
            try:
                for name in set(chosen):
                    rows, unseen = chosen.count(name), StringIO()
                    call_command("generate_logs", source=[name], rows=rows, stdout=unseen, stderr=unseen, **options)
                    loaded += rows
                is_failing = False
            except CommandError as error:
                if not is_failing:  # once an outage
                    logger.warning("made-up rows are not loaded: %s", error)
                is_failing = True
            owed -= int(owed)
    finally:
        connections.close_all()  # those of this thread
    return loaded
