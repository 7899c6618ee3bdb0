"""What a draft would send to PostgreSQL for a call: the statement, as whom, and what a failure of it means."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from endpoints.cache import Recipe
from endpoints.definition import PublishedTable, Version
from endpoints.errors import EndpointError, StoredQueryFailed
from endpoints.execution import ReaderSession, StatementFailed
from endpoints.outcomes import BoundValue, Statement
from endpoints.publishing import PublishingError, draft_schema
from endpoints.services import lql_calls, sandbox_calls
from endpoints.services.drafts import reading
from endpoints.services.drafts.checking import place_in_draft
from endpoints.services.drafts.draft import Draft, InvalidDraft, Place
from endpoints.services.recipes import Call, read_recipe
from endpoints.services.sandbox_runs import refuse_unguarded_sandbox, within_budget
from endpoints.services.sessions import (
    INVALID_REGULAR_EXPRESSION,
    refuse_invalid_regular_expression,
    sandbox_session,
    stored_session,
)
from endpoints.sql.composition import compile_query


@dataclass(frozen=True, slots=True)
class OperatorDetail:
    """What PostgreSQL itself said: for the operator alone, since it quotes the stored query and row values.

    `place` is in the text that `field` names: "sql" of the draft, "call.sql" or "call.lql".
    """

    sqlstate: str
    message: str
    hint: str = ""
    field: str = "sql"
    place: Place | None = None


class DraftFailed(Exception):
    """A draft's statement failed: `error` is what a consumer would get, `operator` what was behind it."""

    def __init__(self, error: EndpointError, operator: OperatorDetail) -> None:
        self.error = error
        self.operator = operator
        super().__init__(f"{error.code}: {operator.message}")


@dataclass(frozen=True, slots=True)
class DraftStatement:
    """One statement ready to run; `explain_failure` returns what a consumer would get, or raises it."""

    statement: Statement
    argument_names: tuple[str, ...]
    session: ReaderSession
    recipe: Recipe
    max_rows: int
    is_budgeted: bool
    explain_failure: Callable[[StatementFailed], EndpointError]
    field: str
    place_failure: Callable[[StatementFailed], Place | None]

    def failure(self, failed: StatementFailed) -> DraftFailed:
        """Return what to raise for a failure of the statement. Raises InvalidParameters: an argument is at fault."""
        detail = OperatorDetail(
            failed.sqlstate, failed.primary_message, failed.hint, self.field, self.place_failure(failed)
        )
        return DraftFailed(self.explain_failure(failed), detail)


@contextmanager
def draft_statement(draft: Draft, call: Call) -> Iterator[DraftStatement]:
    """Yield the statement that a saved version of the draft would run for a call; a sandbox lives inside the block.

    Raises InvalidDraft, DraftFailed where its CTEs cannot be published, and what a consumer gets before a statement
    runs: InvalidParameters, SandboxDisabled, SandboxViolation, InvalidLQL and so on.
    """
    draft = runnable(draft)
    endpoint = draft.as_version()
    recipe = read_recipe(endpoint, call, None)
    if not recipe.sandbox_language:
        yield _stored(draft, endpoint, recipe)
        return
    refuse_unguarded_sandbox()
    with ExitStack() as stack:
        try:
            published = draft_schema(endpoint, endpoint.parameters)
            schema, tables = stack.enter_context(published)
        except PublishingError as error:
            place = None if error.position is None else Place.at(draft.sql, error.position)
            raise DraftFailed(StoredQueryFailed(), OperatorDetail("", error.message, place=place)) from error
        prepare = _sandbox_sql if recipe.sandbox_language == "sql" else _sandbox_lql
        yield prepare(endpoint, recipe, schema, tables)


def runnable(draft: Draft) -> Draft:
    """Return the draft without what does not matter to a run, its unused parameters. Raises InvalidDraft."""
    problems = list(reading.lexical_problems(draft))
    if problems:
        raise InvalidDraft(problems)
    draft = draft.without_unused_parameters()
    problems = reading.setting_problems(draft, with_name=False)
    problems += reading.declaration_problems(draft)
    problems += reading.composition_problems(draft)
    if problems:
        raise InvalidDraft(problems)
    return draft


def _stored(draft: Draft, endpoint: Version, recipe: Recipe) -> DraftStatement:
    parameters = endpoint.parameters
    compiled = compile_query(endpoint.sql, parameters, max_rows=endpoint.max_rows)
    session = stored_session(endpoint, recipe.arguments)

    def explain(failed: StatementFailed) -> EndpointError:
        if failed.sqlstate == INVALID_REGULAR_EXPRESSION:
            refuse_invalid_regular_expression(parameters, recipe.arguments, session)
        return StoredQueryFailed()

    return DraftStatement(
        statement=compiled.statement(recipe.arguments),
        argument_names=compiled.parameter_names,
        session=session,
        recipe=recipe,
        max_rows=endpoint.max_rows,
        is_budgeted=False,
        explain_failure=explain,
        field="sql",
        place_failure=lambda failed: place_in_draft(draft, failed),
    )


def _sandbox_sql(endpoint: Version, recipe: Recipe, schema: str, tables: tuple[PublishedTable, ...]) -> DraftStatement:
    sql = recipe.sandbox_text
    checked = sandbox_calls.check_query(endpoint, sql, tables)

    def place(failed: StatementFailed) -> Place | None:
        offset = sandbox_calls.offset_of(failed, checked)
        return None if offset is None else Place.at(sql, offset)

    return _sandboxed(
        endpoint,
        recipe,
        schema,
        statement=checked.statement(recipe.arguments, max_rows=endpoint.max_rows),
        argument_names=checked.parameter_names,
        explain_failure=lambda failed: sandbox_calls.refusal_of(
            failed, checked, sql, endpoint, recipe.arguments, tables
        ),
        place_failure=place,
    )


def _sandbox_lql(endpoint: Version, recipe: Recipe, schema: str, tables: tuple[PublishedTable, ...]) -> DraftStatement:
    rules = lql_calls.read_lql(recipe.sandbox_text)
    lowered, checked = lql_calls.lower_query(endpoint, rules, tables)
    return _sandboxed(
        endpoint,
        recipe,
        schema,
        statement=checked.statement(lowered.arguments, max_rows=endpoint.max_rows),
        argument_names=checked.parameter_names,
        explain_failure=lambda failed: lql_calls.refusal_of(failed, rules, lowered, endpoint, recipe.arguments),
        place_failure=lambda failed: None,  # the SQL is ours
    )


def _sandboxed(
    endpoint: Version,
    recipe: Recipe,
    schema: str,
    *,
    statement: Statement,
    argument_names: tuple[str, ...],
    explain_failure: Callable[[StatementFailed], EndpointError],
    place_failure: Callable[[StatementFailed], Place | None],
) -> DraftStatement:
    arguments: dict[str, BoundValue] = dict(recipe.arguments)
    return DraftStatement(
        statement=within_budget(statement),
        argument_names=argument_names,
        session=sandbox_session(endpoint, schema, arguments),
        recipe=recipe,
        max_rows=endpoint.max_rows,
        is_budgeted=True,
        explain_failure=explain_failure,
        field=f"call.{recipe.sandbox_language}",
        place_failure=place_failure,
    )
