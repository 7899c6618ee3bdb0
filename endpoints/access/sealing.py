"""Secrets that the service itself must use: sealed with a key derived from SECRET_KEY, so a database dump has none.

AES-256-GCM; the key by HKDF (RFC 5869), another one for each purpose.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

_NONCE_BYTES: Final = 12  # what GCM is made for; random ones suffice for the few secrets there are


class SealBroken(Exception):
    """A stored secret that this SECRET_KEY did not seal, or not for this row."""


@dataclass(frozen=True, slots=True)
class Seal:
    """Seals the secrets of one purpose; each is bound to a text, and can be read with that text alone."""

    purpose: bytes

    def seal(self, secret: bytes, bound_to: str) -> bytes:
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + _cipher(settings.SECRET_KEY, self.purpose).encrypt(nonce, secret, bound_to.encode())

    def unseal(self, sealed: bytes, bound_to: str) -> bytes:
        """Return the secret. Raises SealBroken."""
        try:
            cipher = _cipher(settings.SECRET_KEY, self.purpose)
            return cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], bound_to.encode())
        except (InvalidTag, ValueError) as error:
            raise SealBroken from error


@lru_cache(maxsize=4)
def _cipher(secret_key: str, purpose: bytes) -> AESGCM:
    return AESGCM(HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose).derive(secret_key.encode()))
