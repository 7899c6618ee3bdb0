"""Whether rows of a call's own sandbox tables have the fields that its text names.

Samples are taken in the session of the call, with its role, arguments and project: rows of others tell a caller
nothing. A sample that fails, takes too long or has no row tells nothing either.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from time import monotonic
from typing import Final

import structlog
from psycopg import sql

from config.deadlines import answer_within
from endpoints.errors import EndpointError
from endpoints.log_database.execution import StatementFailed, run_statement
from endpoints.log_database.servers import log_servers
from endpoints.log_database.sessions import ReaderSession
from endpoints.results.outcomes import Statement
from googlesql.field_paths import FieldPath, FieldUse

SAMPLE_ROWS: Final = 200
SAMPLE_SECONDS: Final = 0.5
KEPT_SECONDS: Final = 60.0
_MOST_TABLES: Final = 3  # sampled for one call
_MOST_KEPT: Final = 2_000

logger = structlog.get_logger(__name__)

_SessionKey = tuple[str, str, str | None, tuple[tuple[str, object], ...]]
_Key = tuple[_SessionKey, FieldUse]
_kept: dict[_Key, tuple[float, bool | None]] = {}  # until when, and whether a row has it
_lock = threading.Lock()


def absent_fields(uses: Iterable[FieldUse], session: ReaderSession) -> tuple[FieldUse, ...]:
    """Return the fields that none of the sampled rows has, at most a minute ago. Never raises.

    Fields of which nothing is known are left out.
    """
    return tuple(use for use, is_there in _presence(uses, session).items() if is_there is False)


def present_fields(uses: Iterable[FieldUse], session: ReaderSession) -> tuple[FieldUse, ...]:
    """Return the fields that one of the sampled rows has, at most a minute ago. Never raises."""
    return tuple(use for use, is_there in _presence(uses, session).items() if is_there)


def _presence(uses: Iterable[FieldUse], session: ReaderSession) -> dict[FieldUse, bool | None]:
    """Tell of each field whether a sampled row has it; None if nothing is known of it."""
    wanted = tuple(dict.fromkeys(uses))
    of_session = _session_key(session)
    now = monotonic()
    found = {use: _kept.get((of_session, use), (0.0, None)) for use in wanted}
    unknown = [use for use, (until, _) in found.items() if until <= now]
    sampled = _sampled(unknown, session)
    _keep({(of_session, use): (now + KEPT_SECONDS, has) for use, has in sampled.items()})
    return {use: sampled.get(use, found[use][1]) for use in wanted}


def forget_samples() -> None:
    """Have the next caller sample again."""
    with _lock:
        _kept.clear()


def _session_key(session: ReaderSession) -> _SessionKey:
    arguments = (
        (name, tuple(value) if isinstance(value, list) else value) for name, value in session.arguments.items()
    )
    return session.role, session.search_path, session.tenant, tuple(arguments)


def _keep(outcomes: Mapping[_Key, tuple[float, bool | None]]) -> None:
    with _lock:
        if len(_kept) + len(outcomes) > _MOST_KEPT:
            _kept.clear()
        _kept.update(outcomes)


def _sampled(uses: Sequence[FieldUse], session: ReaderSession) -> dict[FieldUse, bool | None]:
    """Return for each field whether a sampled row has it, None if that is not known."""
    tables = dict.fromkeys(path.table for use in uses for path in use.paths)
    counts: dict[FieldPath, int | None] = {}
    for table in islice(tables, _MOST_TABLES):
        paths = dict.fromkeys(path for use in uses for path in use.paths if path.table == table)
        counts |= _counts(table, tuple(paths), session)
    return {use: _has_any([counts.get(path) for path in use.paths]) for use in uses}


def _has_any(counts: Sequence[int | None]) -> bool | None:
    if any(counts):
        return True
    return None if None in counts else False


def _counts(table: str, paths: Sequence[FieldPath], session: ReaderSession) -> Mapping[FieldPath, int | None]:
    """Return the number of sampled rows that have each path, nothing if there is no sample."""
    if log_servers().primary().is_crowded:
        return {}
    statement = _statement(table, paths)
    short = replace(session, statement_timeout_seconds=SAMPLE_SECONDS)
    try:
        with answer_within(2 * SAMPLE_SECONDS):
            ((total, *found),) = run_statement(statement, short, max_rows=1).rows
    except (EndpointError, StatementFailed) as error:
        reason = error.sqlstate if isinstance(error, StatementFailed) else error.code
        logger.info("fields_not_sampled", reason=reason)
        return {}
    return dict(zip(paths, found, strict=True)) if total else {}


def _statement(table: str, paths: Sequence[FieldPath]) -> Statement:
    # select count(*), count(jsonb_path_query_first("metadata", '$."level"', '{}', true)) from (… limit 200) as sampled
    counts = [
        sql.SQL("count(jsonb_path_query_first({column}, ${number}::jsonpath, '{{}}', true))").format(
            column=sql.Identifier(path.column), number=sql.SQL(str(number))
        )
        for number, path in enumerate(paths, 1)
    ]
    query = sql.SQL("SELECT {counts} FROM (SELECT {columns} FROM {table} LIMIT {rows}) AS sampled").format(
        counts=sql.SQL(", ").join([sql.SQL("count(*)"), *counts]),
        columns=sql.SQL(", ").join(map(sql.Identifier, dict.fromkeys(path.column for path in paths))),
        table=sql.Identifier(table),
        rows=sql.Literal(SAMPLE_ROWS),
    )
    return Statement(query.as_string(None), tuple(path.json_path for path in paths))
