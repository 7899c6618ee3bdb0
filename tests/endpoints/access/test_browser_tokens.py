"""Browser tokens: every forged one is refused alike, and none ever allows more than its issuer."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.core.signing import Signer, TimestampSigner, dumps
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import example, given
from hypothesis import strategies as st

from endpoints.access import browser_tokens
from endpoints.access.access_tokens import issue_access_token, revoke_access_tokens
from endpoints.access.browser_tokens import (
    MAX_CHARACTERS,
    Claims,
    authenticate_browser_token,
    caller_of,
    is_allowed_origin,
    is_browser_token,
    sign,
)
from endpoints.access.change_marker import CHANGING_KEY, changing
from endpoints.access.known_records import KnownToken
from endpoints.access.secrets import Caller, OwnLimits
from endpoints.cache.connection import ask_for
from endpoints.errors import NotAuthenticated
from endpoints.models import AccessToken, Endpoint

NOON = datetime(2026, 6, 2, 12, tzinfo=UTC)
ENDPOINT = str(uuid4())
APP = "https://app.example.org"


@pytest.fixture
def issuer(db: None) -> AccessToken:
    limits = OwnLimits(calls_a_minute=7, calls_at_once=3)
    return issue_access_token(
        name="shop backend",
        may_issue=True,
        may_purge=True,
        may_load=True,
        default_project="shop",
        allowed_origins=[APP],
        limits=limits,
    ).access_token


@pytest.fixture
def claims(issuer: AccessToken) -> Claims:
    return Claims(issuer.prefix, frozenset([ENDPOINT]), {"project": "acme"}, int(NOON.timestamp()) + 3600)


def remembered(token: str) -> Caller:
    """Return its caller, whose issuer the process then knows.

    The changes before it are over, as after the commit that a test never makes; otherwise nothing would be remembered.
    """
    ask_for("DEL", CHANGING_KEY)
    caller = authenticate_browser_token(token, now=NOON)
    with CaptureQueriesContext(connection) as queries:
        assert authenticate_browser_token(token, now=NOON) == caller
    assert len(queries) == 0
    return caller


def refuses(token: str, *, now: datetime = NOON) -> bool:
    with pytest.raises(NotAuthenticated):
        authenticate_browser_token(token, now=now)
    return True


def test_a_token_stands_for_part_of_its_issuer(issuer: AccessToken, claims: Claims) -> None:
    token = sign(claims)
    assert is_browser_token(token)
    caller = authenticate_browser_token(token, now=NOON)
    assert (caller.name, caller.prefix) == ("shop backend / browser", issuer.prefix)
    assert (caller.endpoint_ids, caller.bound_arguments) == ({ENDPOINT}, {"project": "acme"})
    assert caller.limits == OwnLimits(calls_a_minute=7, calls_at_once=3)
    assert caller.is_browser
    assert (caller.may_purge, caller.may_load, caller.may_issue) == (False, False, False)
    assert caller.load_sources == frozenset()
    assert caller.default_project == ""


def test_a_use_counts_as_one_of_the_issuer(issuer: AccessToken, claims: Claims) -> None:
    authenticate_browser_token(sign(claims), now=NOON)
    issuer.refresh_from_db()
    assert issuer.last_used_at == NOON


def test_it_ends_when_it_says(claims: Claims) -> None:
    token = sign(claims)
    for seconds in (0, 3599, 3599.9):
        assert authenticate_browser_token(token, now=NOON + timedelta(seconds=seconds))
    for seconds in (3600, 3600.1, 86_400, 10**8):
        assert refuses(token, now=NOON + timedelta(seconds=seconds))


# --- Forged -----------------------------------------------------------------------------------------------------------
def test_every_altered_character_is_refused(claims: Claims) -> None:
    token = sign(claims)
    assert authenticate_browser_token(token, now=NOON)
    for place in range(len(token) - 1):  # the last character has bits that mean nothing
        for other in ("A", "B", ".", "-", "é", ""):
            altered = token[:place] + other + token[place + 1 :]
            assert altered == token or refuses(altered)


def test_what_the_service_signs_for_another_purpose_is_no_browser_token(claims: Claims) -> None:
    content = [claims.issuer_prefix, [ENDPOINT], {}, claims.expires_at, "1"]
    purpose = browser_tokens._PURPOSE
    for forged in (
        dumps(content),
        dumps(content, salt=purpose),
        TimestampSigner(sep=".").sign_object(content),
        TimestampSigner(salt=f"{purpose} ", sep=".").sign_object(content),
        Signer(salt=purpose, sep=".").sign_object(content),
        TimestampSigner(key="guessed" * 9, salt=purpose, sep=".").sign_object(content),
    ):
        assert refuses(forged)
    assert authenticate_browser_token(TimestampSigner(salt=purpose, sep=".").sign_object(content), now=NOON)


@pytest.mark.parametrize(
    "token",
    ["", ".", "..", "...", "a.b", "a.b.c", "a.b.c.d", "é.é.é", "a.b.c\n", " a.b.c", "\0.\0.\0", "A" * 5000 + ".A.A"],
)
def test_what_has_not_the_form_is_refused(db: None, token: str) -> None:
    assert refuses(token)


@given(st.text() | st.text(alphabet="aZ09-_=.:é\0\ud800", max_size=60))
@example("\ud800.a.b")
def test_no_text_is_more_than_refused(text: str) -> None:
    assert refuses(text)
    assert not is_allowed_origin(text, APP)


def test_a_token_that_is_too_long_is_refused_however_well_signed(claims: Claims) -> None:
    numbers = " ".join(map(str, range(10_000)))  # which does not become short
    token = sign(replace(claims, arguments={"project": numbers}))
    assert len(token) > MAX_CHARACTERS
    assert refuses(token)


def test_another_secret_key_ends_all_unless_it_is_kept_as_a_fallback(claims: Claims, settings: Any) -> None:
    token, before = sign(claims), settings.SECRET_KEY
    settings.SECRET_KEY = "another secret key, long enough to be one of fifty characters"
    assert refuses(token)
    settings.SECRET_KEY_FALLBACKS = [before]
    assert authenticate_browser_token(token, now=NOON)


def test_origins_are_those_of_the_issuer(claims: Claims) -> None:
    other = issue_access_token(name="other", may_issue=True, allowed_origins=["https://other.example.org"])
    token = sign(claims)
    assert is_allowed_origin(token, APP)
    for origin in ("https://other.example.org", "https://app.example.org.evil.example", "null", "*", ""):
        assert not is_allowed_origin(token, origin)
    of_other = sign(replace(claims, issuer_prefix=other.access_token.prefix))
    assert is_allowed_origin(of_other, "https://other.example.org")
    assert not is_allowed_origin(of_other, APP)


# --- The issuer's life ------------------------------------------------------------------------------------------------
def change(issuer: AccessToken, **fields: Any) -> None:
    with changing():
        for name, value in fields.items():
            setattr(issuer, name, value)
        issuer.save()


@pytest.mark.parametrize(
    "fields",
    [
        {"expires_at": NOON},
        {"may_issue": False},
        {"bound_arguments": {"project": "globex"}},
        {"bound_arguments": {"project": "acme "}},
    ],
    ids=["expired", "may no longer issue", "bound elsewhere", "bound by another text"],
)
def test_what_the_issuer_loses_its_tokens_lose_at_once(
    issuer: AccessToken, claims: Claims, fields: dict[str, Any]
) -> None:
    token = sign(claims)
    assert remembered(token)
    change(issuer, **fields)
    assert refuses(token)
    assert is_allowed_origin(token, APP), "a page can read why it was refused"


def test_a_revoked_or_deleted_issuer_ends_its_tokens(issuer: AccessToken, claims: Claims) -> None:
    token = sign(claims)
    assert remembered(token)
    revoke_access_tokens(AccessToken.objects.filter(pk=issuer.pk))
    assert refuses(token)
    with changing():
        AccessToken.objects.all().delete()
    assert refuses(token)


def test_an_endpoint_taken_from_the_issuer_is_taken_from_its_tokens(claims: Claims, issuer: AccessToken) -> None:
    kept, lost = Endpoint.objects.get(name="logs.all"), Endpoint.objects.get(name="usage.api-counts")
    token = sign(replace(claims, endpoint_ids=frozenset([str(kept.pk), str(lost.pk)])))
    assert remembered(token).endpoint_ids == {str(kept.pk), str(lost.pk)}
    with changing():
        issuer.every_endpoint = False
        issuer.save()
        issuer.endpoints.set([kept])
    assert authenticate_browser_token(token, now=NOON).endpoint_ids == {str(kept.pk)}


def test_a_new_bond_and_new_limits_of_the_issuer_hold_for_its_tokens(issuer: AccessToken, claims: Claims) -> None:
    token = sign(claims)
    assert remembered(token).bound_arguments == {"project": "acme"}
    change(issuer, bound_arguments={"region": "eu"}, calls_a_minute=1)
    caller = authenticate_browser_token(token, now=NOON)
    assert caller.bound_arguments == {"project": "acme", "region": "eu"}
    assert caller.limits.calls_a_minute == 1


# --- Never more than the issuer ---------------------------------------------------------------------------------------
ids = st.frozensets(st.sampled_from(["a", "b", "c", "d"]))
bonds = st.dictionaries(st.sampled_from(["project", "region", "level"]), st.sampled_from(["1", "2"]))


@given(of_token=ids, of_issuer=st.none() | ids, own=bonds, bound=bonds, rights=st.tuples(*[st.booleans()] * 3))
def test_never_more_than_its_issuer_nor_than_its_claims(
    of_token: frozenset[str],
    of_issuer: frozenset[str] | None,
    own: dict[str, str],
    bound: dict[str, str],
    rights: tuple[bool, bool, bool],
) -> None:
    issuer = KnownToken(
        pk=1,
        name="issuer",
        prefix="0" * 12,
        secret_hash="",
        endpoint_ids=of_issuer,
        bound_arguments=bound,
        may_purge=rights[0],
        may_load=rights[1],
        load_sources=frozenset(["edge_logs"]),
        default_project="shop",
        may_issue=rights[2],
        allowed_origins=frozenset([APP]),
        limits=OwnLimits(calls_a_minute=5),
        expires_at=None,
        revoked_at=None,
        last_used_at=None,
    )
    claims = Claims(issuer.prefix, of_token, own, 1)
    differ = any(bound.get(name, value) != value for name, value in own.items())
    if differ:
        with pytest.raises(NotAuthenticated):
            caller_of(claims, issuer)
        return
    caller = caller_of(claims, issuer)
    for endpoint in "abcd":
        by_issuer = of_issuer is None or endpoint in of_issuer
        assert caller.may_call(endpoint) == (by_issuer and endpoint in of_token)
    assert caller.endpoint_ids is not None
    assert bound.items() <= caller.bound_arguments.items()
    assert own.items() <= caller.bound_arguments.items()
    assert (caller.may_purge, caller.may_load, caller.may_issue) == (False, False, False)
    assert (caller.load_sources, caller.default_project) == (frozenset(), "")
    assert (caller.prefix, caller.limits) == (issuer.prefix, issuer.limits)
