"""Page tokens open for the call that they were sealed for, and show nothing of what they contain."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from endpoints.cache import QueryRequest
from endpoints.calling.page_tokens import PlaceInPages, open_token, seal_place
from endpoints.definition import Version
from endpoints.errors import InvalidPageToken
from endpoints.results.outcomes import Page, ResultFormat

ENDPOINT = Version(name="test.pages", sql="SELECT 1", pk=UUID(int=7), version=3)
REQUEST = QueryRequest({"project": "acme", "since": None}, "", "", redact=False, format=ResultFormat.JSON)
PLACE = PlaceInPages(100, ("2025-06-02 08:15:02.12045+00", "jane@example.com"), 4711)


def decoded(token: str) -> bytes:
    return urlsafe_b64decode(token + "=" * (-len(token) % 4))


def test_a_token_opens_for_its_call() -> None:
    assert open_token(seal_place(PLACE, ENDPOINT, REQUEST), ENDPOINT, REQUEST) == PLACE


@pytest.mark.parametrize("values", [(None, "x"), ("", None), ("ü\u2028\"'\\ ", " padded "), ("x" * 5000, "y")])
def test_every_value_survives_to_the_letter(values: tuple[str | None, ...]) -> None:
    place = PlaceInPages(1, values)
    assert open_token(seal_place(place, ENDPOINT, REQUEST), ENDPOINT, REQUEST).after == values


def test_which_page_was_asked_for_makes_no_difference() -> None:
    token = seal_place(PLACE, ENDPOINT, replace(REQUEST, page=Page(5, "earlier")))
    assert open_token(token, ENDPOINT, replace(REQUEST, page=Page(10, token))) == PLACE


def test_the_same_place_has_the_same_token() -> None:
    assert seal_place(PLACE, ENDPOINT, REQUEST) == seal_place(PLACE, ENDPOINT, REQUEST)
    assert seal_place(PLACE, ENDPOINT, REQUEST) != seal_place(replace(PLACE, size=99), ENDPOINT, REQUEST)


FOREIGN: list[tuple[Version, QueryRequest]] = [
    (replace(ENDPOINT, pk=UUID(int=8)), REQUEST),
    (replace(ENDPOINT, version=4), REQUEST),
    (ENDPOINT, replace(REQUEST, arguments={"project": "globex", "since": None})),
    (ENDPOINT, replace(REQUEST, arguments={"project": "acme", "since": ""})),
    (ENDPOINT, replace(REQUEST, arguments={"project": "acme"})),
    (ENDPOINT, replace(REQUEST, redact=True)),
    (ENDPOINT, replace(REQUEST, format=ResultFormat.CSV)),
    (ENDPOINT, replace(REQUEST, sandbox_language="sql", sandbox_text="select 1")),
]


@pytest.mark.parametrize(("endpoint", "request_"), FOREIGN)
def test_a_token_opens_for_no_other_call(endpoint: Version, request_: QueryRequest) -> None:
    with pytest.raises(InvalidPageToken):
        open_token(seal_place(PLACE, ENDPOINT, REQUEST), endpoint, request_)


@pytest.mark.parametrize("token", ["", "x", "====", "not a token", "ünïcode", "A" * 30_000, "\x00", "a.b.c"])
def test_what_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(InvalidPageToken):
        open_token(token, ENDPOINT, REQUEST)


def test_a_token_has_one_spelling() -> None:
    token = seal_place(PLACE, ENDPOINT, REQUEST)
    for other in (f"{token}=", f"{token}==", f" {token}", f"{token[:9]}!{token[9:]}", f"{token}\n"):
        with pytest.raises(InvalidPageToken):
            open_token(other, ENDPOINT, REQUEST)


def test_no_changed_bit_is_accepted() -> None:
    sealed = decoded(seal_place(PLACE, ENDPOINT, REQUEST))
    for index in range(len(sealed)):
        changed = bytearray(sealed)
        changed[index] ^= 1
        with pytest.raises(InvalidPageToken):
            open_token(urlsafe_b64encode(bytes(changed)).decode(), ENDPOINT, REQUEST)


def test_the_values_cannot_be_read_and_their_length_hardly_guessed() -> None:
    token = seal_place(PLACE, ENDPOINT, REQUEST)
    assert b"jane" not in decoded(token)
    one_letter_less = replace(PLACE, after=("2025-06-02 08:15:02.12045+00", "jan@example.com"))
    assert len(seal_place(one_letter_less, ENDPOINT, REQUEST)) == len(token)


def test_tokens_of_the_secret_before_stay_good(settings: Any) -> None:
    token = seal_place(PLACE, ENDPOINT, REQUEST)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "another secret " * 4, [settings.SECRET_KEY]
    assert open_token(token, ENDPOINT, REQUEST) == PLACE
    settings.SECRET_KEY_FALLBACKS = []
    with pytest.raises(InvalidPageToken):
        open_token(token, ENDPOINT, REQUEST)
