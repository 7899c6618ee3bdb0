"""The searches of the log explorer that each person keeps, as the query of the page's address."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlencode

from django.db import transaction

from endpoints.exploring.exploring import InvalidExploration
from endpoints.models import SavedSearch

if TYPE_CHECKING:
    from django.contrib.auth.models import User

MAX_SEARCHES: Final = 200  # of one person
MAX_NAME_CHARACTERS: Final = 100
MAX_QUERY_CHARACTERS: Final = 10_000
# What an address of the page can say; anything else is left out.
_NAMES: Final = frozenset(("source", "project", "lql", "range", "start", "end", "redact", "sort"))


def saved_searches(owner: User) -> list[SavedSearch]:
    """Return this person's searches, by name."""
    return list(SavedSearch.objects.filter(owner=owner))


def save_search(owner: User, *, name: str, query: str) -> SavedSearch:
    """Save the query of an address, with or without its question mark, in place of this person's search of that name.

    Raises InvalidExploration.
    """
    name = name.strip()
    if not 1 <= len(name) <= MAX_NAME_CHARACTERS or not name.isprintable():
        raise InvalidExploration("name", f"Name the search with 1 to {MAX_NAME_CHARACTERS} characters.")
    kept = _kept(query)
    with transaction.atomic():
        owned = SavedSearch.objects.filter(owner=owner)
        if owned.exclude(name=name).count() >= MAX_SEARCHES:
            raise InvalidExploration("name", f"You have {MAX_SEARCHES} saved searches: delete one first.")
        search, _ = SavedSearch.objects.update_or_create(owner=owner, name=name, defaults={"query": kept})
    return search


def delete_search(owner: User, identifier: int) -> bool:
    """Delete this person's search and return whether there was one; another person's is as if it did not exist."""
    deleted, _ = SavedSearch.objects.filter(owner=owner, pk=identifier).delete()
    return deleted > 0


def _kept(query: str) -> str:
    if len(query) > MAX_QUERY_CHARACTERS or "\0" in query:
        raise InvalidExploration("query", f"A search is saved with at most {MAX_QUERY_CHARACTERS:,} characters.")
    pairs = parse_qsl(query.removeprefix("?"), keep_blank_values=True)
    kept = {name: value for name, value in pairs if name in _NAMES and "\0" not in value}
    if not kept.get("source"):
        raise InvalidExploration("query", "This is not the address of a search: it names no log source.")
    return urlencode(kept)
