"""Signing keys of browser tokens: made, rotated, revoked, and stored so that only this service can use them.

The secret of a key is stored encrypted (AES-256-GCM, NIST SP 800-38D) under a key derived from SECRET_KEY, so neither a
copy of the database nor a row moved to another key's place signs anything. After a change of SECRET_KEY
it cannot be read any more: make new keys then.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import jwt
import structlog
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from endpoints.access.change_marker import changing
from endpoints.access.sealing import Seal, SealBroken
from endpoints.errors import InvalidRequest
from endpoints.models import SigningAlgorithm, SigningKey

_SEAL: Final = Seal(b"log query endpoints: secrets of signing keys")
_SECRET_BYTES: Final = 32  # of both algorithms: RFC 7518 section 3.2, RFC 8032 section 5.1.5

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class KnownSigningKey:
    """A signing key as it was read; `verifies_with` is None if its secret cannot be read."""

    kid: str
    name: str
    algorithm: str
    allowed_origins: frozenset[str]
    retired_at: datetime | None
    revoked_at: datetime | None
    verifies_with: Any = field(repr=False, compare=False)


# --- Made, rotated, revoked -------------------------------------------------------------------------------------------
def create_signing_key(
    *, name: str, algorithm: str = SigningAlgorithm.EDDSA, allowed_origins: Sequence[str] = ()
) -> SigningKey:
    """Make a key and return it. Raises ValidationError, also if there is a current key of this name."""
    key = SigningKey(name=name, algorithm=algorithm, allowed_origins=list(dict.fromkeys(allowed_origins)))
    give_secret(key)
    key.full_clean()
    with changing(), transaction.atomic():
        key.save()
    return key


def give_secret(key: SigningKey) -> None:
    """Give an unsaved key its id and its secret, which nobody ever sees."""
    key.kid = secrets.token_hex(6)
    secret = secrets.token_bytes(_SECRET_BYTES)
    if key.algorithm == SigningAlgorithm.EDDSA:
        public = Ed25519PrivateKey.from_private_bytes(secret).public_key()
        key.public_key = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    key.sealed_secret = _SEAL.seal(secret, _bound_to(key))


def rotate_signing_key(key: SigningKey) -> SigningKey:
    """Retire a current key and return the new one of its name, algorithm and origins.

    What the old one has signed stays valid until it expires. Raises ValidationError if the key is not current.
    """
    with changing(), transaction.atomic():
        old = SigningKey.objects.select_for_update().get(pk=key.pk)
        if old.retired_at or old.revoked_at:
            raise ValidationError("Only a current key can be rotated.")
        old.retired_at = timezone.now()
        old.save(update_fields=["retired_at"])
        return create_signing_key(name=old.name, algorithm=old.algorithm, allowed_origins=old.allowed_origins)


def revoke_signing_keys(keys: QuerySet[SigningKey]) -> int:
    """Revoke those that are not yet revoked and return how many; every token they signed is refused from now on."""
    with changing(), transaction.atomic():
        valid = list(keys.select_for_update().filter(revoked_at=None))
        for key in valid:
            key.revoked_at = timezone.now()
            key.save(update_fields=["revoked_at"])  # one by one: each has its own history
    return len(valid)


# --- Used -------------------------------------------------------------------------------------------------------------
def current_signing_key(name: str = "") -> SigningKey:
    """Return the current key of this name, without a name the only one there is.

    Raises InvalidRequest if there is none, or several to choose from.
    """
    current = SigningKey.objects.filter(retired_at=None, revoked_at=None)
    # PostgreSQL cannot even compare a NUL.
    found = [] if "\0" in name else list(current.filter(name=name) if name else current[:2])
    if len(found) == 1:
        return found[0]
    reason = (
        "must be the name of a current signing key; this is none"
        if name
        else "must be the name of one of the signing keys, for there are several"
        if found
        else "cannot be chosen: no signing key has been made in the admin"
    )
    raise InvalidRequest(details=[{"name": "signing_key", "reason": reason}])


def sign(key: SigningKey, claims: dict[str, Any]) -> str:
    """Return the claims as a JWT (RFC 7519) signed with the key. Raises SealBroken."""
    return jwt.encode(claims, _loaded(key), algorithm=key.algorithm, headers={"kid": key.kid})


def known_signing_key(key: SigningKey) -> KnownSigningKey:
    """Return what verifying needs of a stored key, as a value that nobody can write to."""
    try:
        secret = _loaded(key)
        # The public part is derived from the sealed one: a public key written into the row verifies nothing.
        verifies_with = secret.public_key() if isinstance(secret, Ed25519PrivateKey) else secret
    except SealBroken:
        logger.error("signing_key_unreadable", kid=key.kid, reason="SECRET_KEY has changed, or the row was altered")
        verifies_with = None
    return KnownSigningKey(
        kid=key.kid,
        name=key.name,
        algorithm=key.algorithm,
        allowed_origins=frozenset(key.allowed_origins),
        retired_at=key.retired_at,
        revoked_at=key.revoked_at,
        verifies_with=verifies_with,
    )


# --- Sealed -----------------------------------------------------------------------------------------------------------
def _loaded(key: SigningKey) -> Ed25519PrivateKey | bytes:
    secret = _unseal(key)
    return Ed25519PrivateKey.from_private_bytes(secret) if key.algorithm == SigningAlgorithm.EDDSA else secret


def _unseal(key: SigningKey) -> bytes:
    return _SEAL.unseal(bytes(key.sealed_secret), _bound_to(key))


def _bound_to(key: SigningKey) -> str:
    # A secret that was sealed for EdDSA must never verify HS256, nor one key's secret another's tokens.
    return f"{key.kid}:{key.algorithm}"
