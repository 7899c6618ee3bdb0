"""What a draft would send to PostgreSQL for a call: the statement, as whom, and what a failure of it means."""

from __future__ import annotations

from dataclasses import dataclass

from endpoints.cache import Recipe
from endpoints.calling.prepared_queries import PreparedQuery, Sandbox, prepare_stored_query
from endpoints.calling.producing import prepare_consumers_query
from endpoints.calling.recipes import Call, read_recipe
from endpoints.calling.sandboxes import refuse_unguarded_sandbox
from endpoints.defining.drafts import reading
from endpoints.defining.drafts.draft import Draft, InvalidDraft, Place
from endpoints.errors import EndpointError, StoredQueryFailed
from endpoints.log_database.execution import StatementFailed
from endpoints.log_database.publishing import PublishingError, publish_draft


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
    """What a draft would send to PostgreSQL for a call, and where a failure of it is."""

    query: PreparedQuery
    recipe: Recipe
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
            place=None if offset is None else Place.at(self.text, offset),
        )
        return DraftFailed(self.query.refusal(failed), detail)


def draft_statement(draft: Draft, call: Call) -> DraftStatement:
    """Return the statement that a saved version of the draft would run for a call.

    Raises InvalidDraft, DraftFailed where its CTEs cannot be published, and what a consumer gets before a statement
    runs: InvalidParameters, SandboxDisabled, SandboxViolation, InvalidLQL and so on.
    """
    draft = runnable(draft)
    endpoint = draft.as_version()
    recipe = read_recipe(endpoint, call, None)
    if not recipe.sandbox_language:
        return DraftStatement(prepare_stored_query(endpoint, recipe.arguments), recipe, draft.sql)
    refuse_unguarded_sandbox()
    try:
        schema, tables = publish_draft(endpoint, endpoint.parameters)
    except PublishingError as error:
        place = None if error.position is None else Place.at(draft.sql, error.position)
        raise DraftFailed(StoredQueryFailed(), OperatorDetail("", error.message, place=place)) from error
    query = prepare_consumers_query(endpoint, recipe, Sandbox(schema, tables))
    return DraftStatement(query, recipe, recipe.sandbox_text)


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
