"""The JSON of drafts: what the page sends, read strictly, and what it gets. `draft_views` describes the shapes."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, Final, TypeVar

import orjson

from endpoints.calling.catalogue import CatalogueSource
from endpoints.calling.query_requests import Call
from endpoints.defining.drafts import (
    Draft,
    DraftPlan,
    DraftReport,
    DraftRun,
    OperatorDetail,
    Position,
    Problem,
    SentStatement,
)
from endpoints.definition import SETTINGS_IN_DRAFTS
from endpoints.log_database.plans import PlanNode
from endpoints.results.outcomes import Column
from endpoints.sql.parameters import DeclaredParameter, ParameterType

MAX_PARAMETERS: Final = 200
_RUN_ID: Final = re.compile(r"[A-Za-z0-9-]{8,64}")
_DRAFT_FIELDS: Final = frozenset(("id", "sql", "parameters", *SETTINGS_IN_DRAFTS))
_PARAMETER_FIELDS: Final = frozenset(field.name for field in fields(DeclaredParameter))
_WHOLE_NUMBER: Final = re.compile(r"\s*[+-]?[0-9]{1,15}\s*", re.ASCII)

T = TypeVar("T")
Json = Mapping[str, Any]


class Malformed(ValueError):
    """A body that is not as described; the message says where."""


def read_object(body: bytes) -> Json:
    """Return the JSON object of a body. Raises Malformed."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Malformed(f"The body is not JSON: line {error.lineno}, column {error.colno}.") from error
    return _typed(value, dict, "The body")


def read_draft(json: Json) -> Draft:
    """Return the draft of a request. Raises Malformed."""
    draft = _typed(json.get("draft"), dict, "draft")
    _refuse_unknown(draft, _DRAFT_FIELDS, "draft")
    parameters = _typed(draft.get("parameters", []), list, "draft.parameters")
    if len(parameters) > MAX_PARAMETERS:
        raise Malformed(f"draft.parameters may have at most {MAX_PARAMETERS} elements.")
    return Draft(
        sql=_typed(draft.get("sql"), str, "draft.sql"),
        parameters=tuple(_read_parameter(one, f"draft.parameters[{index}]") for index, one in enumerate(parameters)),
        endpoint_id=read_id(draft.get("id")),
        **_read_settings(draft),
    )


def read_call(json: Json) -> Call:
    """Return the call of a request. Raises Malformed."""
    call = _typed(json.get("call", {}), dict, "call")
    _refuse_unknown(call, frozenset(("arguments", "sql", "lql", "redact")), "call")
    arguments = _typed(call.get("arguments", {}), dict, "call.arguments")
    for name, value in arguments.items():
        texts = value if isinstance(value, list) else [value]
        if not all(isinstance(text, str | int | float | bool | None) for text in texts):
            raise Malformed(f"call.arguments.{name} must be a value or a list of values.")
    return Call(
        arguments=arguments,
        sandbox_sql=_typed(call.get("sql", ""), str, "call.sql"),
        sandbox_lql=_typed(call.get("lql", ""), str, "call.lql"),
        redact=_typed(call.get("redact", False), bool, "call.redact"),
    )


def read_run_id(json: Json) -> str:
    """Return the run id of a request. Raises Malformed."""
    run_id = _typed(json.get("run_id"), str, "run_id")
    if not _RUN_ID.fullmatch(run_id):
        raise Malformed("run_id must have 8 to 64 letters, digits and dashes.")
    return run_id


def _read_parameter(value: Any, where: str) -> DeclaredParameter:
    json = _typed(value, dict, where)
    _refuse_unknown(json, _PARAMETER_FIELDS, where)
    texts = {
        field: _typed(json.get(field, ""), str, f"{where}.{field}")
        for field in ("default", "minimum", "maximum", "pattern", "description")
    }
    allowed = _typed(json.get("allowed_values", []), list, f"{where}.allowed_values")
    try:
        type_ = ParameterType(_typed(json.get("type", "text"), str, f"{where}.type"))
    except ValueError as error:
        raise Malformed(f"{where}.type must be one of {', '.join(ParameterType)}.") from error
    return DeclaredParameter(
        name=_typed(json.get("name"), str, f"{where}.name"),
        type=type_,
        required=_typed(json.get("required", False), bool, f"{where}.required"),
        default=texts["default"] or None,
        allowed_values=tuple(_typed(text, str, f"{where}.allowed_values") for text in allowed),
        minimum=texts["minimum"] or None,
        maximum=texts["maximum"] or None,
        pattern=texts["pattern"] or None,
        description=texts["description"],
    )


def read_id(value: Any) -> uuid.UUID | None:
    """Return the id of a saved endpoint, None for that of a new one. Raises Malformed."""
    if value is None:
        return None
    try:
        return uuid.UUID(_typed(value, str, "draft.id"))
    except ValueError as error:
        raise Malformed("draft.id must be a UUID.") from error


def _read_settings(draft: Json) -> dict[str, Any]:
    """Return the settings that were sent, and in `not_numbers` those that should be whole numbers and are not."""
    types = {name: setting.type for name, setting in SETTINGS_IN_DRAFTS.items() if name in draft}
    values = {
        name: _read_number(draft[name]) if type_ is int else _typed(draft[name], type_, f"draft.{name}")
        for name, type_ in types.items()
    }
    read = {name: value for name, value in values.items() if value is not None}
    return {**read, "not_numbers": frozenset(values) - frozenset(read)}


def _read_number(value: Any) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return int(value) if isinstance(value, str) and _WHOLE_NUMBER.fullmatch(value) else None


def _typed(value: Any, type_: type[T], where: str) -> T:
    if isinstance(value, type_):
        return value
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    raise Malformed(f"{where} must be {kinds[type_]}.")


def _refuse_unknown(json: Json, known: frozenset[str], where: str) -> None:
    unknown = sorted(set(json) - known)
    if unknown:
        raise Malformed(f"{where} may not contain {', '.join(unknown)}.")


# --- What the page gets -----------------------------------------------------------------------------------------------


def report_json(report: DraftReport, draft: Draft) -> Json:
    """Return a report as JSON; the draft is the one it is about."""
    declared = {parameter.name for parameter in draft.parameters}
    return {
        "ok": report.ok,
        "problems": [problem_json(problem) for problem in report.problems],
        "parameters": [
            {
                "name": use.name,
                "declared": use.name in declared,
                "guessed_type": use.guessed_type,
                "places": [asdict(Position.at(draft.sql, offset)) for offset in use.offsets],
            }
            for use in report.parameters
        ],
        "columns": None if report.columns is None else _columns(report.columns),
        "sandbox_tables": [{"name": table.name, "columns": _columns(table.columns)} for table in report.sandbox_tables],
    }


def problem_json(problem: Problem) -> Json:
    """Return a problem as JSON."""
    return {
        "severity": problem.severity,
        "field": problem.field,
        "parameter": problem.parameter,
        "message": problem.message,
        **_place(problem.place),
    }


def run_json(run: DraftRun) -> Json:
    """Return a run as JSON."""
    return {
        "columns": _columns(run.columns),
        "result_json": run.body.decode(),
        "row_count": run.row_count,
        "shown_rows": run.shown_rows,
        "truncated": run.truncated,
        "notes": list(run.notes),
        "database_seconds": run.database_seconds,
        "seconds": run.seconds,
        "cache": "bypass",
        "statement": _statement(run.statement),
    }


def plan_json(plan: DraftPlan) -> Json:
    """Return an explanation as JSON."""
    return {
        "plan": _node(plan.tree.root),
        "planning_ms": plan.tree.planning_ms,
        "execution_ms": plan.tree.execution_ms,
        "tables": [asdict(table) for table in plan.tree.tables],
        "statement": _statement(plan.statement),
    }


def catalogue_json(sources: tuple[CatalogueSource, ...]) -> Json:
    """Return the catalogue as JSON."""
    return {
        "sources": [
            {
                "name": source.name,
                "table": source.table,
                "holds": source.holds,
                "project": source.project,
                "columns": [{**asdict(column), "path": column.path or None} for column in source.columns],
                "metadata_paths": [
                    {**asdict(path), "column": source.column_of(path.path) or None} for path in source.metadata_paths
                ],
            }
            for source in sources
        ],
        "parameter_types": list(ParameterType),
    }


def operator_json(detail: OperatorDetail) -> Json:
    """Return PostgreSQL's message as JSON."""
    return {
        "sqlstate": detail.sqlstate,
        "message": detail.message,
        "hint": detail.hint,
        "field": detail.field,
        **_place(detail.place),
    }


def _place(place: Position | None) -> Json:
    return {"line": place.line if place else None, "column": place.column if place else None}


def _columns(columns: tuple[Column, ...]) -> list[Json]:
    return [asdict(column) for column in columns]


def _statement(statement: SentStatement) -> Json:
    return asdict(statement)


def _node(node: PlanNode) -> Json:
    return {**asdict(node), "executed": node.executed, "children": [_node(child) for child in node.children]}
