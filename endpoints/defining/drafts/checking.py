"""Check a draft on the log database: every problem at its place, and what it would return. Nothing is saved or run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from endpoints.calling.pages import PAGE_ARGUMENTS
from endpoints.calling.prepared_queries import sandbox_session, stored_session
from endpoints.defining.drafts.draft import (
    Draft,
    Position,
    Problem,
    Severity,
    composition_problems,
    declaration_problems,
    default_table_problems,
    lexical_problems,
    setting_problems,
    undeclared_parameters,
)
from endpoints.definition import SETTINGS, PublishedTable
from endpoints.log_database.describing import describe_statement, describe_with_plan, parameter_types
from endpoints.log_database.execution import StatementFailed
from endpoints.log_database.plans import tables_without_time_bound
from endpoints.log_database.publishing import PublishingError, publish_draft, table_statement
from endpoints.log_database.sessions import ReaderSession
from endpoints.results.outcomes import Column
from endpoints.sql.composition import compile_query, original_offset
from endpoints.sql.lexemes import Kind, lex
from endpoints.sql.page_orders import PageKey, PageOrderError, may_repeat, page_order_problems, parse_page_order
from endpoints.sql.page_queries import PageQueryError, compile_page, lift_order_and_limit
from endpoints.sql.parameter_uses import ParameterUse, numbered_uses, parameter_uses, types_of_uses
from endpoints.sql.parameters import DeclaredParameter, ParameterType, find_parameters
from endpoints.sql.stored_queries import stored_tables


@dataclass(frozen=True, slots=True)
class DraftReport:
    """What is wrong with a draft, and what is known about it; `columns` is None if the SQL does not get so far."""

    problems: tuple[Problem, ...]
    parameters: tuple[ParameterUse, ...] = ()
    columns: tuple[Column, ...] | None = None
    sandbox_tables: tuple[PublishedTable, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether it could be saved as it is."""
        return not any(problem.is_error for problem in self.problems)


def check_draft(draft: Draft) -> DraftReport:
    """PREPARE and plan a draft as its readers and return every problem.

    Raises DatabaseUnavailable, Overloaded or QueryTimeout if the log database cannot answer.
    """
    unreadable = list(lexical_problems(draft))
    if unreadable:
        settings = setting_problems(draft, with_name=True)
        return DraftReport(_in_order([*unreadable, *settings]))
    uses = parameter_uses(draft.sql)
    problems = setting_problems(draft, with_name=True) + declaration_problems(draft)
    uncomposable = list(composition_problems(draft))
    if uncomposable or not draft.sql:
        return DraftReport(
            _in_order([*problems, *undeclared_parameters(draft, uses, Severity.WARNING), *uncomposable]), uses
        )
    checked = _checkable(draft)
    uses = _typed_uses(checked, uses)
    columns, faults = _described(checked)
    severity = Severity.WARNING
    if columns is None and (typed := _declared_as_used(checked, uses)) != checked:
        # What PostgreSQL says against text where a number is needed helps less than what to declare.
        checked = typed
        columns, faults = _described(checked)
        severity = Severity.WARNING if columns is None else Severity.ERROR
    problems += undeclared_parameters(draft, uses, severity)
    # PostgreSQL refuses the same in the query and again in its CTEs: reported once.
    tables, sandbox_faults = _sandbox(checked) if draft.sandboxing and columns is not None else ((), [])
    problems += [*faults, *sandbox_faults, *default_table_problems(draft), *_page_problems(draft, checked, columns)]
    return DraftReport(_in_order(problems), uses, columns, tables)


def _checkable(draft: Draft) -> Draft:
    """Return the draft with valid settings in place of invalid ones, so that PostgreSQL can be asked."""
    numbers = [setting for setting in SETTINGS.values() if setting.type is int]
    out_of_range = [one for one in numbers if not one.has_in_range(getattr(draft, one.name))]
    stand_ins: dict[str, Any] = {one.name: one.default for one in out_of_range}
    return replace(draft, **stand_ins, planner_settings="", page_order="")


def _typed_uses(draft: Draft, uses: tuple[ParameterUse, ...]) -> tuple[ParameterUse, ...]:
    """Return the uses with the types that PostgreSQL tells; as they were if it refuses the query anyhow."""
    if not uses:
        return uses
    endpoint = draft.as_version()
    session = stored_session(endpoint, {parameter.name: None for parameter in endpoint.parameters})
    numbered = numbered_uses(draft.sql)
    try:
        types = types_of_uses(numbered, parameter_types(numbered, session))
    except StatementFailed:
        return uses
    return tuple(replace(use, guessed_type=types.get(use.name, use.guessed_type)) for use in uses)


def _declared_as_used(draft: Draft, uses: tuple[ParameterUse, ...]) -> Draft:
    """Return the draft with a declaration for every undeclared parameter that is not used as text."""
    declared = {parameter.name for parameter in draft.parameters}
    others = [(use.name, use.guessed_type) for use in uses if use.name not in declared]
    typed = tuple(DeclaredParameter(name, type_) for name, type_ in others if type_ not in (None, ParameterType.TEXT))
    return replace(draft, parameters=(*draft.parameters, *typed))


def _described(draft: Draft) -> tuple[tuple[Column, ...] | None, list[Problem]]:
    endpoint = draft.as_version()
    nothing = {parameter.name: None for parameter in endpoint.parameters}
    compiled = compile_query(draft.sql, endpoint.parameters, max_rows=endpoint.max_rows)
    try:
        description = describe_with_plan(compiled.statement(nothing), stored_session(endpoint, nothing))
    except StatementFailed as failure:
        return None, [Problem("sql", postgresql_message(failure), place=place_in_draft(draft, failure))]
    unbounded = tables_without_time_bound(description.plan) if description.plan else ()
    return description.columns, [_without_bound(draft, table) for table in unbounded]


def _page_problems(draft: Draft, checked: Draft, columns: tuple[Column, ...] | None) -> Iterator[Problem]:
    """Yield why the query's rows cannot be read in pages, if its order can be read at all."""
    try:
        keys = parse_page_order(draft.page_order)
    except PageOrderError:
        return  # its field says so
    if not keys or columns is None:
        return
    unfit = [*page_order_problems(keys, columns), *_page_arguments_taken(checked)]
    try:
        lift_order_and_limit(draft.sql)
    except PageQueryError as error:
        place = Position.at(draft.sql, error.position)
        unfit.append(f"Line {place.line}, column {place.column} of the query: {error.message}.")
    yield from (Problem("page_order", reason) for reason in unfit or _refused_by_postgresql(checked, keys))
    if not unfit and may_repeat(keys):
        reason = (
            "Two rows that are equal in these columns cannot be told apart, and a call whose page ends between them "
            "fails: the last column must make every row different, as id does behind timestamp."
        )
        yield Problem("page_order", reason, severity=Severity.WARNING)


def _page_arguments_taken(draft: Draft) -> Iterator[str]:
    for name in sorted(PAGE_ARGUMENTS.intersection(find_parameters(draft.sql))):
        yield f"The query has a parameter @{name}, so callers could not ask for a page: call it something else."


def _refused_by_postgresql(draft: Draft, keys: tuple[PageKey, ...]) -> Iterator[str]:
    """PREPARE the first page, and one after a row."""
    endpoint = draft.as_version()
    nothing = {parameter.name: None for parameter in endpoint.parameters}
    for after in (None, ("",) * len(keys)):
        query = compile_page(draft.sql, endpoint.parameters, keys, after)
        try:
            describe_statement(query.statement(nothing, after, limit=1), stored_session(endpoint, nothing))
        except StatementFailed as failure:
            yield postgresql_message(failure)
            return


def _sandbox(draft: Draft) -> tuple[tuple[PublishedTable, ...], list[Problem]]:
    endpoint = draft.as_version()
    nothing = {parameter.name: None for parameter in endpoint.parameters}
    try:
        schema, tables = publish_draft(endpoint, endpoint.parameters)
    except PublishingError as error:
        place = None if error.position is None else Position.at(draft.sql, error.position)
        return (), [Problem("sql", f"{error.message}.", place=place)]
    return tables, list(_unreadable_tables(draft, tables, sandbox_session(endpoint, schema, nothing)))


def _unreadable_tables(draft: Draft, tables: tuple[PublishedTable, ...], session: ReaderSession) -> Iterator[Problem]:
    """Plan a query of each table as the sandbox's reader: this shows what it may not use."""
    positions = {table.name: table.position for table in stored_tables(draft.sql)}
    for table in tables:
        try:
            describe_statement(table_statement(table.name), session)
        except StatementFailed as failure:
            message = f"the CTE `{table.name}` cannot be used as a sandbox table: {failure.primary_message}."
            yield Problem("sql", message, place=Position.at(draft.sql, positions[table.name]))


def postgresql_message(failure: StatementFailed) -> str:
    """Return PostgreSQL's own message and hint; they may quote row values, which an operator may see."""
    hint = f" {failure.hint}" if failure.hint else ""
    return f"PostgreSQL: {failure.primary_message}.{hint}"


def place_in_draft(draft: Draft, failure: StatementFailed) -> Position | None:
    """Return where in the draft's SQL PostgreSQL's error points to."""
    if failure.position is None:
        return None
    parameters = draft.as_version().parameters
    return Position.at(draft.sql, original_offset(draft.sql, parameters, failure.position - 1))


def _without_bound(draft: Draft, table: str) -> Problem:
    message = (
        f"logs.{table} is read without a time range, so PostgreSQL reads every day of it: compare its timestamp, as in"
        f" {table}.timestamp >= @start. A comparison inside OR, CASE or a function skips no partition."
    )
    return Problem("sql", message, severity=Severity.WARNING, place=_place_of_table(draft.sql, table))


def _place_of_table(sql: str, table: str) -> Position | None:
    """Return where the SQL reads the table; a CTE or column of its name is not meant."""
    # with edge_logs as (select … from logs.edge_logs as t)  ->  after "logs."
    lexemes = [lexeme for lexeme in lex(sql) if not lexeme.is_blank]
    names = (Kind.WORD, Kind.QUOTED_IDENTIFIER)
    found = [
        (lexemes[index - 1].text.lower() if index else "", lexeme)
        for index, lexeme in enumerate(lexemes)
        if lexeme.kind in names and lexeme.text.strip('"').lower() == table
    ]
    found.sort(key=lambda one: (one[0] != ".", one[0] not in ("from", "join", ",")))
    return Position.at(sql, found[0][1].start) if found else None


def _in_order(problems: list[Problem]) -> tuple[Problem, ...]:
    """Return the errors, then the warnings."""
    return tuple(sorted(problems, key=lambda problem: not problem.is_error))
