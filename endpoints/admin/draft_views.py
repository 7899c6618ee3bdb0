"""Drafts as JSON, for the endpoint's page: checked, run, explained and cancelled as typed, nothing saved.

Addresses, below ``/admin/endpoints/endpoint/draft/``; as URL names ``admin:endpoints_endpoint_draft_<word>``::

    POST check/      what is wrong with the draft, and what it would return
    POST run/        the draft's rows
    POST explain/    EXPLAIN (ANALYZE, BUFFERS) of the same statement, as a tree; on a cluster EXPLAIN
    POST cancel/     cancel one's own run or explanation, which then answers 409
    GET  catalogue/  log sources for completion
    GET  latest/     ?id=UUID: the latest version of a saved endpoint, for people who may change it

Every POST has the header ``X-CSRFToken`` (without it Django's own 403 page answers, which is HTML) and a JSON object as
body, at most ENDPOINTS_MAX_BODY_BYTES long. Every answer has all fields below: null or [] if empty.

Requests::

    check    {"draft": DRAFT}
    run      {"draft": DRAFT, "call": CALL, "run_id": RUN_ID}
    explain  {"draft": DRAFT, "call": CALL, "run_id": RUN_ID}
    cancel   {"run_id": RUN_ID}

    DRAFT = {"id": UUID of the saved endpoint or null, "sql": text, "parameters": [PARAMETER, …],
             and every name in SETTINGS_IN_DRAFTS (endpoints.definition): a text, an integer or a boolean}
            Only "sql" has to be there. Integers may be sent as the text of their form field; anything else
            is a problem of its field. The parameters are the declared ones, in their order.
    PARAMETER = {"name": text, "type": "text" | "integer" | "number" | "boolean" | "timestamp" | "date" | "uuid"
                 | "list of text", "required": boolean, "default": text, "allowed_values": [text, …], "minimum": text,
                 "maximum": text, "pattern": text, "description": text}
            Only "name" is required; the empty text means none.
    CALL = {"arguments": {name: text or [text, …]}, "sql": text, "lql": text, "redact": boolean}
            Optional as a whole and in each part. "sql" or "lql": a sandbox query, in place of the stored query.
    RUN_ID = 8 to 64 letters, digits and dashes, new for each run: crypto.randomUUID()

Answers, all 200::

    check    {"ok": boolean (no problem is an error: it could be saved), "problems": [PROBLEM, …],
              "parameters": [{"name": text, "declared": boolean, "guessed_type": text or null,
                              "places": [{"line": n, "column": n}, …]}, …]    in order of first use in the SQL;
              the type is what PostgreSQL takes the parameter for, null where it takes it for none of ours
              "columns": [COLUMN, …] or null where the SQL does not get so far,
              "sandbox_tables": [{"name": text, "columns": [COLUMN, …]}, …]}
    run      {"columns": [COLUMN, …], "result_json": text (the body that a consumer gets, {"result": [{…}, …]}: one
              string, so that no digit of a number is lost before it is shown), "row_count": n, "shown_rows": n (less
              where the whole would be too much for a page), "truncated": boolean (max rows cut the result),
              "notes": [text, …] (such as fields of a BigQuery text that no sampled row has), "database_seconds": x,
              "seconds": x, "cache": "bypass", "statement": STATEMENT}
    explain  {"plan": NODE, "planning_ms": x or null, "execution_ms": x or null (on a cluster: only planned, and no NODE
              is executed), "tables": [TABLE, …], "statement": STATEMENT}
    cancel   {"cancelled": true}    the run's own request is answered at once, with 409
    catalogue {"sources": [{"name": "edge_logs", "table": "logs.edge_logs", "holds": text, "project": text,
                            "columns": [{"name": text, "type": text, "path": text (of an extracted column) or null}, …],
                            "metadata_paths": [{"path": "request.url", "type": text, "rows": n,
                             "steps": ["0", "request", "0", "url"] (with the elements of arrays), "column": text (the
                             extracted column that holds the same) or null}, …]}, …],
               "parameter_types": [text, …]}
    latest   {"version": n, "saved_by": text or null (a command), "saved_at": ISO 8601, UTC,
              "compare": the address that compares it with another, without ``from=``}

    PROBLEM = {"severity": "error" | "warning", "field": "sql" | "parameters" | …, a field of DRAFT,
               "parameter": text or null, "message": text, "line": n or null, "column": n or null}
            Lines and columns count from 1, in characters, within "sql".
    COLUMN = {"name": text, "type": text, such as "timestamp with time zone"}
    STATEMENT = {"sql": text with $1, $2, …, "arguments": [{"placeholder": "$1", "name": text or "", "value": text,
                 [text, …] or null}, …], "role": text, "search_path": text}
    NODE = {"node": "Index Scan", "relation": text, "alias": text, "index": text, "details": [text, …],
            "rows_estimated": x, "rows_actual": x (over all loops), "rows_removed": x, "loops": n, "executed": boolean,
            "ms": x (with its children), "own_ms": x, "buffers_hit": n, "buffers_read": n (with its children, in
            pages of 8 kB), "partitions_pruned": n, "children": [NODE, …]}
    TABLE = {"table": "edge_logs", "touched": [partition, …], "pruned": [partition, …]}

Failures, whatever the address::

    {"error": {"code": text, "message": text, "details": [object, …], "request_id": text,
               "consumer_status": n or null (what a consumer of the saved endpoint would get),
               "operator": null or {"sqlstate": text, "message": PostgreSQL's own, "hint": text, "field": "sql" |
                "call.sql" | "call.lql", "line": n or null, "column": n or null}}}

    400 invalid_request    the body is not as described here     413 request_too_large
    401 not_logged_in      log in again                          415 unsupported_media_type
    403 not_permitted      needs endpoints.run_draft, and to     422 invalid_draft, stored_query_failed
                           change (with "id") or add endpoints   404 run_not_found (cancel), endpoint_not_found
    405 method_not_allowed                                       409 draft_cancelled
    400, 413, 503, 504     as a consumer gets them: invalid_parameters, sandbox_violation, invalid_sql, query_timeout, …
"""

from __future__ import annotations

from typing import Any, Final

import structlog
from django.contrib.admin.options import ModelAdmin
from django.http import HttpRequest
from django.urls import path, reverse

from endpoints.admin.draft_json import (
    Json,
    catalogue_json,
    plan_json,
    read_call,
    read_draft,
    read_id,
    read_run_id,
    report_json,
    run_json,
)
from endpoints.admin.history import COMPARE_URL_NAME
from endpoints.admin.json_views import Handler, Refusal, json_view, own_run_id, read_body
from endpoints.calling.catalogue import catalogue
from endpoints.defining.drafts import Draft, cancel_draft_run, check_draft, explain_draft, run_draft
from endpoints.models import Endpoint
from endpoints.sql.formatting import NotFormattable, format_sql

PERMISSION: Final = "endpoints.run_draft"

logger = structlog.get_logger(__name__)


def draft_urls(admin: ModelAdmin[Endpoint]) -> list[Any]:
    """Return the addresses of drafts, for the admin of endpoints; each refuses the same people as the admin."""
    views = DraftViews(admin)
    handlers: dict[str, tuple[str, Handler]] = {
        "check": ("POST", views.check),
        "run": ("POST", views.run),
        "explain": ("POST", views.explain),
        "cancel": ("POST", views.cancel),
        "catalogue": ("GET", views.catalogue),
        "latest": ("GET", views.latest),
    }
    return [
        path(f"draft/{word}/", json_view(method, handler), name=f"endpoints_endpoint_draft_{word}")
        for word, (method, handler) in handlers.items()
    ]


class DraftViews:
    """The handler of each address, called once method, session and permission are checked."""

    def __init__(self, admin: ModelAdmin[Endpoint]) -> None:
        self._admin = admin

    def check(self, request: HttpRequest) -> Json:
        self._require_operator(request)
        draft = self._draft(request, read_body(request))
        return report_json(check_draft(draft), draft)

    def run(self, request: HttpRequest) -> Json:
        self._require_operator(request)
        body = read_body(request)
        draft, call, run_id = self._draft(request, body), read_call(body), own_run_id(request, read_run_id(body))
        run = run_draft(draft, call=call, run_id=run_id)
        _note("draft_run", request, draft, rows=run.row_count, database_seconds=run.database_seconds)
        return run_json(run)

    def explain(self, request: HttpRequest) -> Json:
        self._require_operator(request)
        body = read_body(request)
        draft, call, run_id = self._draft(request, body), read_call(body), own_run_id(request, read_run_id(body))
        plan = explain_draft(draft, call=call, run_id=run_id)
        _note("draft_explained", request, draft, execution_ms=plan.tree.execution_ms)
        return plan_json(plan)

    def cancel(self, request: HttpRequest) -> Json:
        self._require_operator(request)
        if not cancel_draft_run(own_run_id(request, read_run_id(read_body(request)))):
            raise Refusal(404, "run_not_found", "You have no run with this id, or it is over.")
        return {"cancelled": True}

    def catalogue(self, request: HttpRequest) -> Json:
        self._require_operator(request)
        return catalogue_json(catalogue())

    def latest(self, request: HttpRequest) -> Json:
        if not self._admin.admin_site.has_permission(request):
            raise Refusal(401, "not_logged_in", "Your session is over. Log in again in another tab; the draft stays.")
        if not self._admin.has_change_permission(request):
            raise _not_permitted()
        endpoint_id = read_id(request.GET.get("id"))
        record = Endpoint.history.filter(id=endpoint_id).select_related("history_user").order_by("-history_id").first()
        if record is None or record.history_type == "-":
            raise Refusal(404, "endpoint_not_found", "This endpoint has been deleted.")
        return {
            "version": record.version,
            "saved_by": str(record.history_user) if record.history_user else None,
            "saved_at": record.history_date,
            "compare": f"{reverse(f'admin:{COMPARE_URL_NAME}', args=[record.id])}?to={record.version}",
        }

    def _require_operator(self, request: HttpRequest) -> None:
        if not self._admin.admin_site.has_permission(request):
            raise Refusal(401, "not_logged_in", "Your session is over. Log in again in another tab; the draft stays.")
        may_edit = self._admin.has_change_permission(request) or self._admin.has_add_permission(request)
        if not (request.user.has_perm(PERMISSION) and may_edit):
            raise _not_permitted()

    def _draft(self, request: HttpRequest, body: Json) -> Draft:
        """Return the draft, if this person may save it: as a new endpoint, or as a version of a saved one."""
        draft = read_draft(body)
        if draft.endpoint_id is None:
            if not self._admin.has_add_permission(request):
                raise _not_permitted()
            return draft
        endpoint = Endpoint.objects.filter(pk=draft.endpoint_id).first()
        if not self._admin.has_change_permission(request, endpoint):
            raise _not_permitted()
        if endpoint is None:
            raise Refusal(404, "endpoint_not_found", "This endpoint has been deleted.")
        return draft


def _not_permitted() -> Refusal:
    return Refusal(403, "not_permitted", "Your role may not try drafts of this endpoint.")


def _note(event: str, request: HttpRequest, draft: Draft, **facts: object) -> None:
    """Log who tried what: an operator may read rows of every project."""
    logger.info(event, user=request.user.get_username(), endpoint=draft.name, **facts)


# --- Formatting view --------------------------------------------------------------------------------------------------
# POST …/draft/format/: the draft's SQL formatted, for the button above the editor. Nothing is run or saved.
#
# The body is ``{"sql": text}``; the answer ``{"sql": text}``, or a failure as in `json_views`: 422
# ``not_formattable``, 400 for any other body, 401 and 403 for people who may not edit in the admin.
FORMAT_URL_NAME = "endpoints_endpoint_draft_format"


def format_url(admin: ModelAdmin[Endpoint]) -> Any:
    """Return the address of the format button, for the admin of endpoints."""

    def formatted(request: HttpRequest) -> Json:
        if not admin.admin_site.has_permission(request):
            raise Refusal(401, "not_logged_in", "Your session is over. Log in again in another tab.")
        if not (admin.has_change_permission(request) or admin.has_add_permission(request)):
            raise Refusal(403, "not_permitted", "Your role may not edit endpoints.")
        sql = read_body(request).get("sql")
        if not isinstance(sql, str):
            raise Refusal(400, "invalid_request", 'Send {"sql": text}.')
        try:
            return {"sql": format_sql(sql)}
        except NotFormattable as error:
            raise Refusal(422, "not_formattable", str(error)) from error

    return path("draft/format/", json_view("POST", formatted), name=FORMAT_URL_NAME)
