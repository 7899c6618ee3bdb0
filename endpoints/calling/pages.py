"""Pages of a stored query: what `page_size` and `page_token` ask for, the query of one page, and the token of the next.

A page begins after the last row of the page before, not after a number of rows. So rows that are stored meanwhile move
nothing: no row comes twice, and none that was there at the first page is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

import structlog

from endpoints.cache import QueryRequest
from endpoints.calling.page_tokens import PlaceInPages, open_token, seal_place
from endpoints.calling.prepared_queries import PreparedQuery, prepare_stored_query
from endpoints.definition import Version
from endpoints.errors import InvalidRequest, PagesNotAvailable, StoredQueryFailed
from endpoints.log_database.round_trips import first_rows, texts_of_row
from endpoints.log_database.servers import log_servers
from endpoints.results.outcomes import Page, Rows
from endpoints.results.positions import NO_POSITION
from endpoints.sql.coercion import is_absent
from endpoints.sql.page_orders import parse_page_order
from endpoints.sql.page_queries import compile_page
from endpoints.sql.parameters import DeclaredParameter, ParameterType, RawValue, coerce_arguments

PAGE_SIZE: Final = "page_size"
PAGE_TOKEN: Final = "page_token"  # noqa: S105  # the name of an argument
PAGE_ARGUMENTS: Final = frozenset({PAGE_SIZE, PAGE_TOKEN})

_SIZE_DESCRIPTION: Final = "Asks for a page of this many rows, which never streams; a page token remembers it."
_TOKEN_DESCRIPTION: Final = "The `next` of the page before, sent with the same arguments and headers."  # noqa: S105

logger = structlog.get_logger(__name__)


def with_page(
    endpoint: Version, request: QueryRequest, sent: Mapping[str, RawValue], repeated: Collection[str]
) -> QueryRequest:
    """Return the request for the page that a call has asked for, the request itself if it asks for none.

    Raises PagesNotAvailable, InvalidRequest, InvalidParameters and InvalidPageToken.
    """
    # An endpoint without pages may have parameters of these names; one with pages cannot be saved with them.
    names = PAGE_ARGUMENTS - {parameter.name for parameter in endpoint.parameters}
    if all(is_absent(sent.get(name)) for name in names):
        return request
    if not endpoint.page_order:
        raise PagesNotAvailable
    if request.sandbox_language:
        raise PagesNotAvailable(
            "Only the stored query has pages: leave out `page_size` and `page_token`, and write the order and a LIMIT "
            f"into your own `{request.sandbox_language}`."
        )
    if repeated_names := names & set(repeated):
        raise InvalidRequest(details=[{"name": name, "reason": "is sent more than once"} for name in repeated_names])
    values = coerce_arguments(page_parameters(endpoint.max_rows), {name: sent.get(name) for name in names})
    size, token = values[PAGE_SIZE], values[PAGE_TOKEN]
    if not isinstance(token, str):
        return replace(request, page=Page(int(str(size))))
    place = open_token(token, endpoint, request)
    return replace(request, page=Page(place.size if size is None else int(str(size)), token))


def page_parameters(max_rows: int) -> tuple[DeclaredParameter, ...]:
    """Return what an endpoint with an order of pages takes besides its own parameters."""
    size = DeclaredParameter(
        PAGE_SIZE, ParameterType.INTEGER, minimum="1", maximum=str(max_rows), description=_SIZE_DESCRIPTION
    )
    return size, DeclaredParameter(PAGE_TOKEN, description=_TOKEN_DESCRIPTION)


def place_of(endpoint: Version, request: QueryRequest) -> PlaceInPages:
    """Return where the requested page begins. Raises InvalidPageToken, and ValueError if no page is requested."""
    page = request.page
    if page is None:
        raise ValueError("the request is for a whole result")
    if not page.token:
        return PlaceInPages(page.size)
    return replace(open_token(page.token, endpoint, request), size=page.size)


def prepare_page(endpoint: Version, request: QueryRequest, place: PlaceInPages) -> PreparedQuery:
    """Return the query of a page. It gives a row more than the page has, and each row with its values as text."""
    query = compile_page(endpoint.sql, endpoint.parameters, parse_page_order(endpoint.page_order), place.after)
    return replace(
        prepare_stored_query(endpoint, request.arguments),
        statement=query.statement(request.arguments, place.after, limit=place.size + 1),
        max_rows=place.size + 1,
        offset=lambda failure: None,
    )


def awaited_by_page(place: PlaceInPages, awaited: int | None) -> int | None:
    """Return the position that a page awaits, None if nobody needs to know it.

    With standbys it is at least that of the page before: one that is behind lacks rows which were there then.
    """
    if log_servers().uses_standbys:
        return max(place.position, awaited or NO_POSITION)
    return awaited


def finished_page(endpoint: Version, request: QueryRequest, place: PlaceInPages, rows: Rows) -> Rows:
    """Return the rows of a page without what the service added, and with the token of the next page.

    Raises StoredQueryFailed if the page ends between two rows that its order does not tell apart: the next one would
    begin after both.
    """
    keys = parse_page_order(endpoint.page_order)
    page = replace(rows, columns=rows.columns[: -len(keys)], rows=first_rows(rows.rows, place.size), next_page="")
    if len(rows.rows) <= place.size:
        return page
    added = range(len(rows.columns) - len(keys), len(rows.columns))
    last, following = (texts_of_row(rows.rows, index, added) for index in (place.size - 1, place.size))
    if last == following:
        logger.error("page_order_not_unique", page_order=endpoint.page_order)
        raise StoredQueryFailed
    position = rows.position if log_servers().uses_standbys else NO_POSITION
    return replace(page, next_page=seal_place(PlaceInPages(place.size, last, position), endpoint, request))
