"""Answers compressed for clients that ask for it: content codings, RFC 9110 sections 8.4.1 and 12.5.3.

Each coding of a result is a representation of its own, with an entity tag of its own: `"9c1f…-gzip"` (section 8.8.3.3).
A hit compresses nothing: the zstd frame of a cached result is what Redis has, and what became gzip once stays in this
process.
"""

from __future__ import annotations

import threading
import zlib
from collections import OrderedDict
from functools import lru_cache
from typing import Final

from django.conf import settings

from endpoints.api.negotiation import quality
from endpoints.calling.cached_results import Served
from endpoints.results.compression import zstd_frame
from endpoints.results.outcomes import ResultFormat

CAPACITY_BYTES: Final = 16 * 1024 * 1024  # of bodies in gzip, in each process
_LONGEST_REMEMBERED: Final = 512  # characters; browsers send about 30
ZSTD: Final = "zstd"
GZIP: Final = "gzip"
_GZIP_LEVEL: Final = 1  # of log rows it leaves 7 % more bytes than level 4, in half the time
_GZIP_WINDOW: Final = 31  # zlib's way to ask for gzip's header, here without a time: equal bodies stay equal


def encoded_body(served: Served, accept_encoding: str) -> tuple[bytes, str]:
    """Return the body in the coding that the client prefers, and that coding; "" is the body as it is."""
    body = served.outcome.body
    if not settings.RESPONSE_COMPRESSION or served.outcome.format is ResultFormat.PARQUET:  # compressed inside
        return body, ""
    coding = preferred_coding(accept_encoding)
    if not coding:
        return body, ""
    compressed = (served.outcome.zstd or zstd_frame(body)) if coding == ZSTD else _gzip(served)
    return (compressed, coding) if compressed and len(compressed) < len(body) else (body, "")


def _gzip(served: Served) -> bytes:
    key = None if served.key is None else (served.key, served.etag)
    compressed = None if key is None else KEPT.get(key)
    if compressed is None:
        compressor = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)
        compressed = compressor.compress(served.outcome.body) + compressor.flush()
        if key is not None:
            KEPT.keep(key, compressed)
    return compressed


# --- Negotiation ------------------------------------------------------------------------------------------------------
def preferred_coding(accept_encoding: str) -> str:
    """Return the coding that the header prefers: zstd before gzip if it likes both as well, "" if it wants neither."""
    if len(accept_encoding) > _LONGEST_REMEMBERED:
        return ""
    return _preferred_coding(accept_encoding)


@lru_cache(maxsize=256)
def _preferred_coding(accept_encoding: str) -> str:
    qualities: dict[str, float] = {}
    for part in accept_encoding.lower().split(","):
        name, *parameters = (each.strip(" \t") for each in part.split(";"))
        sent = [each[2:].strip(" \t") for each in parameters if each.startswith("q=")]
        qualities[GZIP if name == "x-gzip" else name] = quality(sent[0] if sent else "")
    # Clients that send * and cannot read zstd are more than those that can.
    wanted = {ZSTD: qualities.get(ZSTD, 0.0), GZIP: qualities.get(GZIP, qualities.get("*", 0.0))}
    best = max(wanted, key=lambda coding: wanted[coding])
    return best if wanted[best] and wanted[best] >= qualities.get("identity", 0.0) else ""


# --- Entity tags ------------------------------------------------------------------------------------------------------
def tag_in(etag: str, coding: str) -> str:
    """Return the entity tag of a result in a coding."""
    return f'{etag[:-1]}-{coding}"' if coding else etag


def is_tag_of(tag: str, etag: str) -> bool:
    """Tell whether a tag is that of the result in any coding: each of them has the same rows."""
    return tag == etag or tag in (tag_in(etag, ZSTD), tag_in(etag, GZIP))


# --- Kept bodies ------------------------------------------------------------------------------------------------------
class KeptBodies:
    """Bodies in gzip of one process, for all its threads; the longest unused go first."""

    def __init__(self, capacity_bytes: int = CAPACITY_BYTES) -> None:
        self._capacity_bytes = capacity_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[object, bytes] = OrderedDict()
        self._bytes = 0

    def get(self, key: object) -> bytes | None:
        with self._lock:
            body = self._kept.get(key)
            if body is not None:
                self._kept.move_to_end(key)
            return body

    def keep(self, key: object, body: bytes) -> None:
        if len(body) > self._capacity_bytes:
            return
        with self._lock:
            self._bytes += len(body) - len(self._kept.pop(key, b""))
            self._kept[key] = body
            while self._bytes > self._capacity_bytes:
                _, oldest = self._kept.popitem(last=False)
                self._bytes -= len(oldest)


# By the key of the entry, which stands for endpoint, version, arguments and redaction, and not by the tag alone: a tag
# is a hash that need not withstand who writes log rows.
KEPT: Final = KeptBodies()
