"""The admin's pages: for each address and role the status, and the visible text of the page's main part."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from tests.endpoints.admin.addresses import ROLES, Pattern
from tests.endpoints.admin.test_addresses import Visitor, addresses, person, rows
from tests.recorded.recordings import assert_recorded, visible_text

__all__ = ["rows"]
pytestmark = pytest.mark.django_db
MAIN: Final = re.compile(r'<div id="content".*', re.DOTALL)
# Of the pages of a library's own models only the status is recorded.
ONLY_STATUS: Final = re.compile(r"django_celery_beat")
# The key that closes the search, which every page has.
NOT_RECORDED: Final = re.compile(r"^esc$", re.IGNORECASE)
MASKS: Final = {
    "<moment>": re.compile(
        r"\b(?:[A-Z][a-z]{2,8}\.? \d{1,2}, )?20\d\d(?:-\d\d-\d\d)?(?:[T ,]+\d\d?(?::\d\d)+(?:\.\d+)?Z?)?(?: [ap]\.m\.)?"
    ),
    "<day>": re.compile(r"(?<=_p)20\d{6}\b"),
    "<clock>": re.compile(r"\b\d\d:\d\d:\d\d\b"),
    "<size>": re.compile(r"\b\d+(?:\.\d+)? (?:bytes|[KM]B)\b"),
    "<number> partitions": re.compile(r"\b\d+ partitions"),
    "in <time>": re.compile(r"\bin \d+ (?:second|minute|hour)s?\b|^now$"),
    "/<id>/": re.compile(r"/\d+/"),
    "<uuid>": re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"),
    "<token id>": re.compile(r"\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{12}\b"),
}


def texts_of(answer: Any) -> list[str]:
    """Return what a page shows, without navigation and header; where it leads instead, if it does."""
    if answer.status_code in (301, 302):
        return [f"to {masked(answer['Location'])}"]
    kind = answer["Content-Type"].partition(";")[0]
    if kind != "text/html":
        return [kind]
    page = answer.content.decode()
    main = MAIN.search(page)
    texts = visible_text(main[0] if main else page)
    # Each text once: how many partitions there are depends on the day.
    return list(dict.fromkeys(masked(text) for text in texts if not NOT_RECORDED.search(text)))


def masked(text: str) -> str:
    for name, pattern in MASKS.items():
        text = pattern.sub(name, text)
    return text


def described(pattern: Pattern, answers: Mapping[str, Any]) -> Iterator[str]:
    """Yield the status of each role, and all texts of the first with a status; of the next ones what is different."""
    told: dict[int, list[str]] = {}
    for role, answer in answers.items():
        texts = [] if ONLY_STATUS.search(pattern.key) else texts_of(answer)
        yield f"{pattern.key}, {role}: {answer.status_code}"
        if answer.status_code in told:
            before = told[answer.status_code]
            yield from (f"  - {text}" for text in before if text not in texts)
            yield from (f"  + {text}" for text in texts if text not in before)
        else:
            told[answer.status_code] = texts
            yield from (f"    {text}" for text in texts)


@pytest.mark.usefixtures("log_database")
def test_pages_show_the_recorded_texts(rows: Mapping[str, tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    # Worker and beat are away, however long ago this process began.
    monkeypatch.setattr("endpoints.calling.installation.STARTING_SECONDS", 0)
    visitors = {role: Visitor(person(role)) for role in reversed(ROLES)}
    lines: list[str] = []
    for pattern, address in sorted(addresses(rows)):
        lines += described(pattern, {role: visitor.ask("get", address) for role, visitor in visitors.items()})
    assert_recorded("pages.txt", lines)
