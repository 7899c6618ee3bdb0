"""An endpoint as typed and not saved: checked, run, explained, cancelled. Nothing is stored anywhere.

check_draft       every problem at its place, and what the draft would return
run_draft         the rows of a call, as a saved version would give them
run_over_draft    the rows of any query over its sandbox tables
explain_draft     the plan of the same statement
cancel_draft_run  ends a run of another request, thread or process
"""

from __future__ import annotations

from endpoints.defining.drafts.checking import DraftReport, check_draft
from endpoints.defining.drafts.draft import Draft, InvalidDraft, Position, Problem, Severity
from endpoints.defining.drafts.running import (
    DraftFailed,
    DraftPlan,
    DraftRun,
    OperatorDetail,
    SentArgument,
    SentStatement,
    cancel_draft_run,
    explain_draft,
    run_draft,
    run_over_draft,
)

__all__ = [
    "Draft",
    "DraftFailed",
    "DraftPlan",
    "DraftReport",
    "DraftRun",
    "InvalidDraft",
    "OperatorDetail",
    "Position",
    "Problem",
    "SentArgument",
    "SentStatement",
    "Severity",
    "cancel_draft_run",
    "check_draft",
    "explain_draft",
    "run_draft",
    "run_over_draft",
]
