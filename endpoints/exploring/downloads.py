"""The rows of an exploration as a file: the same query, role, project, limits and redaction as those on the page."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from endpoints.defining.drafts import DraftRun
from endpoints.exploring.exploring import (
    Exploration,
    InvalidExploration,
    check_range,
    run_exploration,
    search_starts,
    shown_columns,
)
from endpoints.lql.writing import rows_query
from endpoints.results.encoding import offered_formats
from endpoints.results.outcomes import ResultFormat

MAX_DOWNLOAD_ROWS: Final = 10_000
_SUFFIXES: Final = {ResultFormat.CSV: "csv", ResultFormat.NDJSON: "ndjson", ResultFormat.PARQUET: "parquet"}


@dataclass(frozen=True, slots=True)
class Download:
    """A file and the run it is from; `run.truncated` says that more rows match."""

    name: str
    form: ResultFormat
    run: DraftRun


def download_formats() -> dict[str, ResultFormat]:
    """Return the formats of downloads by their file suffixes; Parquet only if its library is installed."""
    return {suffix: form for form, suffix in _SUFFIXES.items() if form in offered_formats()}


def explore_download(exploration: Exploration, suffix: str, *, rows: int, run_id: str, now: datetime) -> Download:
    """Return the newest rows that match, at most `rows` of them, as a file named after its log source and `now`.

    Its columns are those of the query. Raises InvalidExploration for a format or number of rows that is not offered,
    and what `explore_rows` raises.
    """
    formats = download_formats()
    if suffix not in formats:
        raise InvalidExploration("format", f"Choose one of the formats {', '.join(formats)}.")
    if not 1 <= rows <= MAX_DOWNLOAD_ROWS:
        raise InvalidExploration("rows", f"A download has 1 to {MAX_DOWNLOAD_ROWS:,} rows.")
    check_range(exploration)
    lql = rows_query(exploration.lql, needed=shown_columns(exploration))
    for start in search_starts(exploration):
        narrowed = replace(exploration, start=start)
        run = run_exploration(narrowed, lql, max_rows=rows, run_id=run_id, form=formats[suffix])
        if run.truncated:
            break
    return Download(f"{exploration.source}-{now:%Y%m%dT%H%M%SZ}.{suffix}", formats[suffix], run)
