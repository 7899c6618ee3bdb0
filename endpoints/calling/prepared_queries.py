"""One way to run: the request of a call or a draft becomes one statement, ready to run, with messages for its failures.

The stored query is prepared here, a consumer's SQL and LQL by `consumer_queries`. A call runs it unattended
(`PreparedQuery.run`); a draft runs so that its operator can cancel it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from django.conf import settings

from endpoints.definition import PublishedTable, Version
from endpoints.errors import (
    EndpointError,
    InvalidLQL,
    InvalidParameters,
    InvalidSQL,
    QueryTooCostly,
    ResultTooLarge,
    StoredQueryFailed,
)
from endpoints.log_database.execution import StatementFailed, first_invalid_regular_expression, run_statement
from endpoints.log_database.sessions import ReaderSession
from endpoints.results.outcomes import FIELD, BoundValue, ColumnType, Rows, Statement
from endpoints.sql.composition import compile_query, is_over_budget, limit_bytes, original_offset
from endpoints.sql.parameters import DeclaredParameter, ParameterType
from endpoints.sql.sqlstates import TOO_COSTLY, explain
from logsources.roles import QUERY_READER, SANDBOX_READER

# --- Sessions ---------------------------------------------------------------------------------------------------------
# The role of an endpoint's queries, and the failures that an argument can cause.
INVALID_REGULAR_EXPRESSION: Final = "2201B"  # PostgreSQL, appendix A


def stored_session(endpoint: Version, arguments: Mapping[str, BoundValue]) -> ReaderSession:
    """Return the session of the stored query: with the tenant's rows if the endpoint names a tenant parameter."""
    return ReaderSession(
        role=QUERY_READER,
        search_path="logs",
        statement_timeout_seconds=endpoint.statement_timeout_seconds,
        tenant=_tenant(endpoint, arguments),
        planner_settings=endpoint.planner_settings,
    )


def sandbox_session(endpoint: Version, schema: str, arguments: Mapping[str, BoundValue]) -> ReaderSession:
    """Return the session of a sandbox query: over the views of the schema, which read the arguments themselves."""
    return ReaderSession(
        role=SANDBOX_READER,
        # Named, because otherwise PostgreSQL searches pg_catalog before the schema, and into pg_temp before both.
        # Operators of log_functions hide PostgreSQL's own (logsources.guards).
        search_path=f'"{schema}", log_functions, pg_catalog, pg_temp',
        statement_timeout_seconds=endpoint.statement_timeout_seconds,
        tenant=_tenant(endpoint, arguments),
        arguments=arguments,
        planner_settings=endpoint.planner_settings,
    )


def _tenant(endpoint: Version, arguments: Mapping[str, BoundValue]) -> str | None:
    if not endpoint.tenant_parameter:
        return None
    value = arguments.get(endpoint.tenant_parameter)
    # Fail closed: an argument that is not text shows no row at all, never the rows of every project.
    return value if isinstance(value, str) else ""


def refuse_invalid_regular_expression(
    parameters: Sequence[DeclaredParameter], arguments: Mapping[str, BoundValue], session: ReaderSession
) -> None:
    """Raise InvalidParameters if an argument, not the query, contains the invalid regular expression."""
    candidates = [
        (parameter.name, value)
        for parameter in parameters
        if parameter.type is ParameterType.TEXT and isinstance(value := arguments[parameter.name], str)
    ]
    index = first_invalid_regular_expression([value for _, value in candidates], session)
    if index is not None:
        name = candidates[index][0]
        raise InvalidParameters(details=[{"name": name, "reason": "is not a valid regular expression"}])


# --- Prepared queries -------------------------------------------------------------------------------------------------
_MEBIBYTE: Final = 1024 * 1024
_JSONB: Final = 3802  # its oid in every PostgreSQL
_OVER_BUDGET: Final[Mapping[str, type[EndpointError]]] = {"": ResultTooLarge, "sql": InvalidSQL, "lql": InvalidLQL}


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A schema with the sandbox tables of one version, or of a draft."""

    schema: str
    tables: tuple[PublishedTable, ...]


def _no_notes(rows: Rows) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """One statement that is ready to run.

    `language` is "" for the stored query, "sql" or "lql" for a consumer's. `notes` returns what to say beside its rows.
    `refusal` returns what the caller gets for a failure of the statement; it raises InvalidParameters if an argument is
    at fault. `offset` returns where in the stored query, or in the consumer's SQL, PostgreSQL's error points to, and
    `lacks_a_table` tells whether a sandbox table is not there. With `selects_fields` a jsonb of its result is a FIELD.
    """

    language: str
    statement: Statement
    argument_names: tuple[str, ...]
    session: ReaderSession
    max_rows: int
    refusal: Callable[[StatementFailed], EndpointError]
    offset: Callable[[StatementFailed], int | None]
    lacks_a_table: Callable[[StatementFailed], bool]
    notes: Callable[[Rows], tuple[str, ...]] = _no_notes
    selects_fields: bool = False

    @property
    def max_bytes(self) -> int:
        """The budget of the encoded result."""
        return max_result_bytes(self.language)

    def run(self, awaited: int | None = None) -> Rows:
        """Run it and return the first `max_rows` rows. Awaits a position, and raises, as `run_statement` does."""
        rows = run_statement(
            self.statement, self.session, max_rows=self.max_rows, max_bytes=self.max_bytes, awaited=awaited
        )
        return self.without_budget(rows)

    def without_budget(self, rows: Rows) -> Rows:
        """Return the requested rows: a consumer's statement counts its bytes in a last column."""
        columns = rows.columns[:-1] if self.language else rows.columns
        return replace(rows, columns=columns, types=self.types_of_result(rows.types))

    def types_of_result(self, types: Sequence[ColumnType]) -> Sequence[ColumnType]:
        """Return the types of the result's columns for those of the statement's."""
        return [FIELD if type_[0] == _JSONB else type_ for type_ in types] if self.selects_fields else types


def prepare_stored_query(endpoint: Version, arguments: Mapping[str, BoundValue]) -> PreparedQuery:
    """Return the stored query with these arguments."""
    parameters = endpoint.parameters
    compiled = compile_query(endpoint.sql, parameters, max_rows=endpoint.max_rows)
    session = stored_session(endpoint, arguments)

    def refusal(failure: StatementFailed) -> EndpointError:
        if failure.sqlstate == INVALID_REGULAR_EXPRESSION:
            refuse_invalid_regular_expression(parameters, arguments, session)
        return StoredQueryFailed()

    def offset(failure: StatementFailed) -> int | None:
        return None if failure.position is None else original_offset(endpoint.sql, parameters, failure.position - 1)

    return PreparedQuery(
        language="",
        statement=compiled.statement(arguments),
        argument_names=compiled.parameter_names,
        session=session,
        max_rows=endpoint.max_rows,
        refusal=refusal,
        offset=offset,
        lacks_a_table=lambda failure: False,
    )


def sandboxed_query(
    endpoint: Version,
    arguments: Mapping[str, BoundValue],
    sandbox: Sandbox,
    *,
    language: str,
    statement: Statement,
    argument_names: tuple[str, ...],
    refusal: Callable[[StatementFailed, ReaderSession], EndpointError],
    offset: Callable[[StatementFailed], int | None],
    lacks_a_table: Callable[[StatementFailed], bool],
) -> PreparedQuery:
    """Return a consumer's statement under its byte budget, over the views of a sandbox.

    The views read the call's `arguments` themselves, and one of those may contain an invalid regular expression.
    """
    session = sandbox_session(endpoint, sandbox.schema, arguments)
    limited, _ = limit_bytes(statement.sql, max_bytes=max_result_bytes(language))

    def refuse(failure: StatementFailed) -> EndpointError:
        if failure.sqlstate == INVALID_REGULAR_EXPRESSION:
            refuse_invalid_regular_expression(endpoint.parameters, arguments, session)
        error = refusal(failure, session)
        explanation = explain(failure.sqlstate) if failure.sqlstate in TOO_COSTLY else None
        if explanation is None:
            return error
        message, hint = explanation.message, explanation.hint
        return QueryTooCostly(f"{message} {hint}", details=[{"reason": message, "hint": hint}])

    return PreparedQuery(
        language=language,
        statement=Statement(limited, statement.arguments),
        argument_names=argument_names,
        session=session,
        max_rows=endpoint.max_rows,
        refusal=refuse,
        offset=offset,
        lacks_a_table=lacks_a_table,
    )


def reason_of(error: EndpointError) -> str:
    """Return what PostgreSQL said of a stored query that failed, for operators; "" for other errors."""
    cause = error.__cause__
    if isinstance(error, StoredQueryFailed) and isinstance(cause, StatementFailed):
        return cause.message_without_values
    return ""


def offset_in_statement(position: int) -> int:
    """Return the 0-based offset in a consumer's statement for a position from PostgreSQL (1-based)."""
    _, moved = limit_bytes("", max_bytes=settings.ENDPOINTS_SANDBOX_MAX_BYTES)
    return position - 1 - moved


def max_result_bytes(language: str) -> int:
    """Return the budget of an encoded result: of a sandbox query in `sql` or `lql`, or of the stored one ("")."""
    limit: int = settings.ENDPOINTS_SANDBOX_MAX_BYTES if language else settings.ENDPOINTS_MAX_RESULT_BYTES
    return limit


def is_of_budget(failure: StatementFailed) -> bool:
    """Tell whether a statement failed because its result is over the byte budget."""
    return is_over_budget(failure.sqlstate, failure.primary_message)


def over_budget(language: str) -> EndpointError:
    """Return the error for a result over its budget."""
    error = _OVER_BUDGET[language]
    hint = "Select fewer columns or rows." if language else "Ask for fewer rows, such as those of a shorter time."
    reason = f"The result is larger than {max_result_bytes(language) / _MEBIBYTE:g} MiB."
    return error(f"{reason} {hint}", details=[{"hint": hint}])
