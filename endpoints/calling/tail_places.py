"""The places of tails, and page tokens, in which a client keeps them: opaque, and of use for its own tail alone.

A place is where the next page begins: at a timestamp and an id. Rows behind it that were sent already are known by
short hashes, so a row that was stored late, with a timestamp before that of rows already sent, still comes.

A token is a place encrypted with a key made from SECRET_KEY (AES-GCM, NIST SP 800-38D), because ids may be what the
caller must not see. Whose tail it is of stands not in it but is authenticated with it.
"""

from __future__ import annotations

import binascii
import hashlib
import os
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings

from endpoints.errors import InvalidPageToken

HASH_BYTES: Final = 6  # of 1,000 rows, none is taken for another one in 10^8 tails
# The request line, with the token in it, may have 32 KiB, and the token has eight characters for each row.
SEEN_ROWS: Final = 1_000
_NONCE_BYTES: Final = 12
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_HEAD: Final = struct.Struct(">BqH")  # form, microseconds since 1970, bytes of the id
_FORM: Final = 1
_LONGEST_ID: Final = 1_024  # bytes; a longer id is cut, and rows of its moment may come again
_LONGEST_TOKEN: Final = 32_768


@dataclass(frozen=True, slots=True)
class Place:
    """Where the next page of a tail begins, and the hashes of the rows from there on that were sent."""

    timestamp: datetime
    id: str = ""
    seen: frozenset[bytes] = frozenset()

    @property
    def key(self) -> tuple[datetime, str]:
        return self.timestamp, self.id


def hash_row(values: Sequence[Any]) -> bytes:
    """Return the hash by which a row is known, from its values as they came from PostgreSQL."""
    return hashlib.blake2b(repr(tuple(values)).encode("utf-8", "surrogatepass"), digest_size=HASH_BYTES).digest()


def write_page_token(place: Place, binding: bytes) -> str:
    """Return the token of a place in the tail that `binding` describes."""
    row_id = place.id.encode()[:_LONGEST_ID].decode(errors="ignore").encode()
    moment = (place.timestamp - _EPOCH) // _MICROSECOND
    content = _HEAD.pack(_FORM, moment, len(row_id)) + row_id + b"".join(sorted(place.seen))
    nonce = os.urandom(_NONCE_BYTES)
    return urlsafe_b64encode(nonce + _cipher(settings.SECRET_KEY).encrypt(nonce, content, binding)).decode().rstrip("=")


def read_page_token(token: str, binding: bytes) -> Place:
    """Return the place in a token. Raises InvalidPageToken for one of another tail, and for anything else."""
    if len(token) > _LONGEST_TOKEN:
        raise InvalidPageToken
    try:
        sealed = urlsafe_b64decode(token + "=" * (-len(token) % 4))
        content = _cipher(settings.SECRET_KEY).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], binding)
        # What follows was written by us: another form is that of another version of the service.
        form, moment, id_bytes = _HEAD.unpack_from(content)
    except (InvalidTag, ValueError, binascii.Error, struct.error) as error:
        raise InvalidPageToken from error
    if form != _FORM:
        raise InvalidPageToken
    hashes = content[_HEAD.size + id_bytes :]
    return Place(
        timestamp=_EPOCH + moment * _MICROSECOND,
        id=content[_HEAD.size : _HEAD.size + id_bytes].decode(),
        seen=frozenset(hashes[start : start + HASH_BYTES] for start in range(0, len(hashes), HASH_BYTES)),
    )


@lru_cache(maxsize=2)
def _cipher(secret_key: str) -> AESGCM:
    return AESGCM(hashlib.blake2b(secret_key.encode(), digest_size=32, person=b"page token").digest())
