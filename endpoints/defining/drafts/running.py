"""Run or explain a draft for a call, exactly as a saved version of it would run, never cached, and cancellable."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Final

import psycopg
from django.conf import settings

from config.deadlines import answer_within
from endpoints.cache import QueryRequest
from endpoints.cache.running_calls import RunningCall, cancel_calls
from endpoints.calling.consumer_queries import prepare_lql
from endpoints.calling.prepared_queries import (
    PreparedQuery,
    Sandbox,
    max_result_bytes,
    over_budget,
    prepare_stored_query,
)
from endpoints.calling.producing import prepare_consumers_query, refuse_unguarded_sandbox
from endpoints.calling.query_requests import Call, read_request
from endpoints.defining.drafts.draft import (
    Draft,
    InvalidDraft,
    Position,
    composition_problems,
    declaration_problems,
    lexical_problems,
    setting_problems,
)
from endpoints.errors import DatabaseUnavailable, EndpointError, Overloaded, StoredQueryFailed
from endpoints.log_database.describing import Trial, try_statement
from endpoints.log_database.execution import StatementFailed
from endpoints.log_database.plans import PlanTree, read_plan
from endpoints.log_database.publishing import PublishingError, publish_draft
from endpoints.lql.counting import Counting
from endpoints.results.encoding import UNBOUNDED, encode_rows
from endpoints.results.outcomes import BoundValue, Column, OverBudget, ResultFormat, Rows, Statement, TimestampForm
from logsources.databases import owner_connection
from logsources.introspection import partitions_by_table
from logsources.topology import read_topology


# --- Statements -------------------------------------------------------------------------------------------------------
# What a draft would send to PostgreSQL for a call: the statement, its role, and the meaning of a failure.
@dataclass(frozen=True, slots=True)
class OperatorDetail:
    """PostgreSQL's own message: for the operator alone, because it quotes the stored query and row values.

    `place` is in the text that `field` names: "sql" of the draft, "call.sql" or "call.lql".
    """

    sqlstate: str
    message: str
    hint: str = ""
    field: str = "sql"
    place: Position | None = None


class DraftFailed(Exception):
    """A draft's statement failed: `error` is what a consumer would get, `operator` its cause."""

    def __init__(self, error: EndpointError, operator: OperatorDetail) -> None:
        self.error = error
        self.operator = operator
        super().__init__(f"{error.code}: {operator.message}")


@dataclass(frozen=True, slots=True)
class DraftStatement:
    """What a draft would send to PostgreSQL for a call, and where a failure of it is."""

    query: PreparedQuery
    request: QueryRequest
    text: str  # of the draft, or of the consumer: what PostgreSQL's positions are in

    def failure(self, failed: StatementFailed) -> DraftFailed:
        """Return what to raise for a failure of the statement. Raises InvalidParameters: an argument is at fault."""
        language = self.query.language
        offset = self.query.offset(failed)
        detail = OperatorDetail(
            failed.sqlstate,
            failed.primary_message,
            failed.hint,
            field=f"call.{language}" if language else "sql",
            place=None if offset is None else Position.at(self.text, offset),
        )
        return DraftFailed(self.query.refusal(failed), detail)


def draft_statement(draft: Draft, call: Call, counting: Counting | None = None) -> DraftStatement:
    """Return the statement that a saved version of the draft would run for a call.

    With a `counting`, which only the pages of operators have, it counts the rows that the call's LQL matches.

    Raises InvalidDraft, DraftFailed if its CTEs cannot be published, and what a consumer gets before a statement
    runs: InvalidParameters, SandboxDisabled, SandboxViolation, InvalidLQL and so on.
    """
    draft = runnable(draft)
    endpoint = draft.as_version()
    request = read_request(endpoint, call, None)
    if not request.sandbox_language:
        return DraftStatement(prepare_stored_query(endpoint, request.arguments), request, draft.sql)
    refuse_unguarded_sandbox()
    try:
        schema, tables = publish_draft(endpoint, endpoint.parameters)
    except PublishingError as error:
        place = None if error.position is None else Position.at(draft.sql, error.position)
        raise DraftFailed(StoredQueryFailed(), OperatorDetail("", error.message, place=place)) from error
    sandbox = Sandbox(schema, tables)
    if counting is None:
        query = prepare_consumers_query(endpoint, request, sandbox)
    else:
        query = prepare_lql(endpoint, request.sandbox_text, request.arguments, sandbox, counting=counting)
    return DraftStatement(query, request, request.sandbox_text)


def runnable(draft: Draft) -> Draft:
    """Return the draft without its unused parameters, which a run does not need. Raises InvalidDraft."""
    problems = list(lexical_problems(draft))
    if problems:
        raise InvalidDraft(problems)
    draft = draft.without_unused_parameters()
    problems = setting_problems(draft, with_name=False)
    problems += declaration_problems(draft)
    problems += composition_problems(draft)
    if problems:
        raise InvalidDraft(problems)
    return draft


# --- Running ----------------------------------------------------------------------------------------------------------
# As much as a page can show quickly; the counts are those of the whole result.
PARTITIONS_WITHIN_SECONDS: Final = 5.0
_DRAFTS: Final = "drafts"  # among running calls, in place of the prefix of an access token, which is hexadecimal
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
    """The statement that PostgreSQL got, and its role."""

    sql: str
    arguments: tuple[SentArgument, ...]
    role: str
    search_path: str


@dataclass(frozen=True, slots=True)
class DraftRun:
    """A draft's result: `body` is what a consumer gets, cut to `shown_rows` if it is too much for a page."""

    columns: tuple[Column, ...]
    body: bytes
    row_count: int
    shown_rows: int
    truncated: bool
    database_seconds: float
    seconds: float
    statement: SentStatement
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DraftPlan:
    """How PostgreSQL ran the draft's statement, or would run it."""

    tree: PlanTree
    statement: SentStatement


def run_draft(
    draft: Draft, *, call: Call, run_id: str, counting: Counting | None = None, noted: bool = True
) -> DraftRun:
    """Run the draft for a call and return its rows with their types and the statement that was sent.

    The body has the format of the call; what is no JSON is no page to look at, and is never cut.

    Raises InvalidDraft, DraftFailed, and every EndpointError that a consumer can get, CallCancelled among them.
    """
    started = perf_counter()
    with _one_of_few(), _cancellable(run_id):
        prepared = draft_statement(draft, call, counting)
        trial = _try(prepared)
    rows = prepared.query.without_budget(trial.rows)
    columns = trial.columns[: len(rows.columns)]
    notes = prepared.query.notes(rows) if noted else ()
    body, shown_rows = _page_body(rows, prepared.request, TimestampForm(draft.timestamps_as))
    return DraftRun(
        columns=columns,
        body=body,
        row_count=len(rows.rows),
        shown_rows=shown_rows,
        truncated=rows.truncated,
        database_seconds=rows.database_seconds,
        seconds=perf_counter() - started,
        statement=_sent(prepared),
        notes=notes,
    )


def explain_draft(draft: Draft, *, call: Call, run_id: str) -> DraftPlan:
    """Run the same statement under EXPLAIN ANALYZE and return its plan; on a cluster it is only planned.

    Raises as `run_draft` does.
    """
    with _one_of_few(), _cancellable(run_id):
        prepared = draft_statement(draft, call)
        explain, partitions = _explaining()
        statement = prepared.query.statement
        explained = replace(prepared.query, statement=Statement(explain + statement.sql, statement.arguments))
        trial = _try(replace(prepared, query=explained), moved_by=len(explain))
    ((explanation,),) = trial.rows.rows
    return DraftPlan(read_plan(explanation, partitions=partitions), _sent(prepared))


def run_over_draft(draft: Draft, prepare: Callable[[Sandbox], PreparedQuery]) -> Rows:
    """Run what is prepared over the draft's sandbox tables and return its rows.

    Nobody can cancel it. Raises InvalidDraft, StoredQueryFailed, and every EndpointError that a consumer can get.
    """
    with _one_of_few():
        refuse_unguarded_sandbox()
        endpoint = runnable(draft).as_version()
        try:
            query = prepare(Sandbox(*publish_draft(endpoint, endpoint.parameters)))
        except PublishingError as error:
            raise StoredQueryFailed from error
        try:
            return query.run()
        except StatementFailed as failure:
            raise query.refusal(failure) from failure


def _explaining() -> tuple[str, Mapping[str, tuple[str, ...]]]:
    """Return what goes before an explained statement, and the partitions that it may touch."""
    try:
        with answer_within(PARTITIONS_WITHIN_SECONDS), owner_connection() as connection:
            return read_topology(connection).explain, partitions_by_table(connection)
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable from error


def cancel_draft_run(run_id: str) -> bool:
    """Cancel the run, in any process; return whether there was one. Raises CacheUnavailable."""
    return cancel_calls(run_id, caller=_DRAFTS)


@contextmanager
def _cancellable(run_id: str) -> Iterator[None]:
    """Make what happens inside a call that `cancel_draft_run` ends; without Redis it runs to its timeout."""
    with RunningCall(_DRAFTS, {"HTTP_X_REQUEST_ID": run_id}) as run:
        run.end_if_unwanted()  # from now on it can be cancelled
        yield


def _try(prepared: DraftStatement, *, moved_by: int = 0) -> Trial:
    try:
        return try_statement(
            prepared.query.statement,
            prepared.query.session,
            max_rows=prepared.query.max_rows,
            max_bytes=prepared.query.max_bytes,
        )
    except OverBudget as error:
        raise over_budget(prepared.query.language) from error
    except StatementFailed as failed:
        if failed.position is not None:
            failed.position = max(1, failed.position - moved_by)
        raise prepared.failure(failed) from failed


def _sent(prepared: DraftStatement) -> SentStatement:
    query, declared = prepared.query, prepared.request.arguments
    names = [name if name in declared else "" for name in query.argument_names]
    arguments = zip(names, query.statement.arguments, strict=True)
    return SentStatement(
        sql=query.statement.sql,
        arguments=tuple(
            SentArgument(f"${number}", name, value) for number, (name, value) in enumerate(arguments, start=1)
        ),
        role=query.session.role,
        search_path=query.session.search_path,
    )


def _page_body(rows: Rows, request: QueryRequest, timestamps_as: TimestampForm) -> tuple[bytes, int]:
    """Return the rows' body and their number; of JSON as many of the first rows as a page can show.

    Raises what a consumer gets for a result that is over its budget.
    """

    def encode(number: int, *, max_bytes: int) -> bytes:
        first = rows if number == len(rows.rows) else replace(rows, rows=rows.rows[:number])
        return encode_rows(
            first, request.format, redact=request.redact, timestamps_as=timestamps_as, max_bytes=max_bytes
        )

    shown = min(len(rows.rows), MAX_SHOWN_ROWS)
    try:
        body = encode(len(rows.rows), max_bytes=max_result_bytes(request.sandbox_language))
    except OverBudget as error:
        raise over_budget(request.sandbox_language) from error
    if request.format is not ResultFormat.JSON:
        return body, len(rows.rows)
    if shown < len(rows.rows):
        body = encode(shown, max_bytes=UNBOUNDED)
    while len(body) > MAX_SHOWN_BYTES and shown > 1:
        shown = max(1, min(shown - 1, shown * MAX_SHOWN_BYTES // len(body)))
        body = encode(shown, max_bytes=UNBOUNDED)
    return body, shown


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
