"""The new rows of an exploration, as pages of a tail over the same draft endpoint (endpoints.calling.tails)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from django.conf import settings

from endpoints.calling.prepared_queries import PreparedQuery, Sandbox
from endpoints.calling.query_requests import Call
from endpoints.calling.tail_places import Place
from endpoints.calling.tails import page_of, read_tail
from endpoints.defining.drafts import run_over_draft
from endpoints.exploring.exploring import SEVERITY_COLUMNS, Exploration, shown_columns, source_draft
from endpoints.lql.writing import rows_query
from endpoints.results.outcomes import Outcome, Rows
from endpoints.sql.parameters import RawValue


def explore_tail(exploration: Exploration, *, page_token: str, whose: str) -> Outcome:
    """Return the next page of rows that match, whatever the exploration's range; `whose` the token is.

    Without a token it has the rows of the time in which late rows may come: a page that shows rows has some of them
    already, and knows them by id, project and timestamp. Raises InvalidExploration, and what `read_tail` and
    `run_over_draft` raise.
    """
    draft = source_draft(exploration.source, every_project=exploration.project is None)
    arguments: dict[str, RawValue] = {} if exploration.project is None else {"project": exploration.project}
    lql = rows_query(exploration.lql, needed=shown_columns(exploration), wished=SEVERITY_COLUMNS)
    call = Call(arguments, sandbox_lql=lql, redact=exploration.redact, tail="true", page_token=page_token)
    tail = read_tail(draft.as_version(), call, None, whose=whose)
    if tail.place is None:
        late = timedelta(seconds=settings.ENDPOINTS_TAIL_LATE_SECONDS)
        tail = replace(tail, place=Place(datetime.now(UTC) - late))

    def run(prepare: Callable[[Sandbox], PreparedQuery]) -> Rows:
        return run_over_draft(draft, prepare)

    return page_of(tail, run)
