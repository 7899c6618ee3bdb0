"""Corrections of django-unfold's templates: each still finds its place, and every page has what they are for."""

from __future__ import annotations

from pathlib import Path

import pytest
import unfold
from django.template.loader import get_template, render_to_string
from django.test import Client
from django.urls import reverse

from endpoints.admin.template_loader import CORRECTIONS, corrected

UNFOLD = Path(unfold.__file__).parent / "templates"


@pytest.mark.parametrize("name", CORRECTIONS)
def test_unfold_still_has_what_is_corrected(name: str) -> None:
    text = (UNFOLD / name).read_text()
    for found, _ in CORRECTIONS[name]:
        assert text.count(found) == 1, found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '<span class="mr-2 material-symbols-outlined">add</span>',
            '<span aria-hidden="true" class="mr-2 material-symbols-outlined">add</span>',
        ),
        (
            '<div class="material-symbols-outlined" title="x">add</div>',
            '<div aria-hidden="true" class="material-symbols-outlined" title="x">add</div>',
        ),
        ('<span class="word">add</span>', '<span class="word">add</span>'),
    ],
)
def test_icons_are_hidden_from_screen_readers(text: str, expected: str) -> None:
    assert corrected("any.html", text) == expected


@pytest.mark.parametrize(
    "text",
    [
        '<span class="material-symbols-outlined" aria-hidden="true">add</span>',
        '<span class="material-symbols-outlined" aria-label="Add">add</span>',
        '<span class="material-symbols-outlined" x-on:click="open = true">add</span>',
        '<span class="material-symbols-outlined"\n x-on:click="open = true">add</span>',
    ],
)
def test_icons_with_a_meaning_of_their_own_stay(text: str) -> None:
    assert corrected("any.html", text) == text


def test_our_templates_come_before_those_of_other_applications() -> None:
    for name in ("403.html", "admin/base_site.html"):
        assert Path(str(get_template(name).origin.name)).is_relative_to(  # type: ignore[attr-defined]
            Path(__file__).parents[3] / "endpoints"
        )


@pytest.mark.parametrize(("value", "word"), [(True, "Yes"), (False, "No")])
def test_no_is_not_shown_as_an_error(value: bool, word: str) -> None:
    shown = render_to_string("unfold/helpers/boolean.html", {"value": value})
    assert f'title="{word}"' in shown
    assert "red" not in shown


@pytest.mark.django_db
def test_a_page_has_one_main_landmark_and_a_link_to_it(admin_client: Client) -> None:
    for address in (reverse("admin:index"), reverse("admin:logsources_logsource_add")):
        page = admin_client.get(address).content.decode()
        assert page.count('role="main"') + page.count("<main") == 1
        assert 'href="#content"' in page
        assert page.count('id="content"') == 1


@pytest.mark.django_db
def test_the_login_page_has_a_main_landmark(client: Client) -> None:
    assert client.get(reverse("admin:login")).content.decode().count('role="main"') == 1
