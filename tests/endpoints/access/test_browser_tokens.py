"""Browser tokens: every forged one is refused alike, and none ever allows more than its issuer."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from endpoints.access import browser_tokens, signing_keys
from endpoints.access.access_tokens import issue_access_token, revoke_access_tokens
from endpoints.access.browser_tokens import (
    AUDIENCE,
    ISSUED_BY,
    LONGEST_SECONDS,
    MAX_CHARACTERS,
    Claims,
    authenticate_browser_token,
    caller_of,
    is_allowed_origin,
)
from endpoints.access.change_marker import CHANGING_KEY, changing
from endpoints.access.known_records import KnownToken
from endpoints.access.secrets import Caller, OwnLimits
from endpoints.access.signing_keys import create_signing_key, revoke_signing_keys, rotate_signing_key, sign
from endpoints.cache.connection import ask_for
from endpoints.errors import NotAuthenticated
from endpoints.models import AccessToken, Endpoint, SigningKey

NOON = datetime(2026, 6, 2, 12, tzinfo=UTC)
ENDPOINT = str(uuid4())
APP = "https://app.example.org"


@pytest.fixture
def issuer(db: None) -> AccessToken:
    limits = OwnLimits(calls_a_minute=7, calls_at_once=3)
    return issue_access_token(
        name="shop backend", may_issue=True, may_purge=True, may_load=True, default_project="shop", limits=limits
    ).access_token


@pytest.fixture(params=["HS256", "EdDSA"])
def key(db: None, request: pytest.FixtureRequest) -> SigningKey:
    return create_signing_key(name="app", algorithm=request.param, allowed_origins=[APP])


@pytest.fixture
def claims(issuer: AccessToken) -> dict[str, Any]:
    now = int(NOON.timestamp())
    return Claims(issuer.prefix, frozenset([ENDPOINT]), {"project": "acme"}, now, now + 3600).as_json()


def remembered(token: str) -> Caller:
    """Return its caller, which the process then serves from memory.

    The changes before it are over, as after the commit that a test never makes; otherwise nothing would be remembered.
    """
    ask_for("DEL", CHANGING_KEY)
    caller = authenticate_browser_token(token, now=NOON)
    with CaptureQueriesContext(connection) as queries:
        assert authenticate_browser_token(token, now=NOON) is caller
    assert len(queries) == 0
    return caller


def refuses(token: str, *, now: datetime = NOON) -> bool:
    with pytest.raises(NotAuthenticated):
        authenticate_browser_token(token, now=now)
    return True


def encoded(value: Any) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def by_hand(header: Mapping[str, Any], claims: Mapping[str, Any], secret: bytes | None) -> str:
    """Sign with HMAC whatever the header says, and not at all without a secret."""
    text = f"{encoded(header)}.{encoded(claims)}"
    return f"{text}.{encoded(hmac.digest(secret, text.encode(), hashlib.sha256)) if secret is not None else ''}"


def test_a_token_stands_for_part_of_its_issuer(issuer: AccessToken, key: SigningKey, claims: dict[str, Any]) -> None:
    caller = authenticate_browser_token(sign(key, claims), now=NOON)
    assert (caller.name, caller.prefix) == ("shop backend / browser", issuer.prefix)
    assert (caller.endpoint_ids, caller.bound_arguments) == ({ENDPOINT}, {"project": "acme"})
    assert caller.limits == OwnLimits(calls_a_minute=7, calls_at_once=3)
    assert caller.is_browser
    assert (caller.may_purge, caller.may_load, caller.may_issue) == (False, False, False)
    assert caller.load_sources == frozenset()
    assert caller.default_project == ""


def test_the_caller_is_made_once_and_nothing_is_asked_again(key: SigningKey, claims: dict[str, Any]) -> None:
    assert remembered(sign(key, claims)).is_browser


def test_a_use_counts_as_one_of_the_issuer(issuer: AccessToken, key: SigningKey, claims: dict[str, Any]) -> None:
    authenticate_browser_token(sign(key, claims), now=NOON)
    issuer.refresh_from_db()
    assert issuer.last_used_at == NOON


# --- Forged -----------------------------------------------------------------------------------------------------------
FORGED_CLAIMS: Mapping[str, Mapping[str, Any]] = {
    "another audience": {"aud": "elsewhere"},
    "several audiences": {"aud": [AUDIENCE, "elsewhere"]},
    "another service": {"iss": "elsewhere"},
    "an unknown issuer": {"sub": "0123456789ab"},
    "an issuer that is no text": {"sub": 5},
    "a life of more than a day": {"exp": int(NOON.timestamp()) + LONGEST_SECONDS + 1},
    "a life that ends before it begins": {"exp": int(NOON.timestamp()) - 1},
    "an expiry that is no number": {"exp": "tomorrow"},
    "an expiry that is a fraction": {"exp": NOON.timestamp() + 60.5},
    "an expiry without end": {"exp": float("inf")},
    "an expiry that is true": {"exp": True},
    "another beginning": {"nbf": int(NOON.timestamp()) - 60},
    "endpoints that are none": {"endpoints": None},
    "endpoints as a text": {"endpoints": ENDPOINT},
    "an endpoint for everything": {"endpoints": ["*"]},
    "an endpoint that is no text": {"endpoints": [None]},
    "an endpoint by name": {"endpoints": ["logs.all"]},
    "arguments as a list": {"arguments": []},
    "arguments that are no texts": {"arguments": {"project": None}},
    "an empty argument": {"arguments": {"project": ""}},
    "a right to purge": {"may_purge": True},
    "every endpoint": {"endpoint_ids": None},
    "limits of its own": {"limits": {"calls_a_minute": 0}},
    "an id that is empty": {"jti": ""},
    "an id that is no text": {"jti": 1},
    "a name of its own": {"name": "1"},
}


@pytest.mark.parametrize("change", FORGED_CLAIMS.values(), ids=FORGED_CLAIMS.keys())
def test_claims_that_the_service_never_makes_are_refused_even_if_signed(
    key: SigningKey, claims: dict[str, Any], change: Mapping[str, Any]
) -> None:
    assert authenticate_browser_token(sign(key, claims), now=NOON)
    assert refuses(sign(key, {**claims, **change}))


@pytest.mark.parametrize("name", ["iss", "aud", "sub", "iat", "nbf", "exp", "jti", "endpoints", "arguments"])
def test_every_claim_is_needed(key: SigningKey, claims: dict[str, Any], name: str) -> None:
    del claims[name]
    assert refuses(sign(key, claims))


def test_times_are_checked_at_each_call(key: SigningKey, claims: dict[str, Any]) -> None:
    token = sign(key, claims)
    for seconds in (-browser_tokens.SKEW_SECONDS, 0, 1, 3599, 3599.9):
        assert authenticate_browser_token(token, now=NOON + timedelta(seconds=seconds))
    for seconds in (-3600, -browser_tokens.SKEW_SECONDS - 0.1, 3600, 3600.1, 86_400, 10**8):
        assert refuses(token, now=NOON + timedelta(seconds=seconds))


@pytest.mark.parametrize(
    "extra",
    [
        {"crit": ["exp"], "exp": 1},
        {"jku": "https://evil.example.org/keys"},
        {"jwk": {"kty": "oct", "k": "AAAA"}},
        {"x5u": "https://evil.example.org/key"},
        {"b64": False, "crit": ["b64"]},
        {"zip": "DEF"},
    ],
    ids=lambda extra: next(iter(extra)),
)
def test_a_header_that_brings_more_is_refused(key: SigningKey, claims: dict[str, Any], extra: dict[str, Any]) -> None:
    secret = signing_keys._loaded(key)
    token = jwt.encode(claims, secret, algorithm=key.algorithm, headers={"kid": key.kid, **extra})
    assert refuses(token)


@pytest.mark.parametrize("kid", [None, "", "0123456789ab", 5, ["a"], "../secret", "' or 1=1 --", "a" * 5000, "\0" * 12])
def test_another_key_id_is_refused(key: SigningKey, claims: dict[str, Any], kid: Any) -> None:
    secret = signing_keys._unseal(key)
    header = {"alg": "HS256", "typ": "JWT", **({} if kid is None else {"kid": kid})}
    assert refuses(by_hand(header, claims, secret))


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "nOnE", "", "HS384", "HS512", "RS256", "ES256", "hs256"])
def test_another_algorithm_is_refused(key: SigningKey, claims: dict[str, Any], algorithm: str) -> None:
    header = {"alg": algorithm, "kid": key.kid, "typ": "JWT"}
    for secret in (None, b"", signing_keys._unseal(key)):
        assert refuses(by_hand(header, claims, secret))


def test_a_public_key_is_no_secret_of_hs256(db: None, claims: dict[str, Any]) -> None:
    key = create_signing_key(name="app")
    raw = signing_keys._loaded(key).public_key().public_bytes_raw()  # type: ignore[union-attr]
    header = {"alg": "HS256", "kid": key.kid, "typ": "JWT"}
    for secret in (key.public_key.encode(), key.public_key.strip().encode(), raw, encoded(raw).encode(), b""):
        assert refuses(by_hand(header, claims, secret))


def test_a_key_of_one_name_signs_nothing_of_another(key: SigningKey, claims: dict[str, Any]) -> None:
    other = create_signing_key(name="other", algorithm=key.algorithm)
    stolen = jwt.encode(claims, signing_keys._loaded(other), algorithm=key.algorithm, headers={"kid": key.kid})
    assert refuses(stolen)
    own = jwt.encode(claims, Ed25519PrivateKey.generate(), algorithm="EdDSA", headers={"kid": key.kid})
    assert refuses(own)


def test_every_altered_character_is_refused(key: SigningKey, claims: dict[str, Any]) -> None:
    token = sign(key, claims)
    assert authenticate_browser_token(token, now=NOON)
    header, body, signature = token.split(".")
    # The last character of each part has bits that mean nothing; the part before has none.
    for part, text in enumerate((header, body, signature)):
        for place in range(0, len(text) - 1, 7):
            parts = [header, body, signature]
            parts[part] = text[:place] + ("A" if text[place] != "A" else "B") + text[place + 1 :]
            assert refuses(".".join(parts))


@pytest.mark.parametrize(
    "token",
    [
        "",
        ".",
        "..",
        "...",
        "a.b",
        "a.b.c",
        "a.b.c.d",
        "e30.e30.",
        "e30.e30.e30",
        "W10.e30.AAAA",
        "bnVsbA.bnVsbA.AAAA",
        "é.é.é",
        "a.b.c\n",
        " a.b.c",
        "a.b.c=",
        "A" * MAX_CHARACTERS + ".A.A",
        "\0.\0.\0",
    ],
)
def test_what_has_not_the_form_is_refused(db: None, token: str) -> None:
    assert refuses(token)


@pytest.mark.parametrize(
    "header",
    [
        b"[" * 3000,
        b'{"a":' * 600,
        b'{"kid":' + b"9" * 2900 + b"}",
        b'{"alg":["EdDSA"],"kid":"0123456789ab"}',
        b'{"alg":{},"kid":"0123456789ab","typ":5}',
        b'{"kid":"\\ud800"}',
        b"NaN",
        b"\xff\xfe",
        b"\0",
        b"",
    ],
)
def test_a_header_that_is_hard_to_read_is_refused(key: SigningKey, header: bytes) -> None:
    for name in (b"0123456789ab", key.kid.encode()):
        assert refuses(f"{encoded(header.replace(b'0123456789ab', name))}.e30.AAAA")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(header=json_values, changed=st.dictionaries(st.sampled_from(["alg", "kid", "typ"]), json_values, min_size=1))
def test_no_header_is_more_than_refused(
    key: SigningKey, claims: dict[str, Any], header: Any, changed: dict[str, Any]
) -> None:
    good = {"alg": key.algorithm, "kid": key.kid}
    body, signature = sign(key, claims).split(".")[1:]
    for forged in (header, {**good, **changed}):
        assert refuses(f"{encoded(json.dumps(forged).encode())}.{body}.{signature}")


def test_a_token_that_is_too_long_is_refused_however_well_signed(key: SigningKey, claims: dict[str, Any]) -> None:
    token = sign(key, {**claims, "arguments": {"project": "a" * MAX_CHARACTERS}})
    assert len(token) > MAX_CHARACTERS
    assert refuses(token)


def test_forged_tokens_are_not_remembered(key: SigningKey, claims: dict[str, Any]) -> None:
    before = len(browser_tokens._verified)
    for number in range(20):
        assert refuses(by_hand({"alg": "HS256", "kid": key.kid}, {**claims, "n": number}, b"guessed"))
    assert len(browser_tokens._verified) == before


def test_what_is_remembered_has_an_end(
    key: SigningKey, claims: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser_tokens, "_CAPACITY", 3)
    tokens = [sign(key, {**claims, "arguments": {"project": str(number)}}) for number in range(8)]
    for token in (*tokens, *tokens):
        assert authenticate_browser_token(token, now=NOON)
    assert len(browser_tokens._verified) <= 3


# --- The key's life ---------------------------------------------------------------------------------------------------
def test_a_revoked_key_ends_its_tokens_at_once(key: SigningKey, claims: dict[str, Any]) -> None:
    token = sign(key, claims)
    assert remembered(token)
    revoke_signing_keys(SigningKey.objects.filter(pk=key.pk))
    assert refuses(token)
    assert not is_allowed_origin(token, APP)


def test_a_retired_key_verifies_what_it_signed_before_and_nothing_later(key: SigningKey, issuer: AccessToken) -> None:
    def token(of: SigningKey, at: datetime) -> str:
        second = int(at.timestamp())
        return sign(of, Claims(issuer.prefix, frozenset([ENDPOINT]), {}, second, second + 3600).as_json())

    new = rotate_signing_key(key)
    key.refresh_from_db()
    assert key.retired_at is not None
    before, later = key.retired_at - timedelta(minutes=1), key.retired_at + timedelta(minutes=1)
    assert authenticate_browser_token(token(key, before), now=later)
    assert refuses(token(key, later), now=later)
    assert authenticate_browser_token(token(new, later), now=later)


def test_a_key_whose_secret_cannot_be_read_verifies_nothing(
    key: SigningKey, claims: dict[str, Any], settings: Any
) -> None:
    token = sign(key, claims)
    settings.SECRET_KEY = "another secret key, long enough to be one of fifty characters"
    assert refuses(token)


def test_origins_are_those_of_the_key_that_signed(key: SigningKey, claims: dict[str, Any]) -> None:
    other = create_signing_key(name="other", allowed_origins=["https://other.example.org"])
    token = sign(key, claims)
    assert is_allowed_origin(token, APP)
    for origin in ("https://other.example.org", "https://app.example.org.evil.example", "null", "*", ""):
        assert not is_allowed_origin(token, origin)
    assert is_allowed_origin(sign(other, claims), "https://other.example.org")
    assert not is_allowed_origin("a.b.c", APP)


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
    issuer: AccessToken, key: SigningKey, claims: dict[str, Any], fields: dict[str, Any]
) -> None:
    token = sign(key, claims)
    assert remembered(token)
    change(issuer, **fields)
    assert refuses(token)
    assert is_allowed_origin(token, APP), "a page can read why it was refused"


def test_a_revoked_or_deleted_issuer_ends_its_tokens(
    issuer: AccessToken, key: SigningKey, claims: dict[str, Any]
) -> None:
    token = sign(key, claims)
    assert remembered(token)
    revoke_access_tokens(AccessToken.objects.filter(pk=issuer.pk))
    assert refuses(token)
    with changing():
        AccessToken.objects.all().delete()
    assert refuses(token)


def test_an_endpoint_taken_from_the_issuer_is_taken_from_its_tokens(
    key: SigningKey, claims: dict[str, Any], issuer: AccessToken
) -> None:
    kept, lost = Endpoint.objects.get(name="logs.all"), Endpoint.objects.get(name="usage.api-counts")
    token = sign(key, {**claims, "endpoints": [kept.pk.hex, lost.pk.hex]})
    assert remembered(token).endpoint_ids == {str(kept.pk), str(lost.pk)}
    with changing():
        issuer.every_endpoint = False
        issuer.save()
        issuer.endpoints.set([kept])
    assert authenticate_browser_token(token, now=NOON).endpoint_ids == {str(kept.pk)}


def test_a_new_bond_and_new_limits_of_the_issuer_hold_for_its_tokens(
    issuer: AccessToken, key: SigningKey, claims: dict[str, Any]
) -> None:
    token = sign(key, claims)
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
        limits=OwnLimits(calls_a_minute=5),
        expires_at=None,
        revoked_at=None,
        last_used_at=None,
    )
    claims = Claims(issuer.prefix, of_token, own, 0, 1)
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


def test_the_service_and_its_audience_have_fixed_names(key: SigningKey, claims: dict[str, Any]) -> None:
    read = jwt.decode(sign(key, claims), options={"verify_signature": False})
    assert (read["iss"], read["aud"]) == (ISSUED_BY, AUDIENCE)
