"""Saved searches: each person has their own, bounded in number and size, and only what an address can say."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from endpoints.exploring import saved_searches as module
from endpoints.exploring.exploring import InvalidExploration
from endpoints.exploring.saved_searches import delete_search, save_search, saved_searches

pytestmark = pytest.mark.django_db
QUERY = "?source=edge_logs&range=7d&lql=m.level%3Aerror+%22a+b%22"


@pytest.fixture
def robin() -> User:
    return User.objects.create_user("robin", is_staff=True)


@pytest.fixture
def kim() -> User:
    return User.objects.create_user("kim", is_staff=True)


def names(owner: User) -> list[str]:
    return [one.name for one in saved_searches(owner)]


def test_a_search_is_kept_and_replaced_by_name(robin: User) -> None:
    save_search(robin, name=" errors ", query=QUERY)
    (search,) = saved_searches(robin)
    assert (search.name, search.query) == ("errors", "source=edge_logs&range=7d&lql=m.level%3Aerror+%22a+b%22")
    save_search(robin, name="errors", query="source=auth_logs")
    save_search(robin, name="all", query="source=auth_logs")
    assert [(one.name, one.query) for one in saved_searches(robin)] == [
        ("all", "source=auth_logs"),
        ("errors", "source=auth_logs"),
    ]


def test_nobody_sees_replaces_or_deletes_anothers(robin: User, kim: User) -> None:
    search = save_search(robin, name="errors", query=QUERY)
    assert names(kim) == []
    save_search(kim, name="errors", query="source=auth_logs")
    assert not delete_search(kim, search.pk)
    assert [one.query for one in saved_searches(robin)] == [search.query]
    assert delete_search(robin, search.pk)
    assert not delete_search(robin, search.pk)
    assert (names(robin), names(kim)) == ([], ["errors"])


def test_searches_go_with_their_owner(robin: User, kim: User) -> None:
    save_search(robin, name="errors", query=QUERY)
    robin.delete()
    assert module.SavedSearch.objects.count() == 0


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("source=a&next=https://example.com&_popup=1", "source=a"),
        ("source=a&lql=%3Cscript%3E", "source=a&lql=%3Cscript%3E"),
        ("source=a&source=b", "source=b"),
        ("source=a&lql=x%00y", "source=a"),
    ],
)
def test_only_what_an_address_of_the_page_says_is_kept(robin: User, query: str, kept: str) -> None:
    assert save_search(robin, name="one", query=query).query == kept


@pytest.mark.parametrize(
    ("name", "query", "field"),
    [
        ("", QUERY, "name"),
        ("  ", QUERY, "name"),
        ("a" * 101, QUERY, "name"),
        ("a\nb", QUERY, "name"),
        ("a\0b", QUERY, "name"),
        ("one", "", "query"),
        ("one", "lql=m.level:error", "query"),
        ("one", "javascript:alert(1)", "query"),
        ("one", "source=a&lql=" + "a" * 10_000, "query"),
    ],
)
def test_what_is_no_search_is_refused(robin: User, name: str, query: str, field: str) -> None:
    with pytest.raises(InvalidExploration) as refused:
        save_search(robin, name=name, query=query)
    assert refused.value.field == field
    assert names(robin) == []


def test_a_person_has_so_many_and_may_still_replace_one(robin: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SEARCHES", 2)
    save_search(robin, name="a", query=QUERY)
    save_search(robin, name="b", query=QUERY)
    save_search(robin, name="b", query=QUERY)
    with pytest.raises(InvalidExploration, match="delete one first"):
        save_search(robin, name="c", query=QUERY)
