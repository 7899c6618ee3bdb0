"""Run or explain a draft for a call, exactly as a saved version of it would run, never cached, and cancellable."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Final

from django.conf import settings

from endpoints.encoding import encode_rows, in_form
from endpoints.errors import Overloaded
from endpoints.execution import StatementFailed
from endpoints.outcomes import BoundValue, Column, ResultFormat, Rows, Statement, TimestampForm
from endpoints.plans import PlanTree, read_plan
from endpoints.services.drafts.cancelling import RunAttendance, cancellable_run
from endpoints.services.drafts.draft import Draft
from endpoints.services.drafts.statements import DraftStatement, draft_statement
from endpoints.services.recipes import Call
from endpoints.services.sandbox_runs import without_budget_column
from endpoints.trials import Trial, try_statement
from logsources.catalogue import partitions_by_table
from logsources.connections import owner_connection

EXPLAIN: Final = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "
# What a page can show without choking; the counts are those of the whole result.
MAX_SHOWN_ROWS: Final = 5_000
MAX_SHOWN_BYTES: Final = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SentArgument:
    """One bound value: ``$1``, the parameter it belongs to ("" for a value of the service's own), and the value."""

    placeholder: str
    name: str
    value: BoundValue


@dataclass(frozen=True, slots=True)
class SentStatement:
    """What PostgreSQL got, and as whom."""

    sql: str
    arguments: tuple[SentArgument, ...]
    role: str
    search_path: str


@dataclass(frozen=True, slots=True)
class DraftRun:
    """A draft's result: `body` is what a consumer gets, cut to `shown_rows` where it is too much for a page."""

    columns: tuple[Column, ...]
    body: bytes
    row_count: int
    shown_rows: int
    truncated: bool
    database_seconds: float
    seconds: float
    statement: SentStatement


@dataclass(frozen=True, slots=True)
class DraftPlan:
    """How PostgreSQL ran the draft's statement."""

    tree: PlanTree
    statement: SentStatement


def run_draft(draft: Draft, *, call: Call, run_id: str) -> DraftRun:
    """Run the draft for a call and return its rows with their types and the statement that was sent.

    Raises InvalidDraft, DraftFailed, DraftCancelled, and every EndpointError that a consumer can get.
    """
    started = perf_counter()
    with _one_of_few(), draft_statement(draft, call) as prepared, _attended(prepared, run_id) as attendance:
        trial = _try(prepared, attendance)
    rows = without_budget_column(trial.rows) if prepared.is_budgeted else trial.rows
    rows = in_form(rows, TimestampForm(draft.timestamps_as))
    columns = trial.columns[:-1] if prepared.is_budgeted else trial.columns
    body, shown_rows = _page_body(rows, redact=prepared.recipe.redact)
    return DraftRun(
        columns=columns,
        body=body,
        row_count=len(rows.rows),
        shown_rows=shown_rows,
        truncated=rows.truncated,
        database_seconds=rows.database_seconds,
        seconds=perf_counter() - started,
        statement=_sent(prepared),
    )


def explain_draft(draft: Draft, *, call: Call, run_id: str) -> DraftPlan:
    """Run the same statement under EXPLAIN ANALYZE and return its plan. Raises as `run_draft` does."""
    with _one_of_few(), draft_statement(draft, call) as prepared, _attended(prepared, run_id) as attendance:
        explained = Statement(EXPLAIN + prepared.statement.sql, prepared.statement.arguments)
        trial = _try(replace(prepared, statement=explained), attendance, moved_by=len(EXPLAIN))
    with owner_connection() as connection:
        partitions = partitions_by_table(connection)
    ((explanation,),) = trial.rows.rows
    return DraftPlan(read_plan(explanation, partitions=partitions), _sent(prepared))


@contextmanager
def _attended(prepared: DraftStatement, run_id: str) -> Iterator[RunAttendance]:
    timeout = prepared.session.statement_timeout_seconds
    with cancellable_run(run_id, timeout_seconds=timeout) as attendance:
        yield attendance


def _try(prepared: DraftStatement, attendance: RunAttendance, *, moved_by: int = 0) -> Trial:
    try:
        return try_statement(prepared.statement, prepared.session, max_rows=prepared.max_rows, attend=attendance.attend)
    except StatementFailed as failed:
        if failed.position is not None:
            failed.position = max(1, failed.position - moved_by)
        raise prepared.failure(failed) from failed


def _sent(prepared: DraftStatement) -> SentStatement:
    declared = prepared.recipe.arguments
    names = [name if name in declared else "" for name in prepared.argument_names]
    arguments = zip(names, prepared.statement.arguments, strict=True)
    return SentStatement(
        sql=prepared.statement.sql,
        arguments=tuple(
            SentArgument(f"${number}", name, value) for number, (name, value) in enumerate(arguments, start=1)
        ),
        role=prepared.session.role,
        search_path=prepared.session.search_path,
    )


def _page_body(rows: Rows, *, redact: bool) -> tuple[bytes, int]:
    """Return the rows' JSON and their number, as many of the first rows as a page can show."""
    shown = min(len(rows.rows), MAX_SHOWN_ROWS)
    while True:
        body = encode_rows(replace(rows, rows=rows.rows[:shown]), ResultFormat.JSON, redact=redact)
        if len(body) <= MAX_SHOWN_BYTES or shown <= 1:
            return body, shown
        shown = max(1, min(shown - 1, shown * MAX_SHOWN_BYTES // len(body)))


_running = 0
_running_lock = threading.Lock()


@contextmanager
def _one_of_few() -> Iterator[None]:
    """Keep half of the process's gate connections for calls, however many drafts are tried. Raises Overloaded."""
    global _running
    with _running_lock:
        if _running >= max(1, settings.ENDPOINTS_POOL_SIZE // 2):
            raise Overloaded
        _running += 1
    try:
        yield
    finally:
        with _running_lock:
            _running -= 1
