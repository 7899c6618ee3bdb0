"""Names of fields in recent rows of all log sources, to suggest one.

They may come from everybody's rows: whoever suggests a path looks for it in the caller's own rows first. No call waits
for a renewal; only the first one of a process waits, a moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from time import monotonic
from typing import Final

import psycopg
import structlog

from config.deadlines import answer_within
from endpoints.errors import DatabaseUnavailable
from endpoints.log_database.shared_work import SharedWork
from logsources.databases import owner_connection
from logsources.introspection import common_paths, partitions_by_table, recent_metadata
from logsources.shards import WorkerFailed

KEPT_SECONDS: Final = 300.0
TRIED_AGAIN_SECONDS: Final = 30.0  # after sampling failed
FIRST_SECONDS: Final = 2.0
READ_SECONDS: Final = 5.0

logger = structlog.get_logger(__name__)

_paths: tuple[str, ...] = ()
_renew_at: float | None = None  # by time.monotonic(); None if nothing was ever sampled


def sampled_paths() -> tuple[str, ...]:
    """Return the paths, with dots, to values that are no objects, some minutes old. Never raises.

    There are none if rows cannot be sampled.
    """
    if _renew_at is None:
        try:
            return _first.result()
        except DatabaseUnavailable:
            return ()
    if monotonic() >= _renew_at:
        _renewal.begin()
    return _paths


def likely_paths(path: str, known: Sequence[str]) -> list[str]:
    """Return the known paths that `path` may be a slip for, the likeliest first."""
    name = path.rpartition(".")[2]
    ends = [one for one in known if one.rpartition(".")[2] == name]
    begins = [one for one in known if len(name) > 3 and one.rpartition(".")[2].startswith(name)]
    near = get_close_matches(path, known, cutoff=0.75)
    return [one for one in dict.fromkeys([*ends, *near, *begins]) if one != path]


def forget_names() -> None:
    """Make the next caller sample again."""
    global _paths, _renew_at
    _paths, _renew_at = (), None
    _first.forget()
    _renewal.forget()


def _sample() -> tuple[str, ...]:
    global _paths, _renew_at
    kept = KEPT_SECONDS
    try:
        with answer_within(READ_SECONDS):
            paths = _sampled()
        _paths = tuple(path for path, type_ in paths.items() if type_ != "object")
    except (psycopg.Error, DatabaseUnavailable, WorkerFailed) as error:
        logger.warning("field_names_not_sampled", reason=type(error).__name__)
        kept = TRIED_AGAIN_SECONDS
    _renew_at = monotonic() + kept
    return _paths


def _sampled() -> dict[str, str]:
    found: dict[str, str] = {}
    with owner_connection() as connection:
        for table, partitions in partitions_by_table(connection).items():
            try:
                paths = common_paths(recent_metadata(connection, table, partitions))
            except (psycopg.errors.QueryCanceled, psycopg.errors.UndefinedTable, WorkerFailed):
                continue  # busy, or a partition dropped at this moment: the other tables' names are better than none
            found.update((path.path, path.type) for path in paths)
    return found


# One thread at a time samples; the first one in front of its callers' eyes, later ones behind them.
_first = SharedWork("first field names", _sample, seconds=FIRST_SECONDS, in_background=True)
_renewal = SharedWork("field names", _sample, seconds=READ_SECONDS, in_background=True)
