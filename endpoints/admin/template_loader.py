"""Loads templates: ours before those of other applications, and those of django-unfold with small corrections.

unfold leaves no other way: blocks cannot change an attribute in the middle of a layout, and a copy of each of its
templates would miss its updates. A correction replaces one piece of text; a test fails if a release of unfold no longer
has that piece. Templates are cached, so no page waits for this.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from django.template import Origin
from django.template.loaders.app_directories import Loader as AppDirectoriesLoader

_OWN: Final = Path(__file__).parents[1] / "templates"
_PRESSED_BY_KEYS: Final = (
    'role="button" tabindex="0" x-on:keydown.enter.prevent="$el.click()" x-on:keydown.space.prevent="$el.click()"'
)


def _as_button(click: str, attributes: str) -> tuple[str, str]:
    """Make a button of an element that only obeys clicks: Tab reaches it, Enter and Space press it."""
    return f' x-on:click="{click}', f' {_PRESSED_BY_KEYS} {attributes} x-on:click="{click}'


# Template -> pieces of its text and what stands there instead
CORRECTIONS: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    # The landmark of what the page is about, where the skip link leads.
    "admin/base.html": (('<div id="content"', '<div id="content" role="main" tabindex="-1"'),),
    "unfold/layouts/unauthenticated.html": (
        ('<div class="w-full sm:w-96"', '<div class="w-full sm:w-96" role="main"'),
    ),
    # Names of rows stay as they are written; only kinds of things begin with a capital. An application with the name of
    # its only kind, such as log sources, is left out.
    "unfold/helpers/header_title.html": (
        (
            "{% for part in parts %}",
            "{% for part in parts %}{% if not forloop.first or part.title|capfirst != parts.1.title|capfirst %}",
        ),
        (
            "{{ part.title|capfirst }}",
            "{% if part.title.pk or not part.link %}{{ part.title }}{% else %}{{ part.title|capfirst }}{% endif %}",
        ),
        ("    {% endfor %}", "    {% endif %}{% endfor %}"),
    ),
    # Red is for errors, not for "no".
    "unfold/helpers/boolean.html": (
        (
            "bg-red-100 text-red-700 dark:bg-red-500/20 dark:text-red-400",
            "bg-base-100 text-base-700 dark:bg-base-500/20 dark:text-base-200",
        ),
        ('{% trans "True" %}', '{% trans "Yes" %}'),
        ('{% trans "False" %}', '{% trans "No" %}'),
        ("<div class=", '<div role="img" class='),
    ),
    "admin/search_form.html": ((' id="searchbar-submit"', ' id="searchbar-submit" aria-label="Search"'),),
    "unfold/helpers/delete_submit_line.html": (('{% trans "No, take me back" %}', '{% trans "Cancel" %}'),),
    "unfold/helpers/empty_results.html": (
        (
            '{% trans "No results found" %}',
            "No {{ cl.opts.verbose_name_plural }}"
            " {% if cl.query or cl.has_active_filters %}match{% else %}yet{% endif %}",
        ),
        ('{% trans "This page yielded into no results. Create a new item or reset your filters." %}', ""),
    ),
    # Beside the name of the service, which is the same link.
    "unfold/helpers/site_icon.html": (
        ('class="bg-primary-600 flex', 'aria-hidden="true" tabindex="-1" class="bg-primary-600 flex'),
    ),
    "unfold/helpers/tab_actions.html": (
        ("extra_attrs=\"x-on:click='showActions", "extra_attrs=\"aria-label='Actions' x-on:click='showActions"),
    ),
    # Buttons of the layout that are spans with an icon.
    "unfold/helpers/welcomemsg.html": (
        _as_button("sidebarDesktopOpen", 'aria-label="Show or hide the menu"'),
        _as_button("sidebarMobileOpen", 'aria-label="Show the menu"'),
    ),
    "unfold/helpers/navigation_header.html": (_as_button("sidebarMobileOpen", 'aria-label="Hide the menu"'),),
    "unfold/helpers/navigation_user.html": (
        _as_button("openUserLinks = !openUserLinks", 'x-bind:aria-expanded="openUserLinks"'),
    ),
    "unfold/widgets/password_toggle.html": (_as_button("showPassword", 'aria-label="Show or hide what you type"'),),
}

# The names of the icons are their text, which screen readers would read out: "chevron_right". What is clicked has a
# label of its own.
_ICON: Final = re.compile(
    r"<(?=(?:span|div)\b[^>]*\bmaterial-symbols-outlined\b)(?![^>]*(?:aria-hidden|aria-label|x-on:click))(span|div)"
)


class Loader(AppDirectoriesLoader):
    """Reads templates from the folders of all applications, ours first."""

    def get_dirs(self) -> list[str | Path]:
        return [_OWN, *super().get_dirs()]

    def get_contents(self, origin: Origin) -> str:
        return corrected(str(origin.template_name), super().get_contents(origin))


def corrected(name: str, text: str) -> str:
    """Return the text of a template with its corrections; icons in any template are hidden from screen readers."""
    for found, instead in CORRECTIONS.get(name, ()):
        text = text.replace(found, instead)
    return _ICON.sub(r'<\1 aria-hidden="true"', text)
