"""Names of fields with a capital letter in recent rows of all log sources, for dialects that compare without case.

They decide only how a caller's own rows are read, so they may come from everybody's. No call waits for a renewal; only
the first one of a process waits, a moment.
"""

from __future__ import annotations

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

_names: frozenset[str] = frozenset()
_renew_at: float | None = None  # by time.monotonic(); None if nothing was ever sampled


def capitalised_names() -> frozenset[str]:
    """Return the names, some minutes old; none if rows cannot be sampled. Never raises."""
    if _renew_at is None:
        try:
            return _first.result()
        except DatabaseUnavailable:
            return frozenset()
    if monotonic() >= _renew_at:
        _renewal.begin()
    return _names


def forget_names() -> None:
    """Make the next caller sample again."""
    global _names, _renew_at
    _names, _renew_at = frozenset(), None
    _first.forget()
    _renewal.forget()


def _sample() -> frozenset[str]:
    global _names, _renew_at
    kept = KEPT_SECONDS
    try:
        with answer_within(READ_SECONDS):
            _names = _sampled()
    except (psycopg.Error, DatabaseUnavailable, WorkerFailed) as error:
        logger.warning("field_names_not_sampled", reason=type(error).__name__)
        kept = TRIED_AGAIN_SECONDS
    _renew_at = monotonic() + kept
    return _names


def _sampled() -> frozenset[str]:
    names: set[str] = set()
    with owner_connection() as connection:
        for table, partitions in partitions_by_table(connection).items():
            try:
                paths = common_paths(recent_metadata(connection, table, partitions))
            except (psycopg.errors.QueryCanceled, psycopg.errors.UndefinedTable, WorkerFailed):
                continue  # busy, or a partition dropped at this moment: the other tables' names are better than none
            names.update(name for path in paths for name in path.path.split("."))
    return frozenset(name for name in names if name != name.lower())


# One thread at a time samples; the first one in front of its callers' eyes, later ones behind them.
_first = SharedWork("first field names", _sample, seconds=FIRST_SECONDS, in_background=True)
_renewal = SharedWork("field names", _sample, seconds=READ_SECONDS, in_background=True)
