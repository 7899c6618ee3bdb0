"""What docs/operators.md tells a new operator to do, done: from the login form to rows in a terminal."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenPage
from tests.browser.operators_path import DOCUMENT, TYPED, Operator, in_a_terminal, names_in, section, sql_in
from tests.browser.site import PASSWORD


def test_the_documented_path_ends_with_rows(open_page: OpenPage) -> None:
    operator = Operator(open_page("/admin/", role=None))
    operator.log_in("owner", PASSWORD)
    operator.write(sql_in(section()))
    operator.try_it()
    operator.draw()
    operator.protect()
    operator.save()
    operator.issue()
    secret = operator.copy("Copy the secret")
    call = operator.copy("Copy the call")
    rows = json.loads(in_a_terminal(secret, call))["result"]
    assert rows
    assert all(row.keys() == {"hour", "errors"} for row in rows)
    # The names are those of the page, in its order.
    assert operator.named == names_in(section())

    operator.page.get_by_role("link", name="I have copied it").click()
    expect(operator.page.get_by_role("link", name="my laptop")).to_be_visible()


@pytest.mark.parametrize("typed", TYPED)
def test_the_page_says_what_to_type(typed: str) -> None:
    assert f"`{typed}`" in section()


def test_every_picture_is_on_the_page() -> None:
    """Where one is missing: `python -m tests.browser.operators_pictures` makes them anew."""
    text = DOCUMENT.read_text(encoding="utf-8")
    pictures = sorted(path.name for path in (DOCUMENT.parent / "pictures").glob("*.png"))
    assert pictures
    assert [name for name in pictures if f"](pictures/{name})" not in text] == []
