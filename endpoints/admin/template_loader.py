"""Loads templates: ours before those of other applications, and those of django-unfold with small corrections.

unfold leaves no other way: blocks cannot change an attribute in the middle of a layout, and a copy of each of its
templates would miss its updates. A correction replaces one piece of text; `tests/endpoints/admin/test_template_loader.py`
fails if a release of unfold no longer has that piece. Templates are cached, so no page waits for this.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from django.template import Origin
from django.template.loaders.app_directories import Loader as AppDirectoriesLoader

_OWN: Final = Path(__file__).parents[1] / "templates"
# Of an element that is a button by its click alone: reached by Tab, pressed by Enter and Space.
_BUTTON: Final = (
    'role="button" tabindex="0" x-on:keydown.enter.prevent="$el.click()" x-on:keydown.space.prevent="$el.click()"'
)

# Template -> pieces of its text and what stands there instead
CORRECTIONS: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    # The landmark of what the page is about, where the skip link leads.
    "admin/base.html": (('<div id="content" class="', '<div id="content" role="main" tabindex="-1" class="'),),
    "unfold/layouts/unauthenticated.html": (('<div class="w-full sm:w-96">', '<div class="w-full sm:w-96" role="main">'),),
    # Names of rows stay as they are written; only kinds of things begin with a capital.
    "unfold/helpers/header_title.html": (
        (
            "{{ part.title|capfirst }}",
            "{% if part.title.pk or not part.link %}{{ part.title }}{% else %}{{ part.title|capfirst }}{% endif %}",
        ),
    ),
    # Red is for errors, not for "no".
    "unfold/helpers/boolean.html": (
        ("bg-red-100 text-red-700 dark:bg-red-500/20 dark:text-red-400", "bg-base-100 text-base-700 dark:bg-base-500/20 dark:text-base-200"),
        ('{% trans "True" %}', '{% trans "Yes" %}'),
        ('{% trans "False" %}', '{% trans "No" %}'),
        ("<div class=", '<div role="img" class='),
    ),
    # Buttons of the layout that are spans with an icon.
    "unfold/helpers/welcomemsg.html": (
        (' x-on:click="sidebarDesktopOpen', f' {_BUTTON} aria-label="Show or hide the menu" x-on:click="sidebarDesktopOpen'),
        (' x-on:click="sidebarMobileOpen', f' {_BUTTON} aria-label="Show the menu" x-on:click="sidebarMobileOpen'),
    ),
    "unfold/helpers/navigation_header.html": (
        (' x-on:click="sidebarMobileOpen', f' {_BUTTON} aria-label="Hide the menu" x-on:click="sidebarMobileOpen'),
    ),
    "unfold/helpers/navigation_user.html": (
        (' x-on:click="openUserLinks = !openUserLinks"', f' {_BUTTON} x-bind:aria-expanded="openUserLinks" x-on:click="openUserLinks = !openUserLinks"'),
    ),
    "unfold/widgets/password_toggle.html": ((' x-on:click="showPassword', f' {_BUTTON} aria-label="Show the password" x-on:click="showPassword'),),
}  # fmt: skip

# The names of the icons are their text, which screen readers would read out: "chevron_right". What is clicked has a
# label of its own.
_ICON: Final = re.compile(
    r"<(?=(?:span|div)\b[^>]*\bmaterial-symbols-outlined\b)(?![^>]*(?:aria-hidden|aria-label|x-on:click))(span|div)"
)


class Loader(AppDirectoriesLoader):
    """Reads templates from the folders of all applications, ours first."""

    def get_dirs(self) -> tuple[Path | str, ...]:
        return (_OWN, *super().get_dirs())

    def get_contents(self, origin: Origin) -> str:
        return corrected(str(origin.template_name), super().get_contents(origin))


def corrected(name: str, text: str) -> str:
    """Return the text of a template with its corrections; icons in any template are hidden from screen readers."""
    for found, instead in CORRECTIONS.get(name, ()):
        text = text.replace(found, instead)
    return _ICON.sub(r'<\1 aria-hidden="true"', text)
