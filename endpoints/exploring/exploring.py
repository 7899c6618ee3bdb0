"""Explore one log source by LQL: rows and histogram of a range, run like a draft endpoint over that source.

So role, row security, limits and redaction are those of any consumer, and an exploration can become an endpoint.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from endpoints.calling.query_requests import Call
from endpoints.defining.drafts import Draft, DraftRun, run_draft
from endpoints.lql.counting import LEVEL_FIELDS, STATUS_FIELDS, Counting
from endpoints.lql.rules import METADATA, Aggregate, Period
from endpoints.lql.writing import chart_query, rows_query
from endpoints.results.outcomes import Column, ResultFormat
from endpoints.sql.parameters import DeclaredParameter, ParameterType, RawValue
from logsources.models import LogSource

# --- Histograms -------------------------------------------------------------------------------------------------------
# Histograms over a range of time: how wide their buckets are, and every bucket with its value. Pure.
MAX_BARS: Final = 180  # a bar is then some four pixels wide on a page of 1280
MAX_DAYS: Final = 400

WIDTHS: Final[Mapping[Period, timedelta]] = {
    Period.SECOND: timedelta(seconds=1),
    Period.MINUTE: timedelta(minutes=1),
    Period.HOUR: timedelta(hours=1),
    Period.DAY: timedelta(days=1),
}
# Without rows these are 0; an average of no rows is none.
_ZERO_OF_NOTHING: Final = frozenset((Aggregate.COUNT, Aggregate.COUNT_DISTINCT))
_NOT_FINITE: Final = ("NaN", "Infinity", "-Infinity")  # numbers that JSON has as texts
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Bar:
    """One bucket: `start` to `end` (exclusive), cut to the range.

    `value` is a number with the digits of PostgreSQL, None if an aggregate has no rows.
    """

    start: datetime
    end: datetime
    value: str | None


@dataclass(frozen=True, slots=True)
class Histogram:
    """The bars of a range, in order and without gaps."""

    aggregate: Aggregate
    period: Period
    bars: tuple[Bar, ...]


def fitting_period(start: datetime, end: datetime) -> Period:
    """Return the narrowest period that gives at most MAX_BARS buckets; days for what is longer.

    Raises ValueError for a range that is empty or longer than MAX_DAYS.
    """
    if start >= end:
        raise ValueError("The range ends before it begins.")
    if end - start > timedelta(days=MAX_DAYS):
        raise ValueError(f"The range is longer than {MAX_DAYS} days.")
    return next((period for period, width in WIDTHS.items() if (end - start) / width <= MAX_BARS), Period.DAY)


def fill_bars(
    values: Mapping[datetime, str | None],
    *,
    start: datetime,
    end: datetime,
    period: Period,
    aggregate: Aggregate,
) -> Histogram:
    """Return the histogram of a range: buckets that have no value get 0 or None, as the aggregate has it."""
    width = WIDTHS[period]
    nothing = "0" if aggregate in _ZERO_OF_NOTHING else None
    bars: list[Bar] = []
    bucket = start - (start - _EPOCH) % width
    while bucket < end:
        bars.append(Bar(max(bucket, start), min(bucket + width, end), values.get(bucket, nothing)))
        bucket += width
    return Histogram(aggregate, period, tuple(bars))


# --- Exploring --------------------------------------------------------------------------------------------------------
PAGE_ROWS: Final = 100
MAX_PAGE_ROWS: Final = 5_000  # of one page, rows that come again included
STATEMENT_SECONDS: Final = 15
# Of PostgreSQL's reserved words ("SQL Key Words") only those that begin like this have an underscore.
_RESERVED_BEGINNINGS: Final = ("current_", "session_", "system_")
_WORTH_NARROWING: Final = timedelta(hours=1)
_ONE_STEP: Final = timedelta(microseconds=1)
# What a page needs to show how severe a row is, where the query chooses columns.
SEVERITY_COLUMNS: Final = tuple(
    f"{METADATA}.{path}@_severity_{number}" for number, path in enumerate((*LEVEL_FIELDS, *STATUS_FIELDS))
)
_COLUMNS: Final = (
    Column("timestamp", "timestamp with time zone"),
    Column("project", "text"),
    Column("id", "text"),
    Column("event_message", "text"),
    Column("metadata", "jsonb"),
)


class InvalidExploration(Exception):
    """The exploration is not valid; `field` says which part of it is wrong."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


@dataclass(frozen=True, slots=True)
class Exploration:
    """What is looked for: from `start` to before `end`; `project` None means the rows of every project."""

    source: str
    project: str | None
    start: datetime
    end: datetime
    lql: str = ""
    redact: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """Where the rows shown so far end: the last one's timestamp and id, and how many of them have both, by project.

    Without an id, which redaction may hide, `rows` counts those with the timestamp.
    """

    timestamp: datetime
    row_id: str
    rows: int


def explored_sources() -> list[LogSource]:
    """Return the log sources that can be explored, by name."""
    return list(LogSource.objects.all())


def source_draft(source: str, *, every_project: bool) -> Draft:
    """Return the endpoint over one log source that an exploration runs as. Raises InvalidExploration."""
    if not LogSource.objects.filter(name=source).exists():
        raise InvalidExploration("source", "There is no log source with this name.")
    parameters: tuple[DeclaredParameter, ...] = (
        DeclaredParameter("iso_timestamp_start", ParameterType.TIMESTAMP, description="Rows at or after this moment."),
        DeclaredParameter("iso_timestamp_end", ParameterType.TIMESTAMP, description="Rows before this moment."),
    )
    if not every_project:
        project = DeclaredParameter("project", required=True, description="Rows of this project.")
        parameters = (project, *parameters)
    return Draft(
        sql=source_sql(source, every_project=every_project),
        parameters=parameters,
        tenant_parameter="" if every_project else "project",
        max_rows=PAGE_ROWS,
        statement_timeout_seconds=STATEMENT_SECONDS,
        sandboxing=True,
        default_sandbox_table=source,
    )


def explored_columns(*, every_project: bool) -> tuple[Column, ...]:
    """Return the columns of an explored source: which project a row is of matters only where there are several."""
    return tuple(column for column in _COLUMNS if column.name != "project" or every_project)


def source_sql(source: str, *, every_project: bool, conditions: Sequence[str] = ()) -> str:
    """Return a stored query over one log source."""
    names = [column.name for column in explored_columns(every_project=every_project)]
    lines = [
        source_table(source, every_project=every_project, conditions=conditions),
        f"select {', '.join(names)}",
        f"from {_identifier(source)}",
        "order by timestamp desc, id desc",
        f"limit {PAGE_ROWS}",
    ]
    return "\n".join(lines) + "\n"


def source_table(source: str, *, every_project: bool, conditions: Sequence[str] = ()) -> str:
    """Return WITH and the rows of a range as a table; its bounds are plain comparisons, which prune partitions."""
    table = _identifier(source)
    conditions = [
        *([] if every_project else ["t.project = @project"]),
        "t.timestamp >= coalesce(@iso_timestamp_start, '-infinity')",
        "t.timestamp < coalesce(@iso_timestamp_end, 'infinity')",
        *conditions,
    ]
    lines = [
        f"with {table} as (",
        f"  select {', '.join(f't.{column.name}' for column in explored_columns(every_project=every_project))}",
        f"  from logs.{table} as t",
        f"  where {(chr(10) + '    and ').join(conditions)}",
        ")",
    ]
    return "\n".join(lines)


def explore_rows(exploration: Exploration, *, mark: Mark | None, run_id: str) -> DraftRun:
    """Return the newest rows of the range, or those after a mark: at least PAGE_ROWS new ones if there are so many.

    The marked rows come again; the caller knows them by id, project and timestamp. Raises InvalidExploration,
    InvalidLQL with places in the exploration's own text, and what `run_draft` raises.
    """
    check_range(exploration)
    page = PAGE_ROWS
    if mark is not None:
        exploration = replace(exploration, end=min(exploration.end, mark.timestamp + _ONE_STEP))
        page = min(PAGE_ROWS + mark.rows, MAX_PAGE_ROWS)
    lql = rows_query(exploration.lql, needed=shown_columns(exploration), wished=SEVERITY_COLUMNS)
    seconds = 0.0
    for start in search_starts(exploration):
        run = run_exploration(replace(exploration, start=start), lql, mark=mark, max_rows=page, run_id=run_id)
        seconds += run.seconds
        # Not truncated, older rows could belong to the page.
        if run.truncated:
            break
    return replace(run, seconds=seconds)


def explore_histogram(exploration: Exploration, *, run_id: str) -> Histogram:
    """Return how many rows of the range match, by time, or what the chart of the LQL tells. Raises as explore_rows."""
    period = check_range(exploration)
    lql, aggregate = chart_query(exploration.lql, period=period)
    run = run_exploration(exploration, lql, max_rows=1000, run_id=run_id)
    values = {
        datetime.fromisoformat(one["timestamp"]).astimezone(UTC): _number(one[aggregate.value])
        for one in read_exactly(run)
    }
    return fill_bars(values, start=exploration.start, end=exploration.end, period=period, aggregate=aggregate)


class Digits(str):
    """A number as PostgreSQL wrote it: a float would lose digits."""


def read_exactly(run: DraftRun) -> list[dict[str, Any]]:
    """Return the rows of a result in JSON, each number as Digits."""
    found: list[dict[str, Any]] = json.loads(run.body, parse_int=Digits, parse_float=Digits)["result"]
    return found


def run_exploration(
    exploration: Exploration,
    lql: str,
    *,
    max_rows: int,
    run_id: str,
    mark: Mark | None = None,
    counting: Counting | None = None,
    form: ResultFormat = ResultFormat.JSON,
    seconds: int = STATEMENT_SECONDS,
) -> DraftRun:
    """Run this LQL over the exploration's rows, from the mark on, in PostgreSQL for at most so many seconds.

    Raises InvalidExploration, and what `run_draft` raises.
    """
    draft = source_draft(exploration.source, every_project=exploration.project is None)
    arguments: dict[str, RawValue] = {
        "iso_timestamp_start": exploration.start.isoformat(),
        "iso_timestamp_end": exploration.end.isoformat(),
    }
    if exploration.project is not None:
        arguments["project"] = exploration.project
    if mark is not None and mark.row_id:
        draft = _from_mark_on(draft, exploration)
        arguments |= {"mark_timestamp": mark.timestamp.isoformat(), "mark_id": mark.row_id}
    call = Call(arguments, sandbox_lql=lql, redact=exploration.redact, format=form)
    limited = replace(draft, max_rows=max_rows, statement_timeout_seconds=seconds)
    return run_draft(limited, call=call, run_id=run_id, counting=counting, noted=False)


def _from_mark_on(draft: Draft, exploration: Exploration) -> Draft:
    every_project = exploration.project is None
    conditions = ["(t.timestamp < @mark_timestamp or t.id <= @mark_id)"]
    mark = (DeclaredParameter("mark_timestamp", ParameterType.TIMESTAMP), DeclaredParameter("mark_id"))
    sql = source_sql(exploration.source, every_project=every_project, conditions=conditions)
    return replace(draft, sql=sql, parameters=(*draft.parameters, *mark))


def search_starts(exploration: Exploration) -> Iterator[datetime]:
    """Yield the moments from which to search, the start of the range last.

    No index has the rows of every project by time, so PostgreSQL sorts all that it finds: 6.5 s for a week of a million
    rows, of which the newest hours have a page in 0.2 s. For rare rows it is a seventh more work.
    """
    whole = exploration.end - exploration.start
    if exploration.project is None and whole >= _WORTH_NARROWING:
        for part in (64, 8):
            yield exploration.end - whole / part
    yield exploration.start


def check_range(exploration: Exploration) -> Period:
    """Return the period of the range's histogram. Raises InvalidExploration."""
    try:
        return fitting_period(exploration.start, exploration.end)
    except ValueError as error:
        raise InvalidExploration("range", str(error)) from error


def shown_columns(exploration: Exploration) -> list[str]:
    """Return the columns that identify and place a row."""
    return ["timestamp", "id"] if exploration.project is not None else ["timestamp", "project", "id"]


def _number(value: object) -> str | None:
    """Return what a bar can tell; a moment is not a height."""
    return str(value) if isinstance(value, Digits) or value in _NOT_FINITE else None


def _identifier(name: str) -> str:
    """Return the name of a log source as an identifier: it is a plain lower-case word, perhaps a reserved one."""
    if "_" in name and not name.startswith(_RESERVED_BEGINNINGS):
        return name
    return f'"{name}"'
