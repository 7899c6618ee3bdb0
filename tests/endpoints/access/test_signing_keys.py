"""Signing keys: only this service can use their secrets, and at most one key of a name signs."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from django.core.exceptions import ValidationError
from django.db import IntegrityError, connection

from endpoints.access import signing_keys
from endpoints.access.known_records import KNOWN_RECORDS
from endpoints.access.signing_keys import (
    SealBroken,
    create_signing_key,
    current_signing_key,
    known_signing_key,
    revoke_signing_keys,
    rotate_signing_key,
    sign,
)
from endpoints.errors import InvalidRequest
from endpoints.models import SigningKey, validate_origin

pytestmark = pytest.mark.django_db
ALGORITHMS = ("HS256", "EdDSA")


def reason(error: pytest.ExceptionInfo[InvalidRequest]) -> str:
    (detail,) = error.value.details
    assert detail["name"] == "signing_key"
    return str(detail["reason"])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_secret_is_nowhere_in_the_database(algorithm: str) -> None:
    key = create_signing_key(name="app", algorithm=algorithm)
    secret = signing_keys._unseal(key)
    assert len(secret) == 32
    with connection.cursor() as cursor:
        for table in ("endpoints_signingkey", "endpoints_historicalsigningkey"):
            stored = str(cursor.execute(f"SELECT t::text FROM {table} t").fetchall())
            assert key.kid in stored
            assert secret.hex() not in stored


def test_the_history_has_no_secret_not_even_sealed() -> None:
    key = create_signing_key(name="app")
    revoke_signing_keys(SigningKey.objects.all())
    assert key.history.count() == 2
    assert "sealed_secret" not in {field.name for field in key.history.model._meta.get_fields()}


def test_the_same_key_reads_the_same_secret_in_every_process() -> None:
    create_signing_key(name="app", algorithm="HS256")
    one, other = SigningKey.objects.get(), SigningKey.objects.get()
    assert sign(one, {"a": 1}) == sign(other, {"a": 1})


def test_two_keys_are_never_the_same() -> None:
    one, other = create_signing_key(name="one"), create_signing_key(name="other")
    assert one.kid != other.kid
    assert signing_keys._unseal(one) != signing_keys._unseal(other)


def test_the_public_key_of_eddsa_is_kept_and_hs256_has_none() -> None:
    key = create_signing_key(name="app")
    assert load_pem_public_key(key.public_key.encode()) == known_signing_key(key).verifies_with
    assert create_signing_key(name="other", algorithm="HS256").public_key == ""


@pytest.mark.parametrize("change", ["secret key", "kid", "algorithm", "bytes", "cut short", "nothing"])
def test_a_secret_opens_only_where_it_was_sealed(change: str, settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    key = create_signing_key(name="app")
    sealed = bytes(key.sealed_secret)
    match change:
        case "secret key":
            settings.SECRET_KEY = "another secret key, long enough to be one of fifty characters"
        case "kid":
            key.kid = create_signing_key(name="other").kid
        case "algorithm":
            key.algorithm = "HS256"
        case "bytes":
            key.sealed_secret = sealed[:-1] + bytes([sealed[-1] ^ 1])
        case "cut short":
            key.sealed_secret = sealed[:5]
        case _:
            key.sealed_secret = b""
    with pytest.raises(SealBroken):
        sign(key, {})
    with caplog.at_level(logging.ERROR):
        assert known_signing_key(key).verifies_with is None
    assert "signing_key_unreadable" in caplog.text


def test_a_public_key_written_into_the_row_verifies_nothing() -> None:
    key, other = create_signing_key(name="app"), create_signing_key(name="other")
    key.public_key = other.public_key
    assert known_signing_key(key).verifies_with != known_signing_key(other).verifies_with


def test_a_known_key_shows_no_secret() -> None:
    key = create_signing_key(name="app", algorithm="HS256")
    known = known_signing_key(key)
    assert repr(known.verifies_with) not in repr(known)


def test_rotating_makes_a_new_key_of_the_same_name_and_origins() -> None:
    old = create_signing_key(name="app", algorithm="HS256", allowed_origins=["https://app.example.org"])
    new = rotate_signing_key(old)
    old.refresh_from_db()
    assert (new.name, new.algorithm, new.allowed_origins) == (old.name, old.algorithm, old.allowed_origins)
    assert new.kid != old.kid
    assert old.retired_at is not None
    assert current_signing_key("app") == new


def test_only_a_current_key_can_be_rotated() -> None:
    old = create_signing_key(name="app")
    new = rotate_signing_key(old)
    revoke_signing_keys(SigningKey.objects.filter(pk=new.pk))
    for key in (old, new):
        with pytest.raises(ValidationError, match="Only a current key"):
            rotate_signing_key(key)


def test_a_name_has_one_current_key() -> None:
    key = create_signing_key(name="app")
    with pytest.raises(ValidationError, match="There is a current key of this name"):
        create_signing_key(name="app")
    revoke_signing_keys(SigningKey.objects.filter(pk=key.pk))
    assert create_signing_key(name="app").kid != key.kid


def test_the_database_keeps_a_second_current_key_out() -> None:
    create_signing_key(name="app")
    second = SigningKey(name="app")
    signing_keys.give_secret(second)
    with pytest.raises(IntegrityError, match="signing_key_one_current_per_name"):
        second.save()


def test_revoking_counts_only_what_was_valid() -> None:
    create_signing_key(name="one")
    create_signing_key(name="other")
    assert revoke_signing_keys(SigningKey.objects.filter(name="one")) == 1
    assert revoke_signing_keys(SigningKey.objects.all()) == 1
    assert revoke_signing_keys(SigningKey.objects.all()) == 0


def test_the_key_that_signs_is_the_only_one_or_the_named_one() -> None:
    with pytest.raises(InvalidRequest) as error:
        current_signing_key()
    assert "no signing key has been made" in reason(error)
    one = create_signing_key(name="one")
    assert current_signing_key() == one
    other = create_signing_key(name="other")
    assert current_signing_key("other") == other
    with pytest.raises(InvalidRequest) as error:
        current_signing_key()
    assert "there are several" in reason(error)
    revoke_signing_keys(SigningKey.objects.filter(name="one"))
    for name in ("one", "unknown"):
        with pytest.raises(InvalidRequest) as error:
            current_signing_key(name)
        assert "this is none" in reason(error)


@pytest.mark.parametrize(
    "origin",
    [
        "https://app.example.org",
        "http://localhost",
        "http://127.0.0.1:8080",
        "http://[::1]:8080",
        "https://xn--bcher-kva.example",
        "https://app.example.org:65535",
    ],
)
def test_an_origin_as_browsers_send_it(origin: str) -> None:
    validate_origin(origin)
    assert create_signing_key(name="app", allowed_origins=[origin, origin]).allowed_origins == [origin]


@pytest.mark.parametrize(
    "origin",
    [
        "*",
        "null",
        "",
        "https://*.example.org",
        "app.example.org",
        "https://app.example.org/",
        "https://app.example.org/page",
        "https://App.example.org",
        "HTTPS://app.example.org",
        "https://app.example.org:443",
        "http://app.example.org:80",
        "https://app.example.org:0",
        "https://app.example.org:65536",
        "https://app.example.org:08080",
        "https://user@app.example.org",
        "https://app.example.org https://evil.example.org",
        "https://app.example.org\n",
        "https://app..example.org",
        "https://bücher.example",
        "file://app.example.org",
        "https://",
    ],
)
def test_what_no_browser_sends_is_no_origin(origin: str) -> None:
    with pytest.raises(ValidationError):
        create_signing_key(name="app", allowed_origins=[origin])


@pytest.mark.parametrize("fields", [{"name": ""}, {"name": "two words"}, {"algorithm": "none"}, {"algorithm": "RS256"}])
def test_a_key_that_cannot_be_is_refused(fields: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        create_signing_key(**{"name": "app", **fields})


def test_known_origins_follow_every_change() -> None:
    assert KNOWN_RECORDS.origins_of_signing_keys() == frozenset()
    key = create_signing_key(name="app", allowed_origins=["https://app.example.org"])
    assert KNOWN_RECORDS.origins_of_signing_keys() == {"https://app.example.org"}
    rotate_signing_key(key)
    assert KNOWN_RECORDS.origins_of_signing_keys() == {"https://app.example.org"}
    revoke_signing_keys(SigningKey.objects.all())
    assert KNOWN_RECORDS.origins_of_signing_keys() == frozenset()
