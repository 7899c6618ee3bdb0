"""Page tokens: where a page ended, sealed, for the caller to send back.

A token is encrypted, because redaction may hide what it contains: the values of the last row's columns in the order of
pages. It is bound to the endpoint, its version, the arguments (those that the access token is bound to included), the
format and the redaction, so it opens for no other call, whoever sends it.

AES-SIV (RFC 5297) needs no random nonce: the same place of the same call always has the same token, so equal pages have
equal bytes, an equal ETag and one entry of the cache.
"""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from django.conf import settings

from endpoints.cache import QueryRequest
from endpoints.definition import Version
from endpoints.errors import InvalidPageToken
from endpoints.results.positions import NO_POSITION
from endpoints.sql.page_queries import KeyValues

_PURPOSE: Final = b"page token 1"  # the form of what is sealed
_BLOCK_BYTES: Final = 32  # a token's length tells little about the lengths of the values in it


@dataclass(frozen=True, slots=True)
class PlaceInPages:
    """How many rows a page has, after which row it begins, and the position of the log that its rows must cover.

    `after` has the row's values in the order of pages, as PostgreSQL's text.
    """

    size: int
    after: KeyValues | None = None
    position: int = NO_POSITION


def seal_place(place: PlaceInPages, endpoint: Version, request: QueryRequest) -> str:
    """Return the token of a place that has a row before it: letters, digits, `-` and `_`, the same each time."""
    text = orjson.dumps([place.size, place.position, *(place.after or ())])
    padded = text.ljust(-(-len(text) // _BLOCK_BYTES) * _BLOCK_BYTES)
    sealed = _cipher(settings.SECRET_KEY).encrypt(padded, _bound_to(endpoint, request))
    return _written(sealed)


def open_token(token: str, endpoint: Version, request: QueryRequest) -> PlaceInPages:
    """Return the place that a token names. Raises InvalidPageToken unless it was sealed for a call like this one."""
    try:
        sealed = urlsafe_b64decode(token.encode("ascii") + b"=" * (-len(token) % 4))
    except ValueError as error:  # UnicodeEncodeError is one
        raise InvalidPageToken from error
    if _written(sealed) != token:  # Python skips what is not of the alphabet; a token has one spelling
        raise InvalidPageToken
    context = _bound_to(endpoint, request)
    for cipher in _ciphers():
        try:
            size, position, *after = orjson.loads(cipher.decrypt(sealed, context))
        except (InvalidTag, ValueError):
            continue
        return PlaceInPages(size, tuple(after), position)
    raise InvalidPageToken


def _written(sealed: bytes) -> str:
    return urlsafe_b64encode(sealed).rstrip(b"=").decode()


def _bound_to(endpoint: Version, request: QueryRequest) -> list[bytes | bytearray | memoryview]:
    version = f"{endpoint.pk.hex}:{endpoint.version}".encode()
    return [_PURPOSE, version, replace(request, page=None).canonical]


def _ciphers() -> Iterator[AESSIV]:
    # Tokens of the secret before stay good while Django accepts what that has signed.
    return map(_cipher, (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS))


@lru_cache(maxsize=8)
def _cipher(secret: str) -> AESSIV:
    return AESSIV(hashlib.sha512(b"page tokens " + secret.encode()).digest())
