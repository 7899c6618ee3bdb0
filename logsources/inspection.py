"""The view of the log tables for operators, with a time limit whatever the log database does."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg import Connection

from config.deadlines import answer_within
from logsources.catalogue import partitions_by_table, sample_rows
from logsources.connections import owner_connection
from logsources.measures import Measure, measure_sources

ANSWER_SECONDS: Final = 2.0  # a person waits for the page; anything that takes longer is shown as unknown
SAMPLES: Final = 5

logger = logging.getLogger(__name__)


def inspect_sources(names: Sequence[str]) -> dict[str, Measure] | None:
    """Return the measure of each source that has a table; None if the log database does not answer in time."""
    try:
        with _bounded_connection() as conn:
            return measure_sources(conn, names)
    except psycopg.Error:
        logger.warning("Log sources not measured", exc_info=True)
        return None


def inspect_rows(name: str) -> list[dict[str, Any]] | None:
    """Return up to SAMPLES recently loaded rows, newest first; None if the log database does not answer in time."""
    try:
        with _bounded_connection() as conn:
            return sample_rows(conn, name, partitions_by_table(conn).get(name, ()), rows=SAMPLES)
    except psycopg.Error:
        logger.warning("Rows not sampled", exc_info=True, extra={"source": name})
        return None


@contextmanager
def _bounded_connection() -> Iterator[Connection[Any]]:
    with answer_within(ANSWER_SECONDS), owner_connection() as conn:
        # For a locked table: PostgreSQL gives up before the connection has to be closed.
        conn.execute("SELECT set_config('statement_timeout', %s, false)", [f"{ANSWER_SECONDS * 0.8}s"])
        yield conn
