"""The key of a result: everything that can change its bytes, and nothing else.

>>> result_key("6f9619ff8b86d011b42d00c04fc964ff", 3, request).entry
'lqe:entry:6f9619ff8b86d011b42d00c04fc964ff:3:9c1f…'
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from uuid import UUID

from endpoints.results.outcomes import BoundValue, Page, ResultFormat

PREFIX = "lqe"  # before every name in Redis, which other applications may share
# Tells whether Redis takes writes: one that is full, or a replica, still answers PING and reads.
TRIED_WRITE = ("SET", f"{PREFIX}:tried-write", 1, "PX", 1000)


@dataclass(frozen=True)
class QueryRequest:
    """How to make a result of one version again: the request of a caller, after typing and normalising."""

    arguments: Mapping[str, BoundValue]
    sandbox_language: str  # "sql", "lql", or "" for the stored query
    sandbox_text: str
    redact: bool
    format: ResultFormat
    page: Page | None = None  # None: the whole result

    @cached_property
    def canonical(self) -> bytes:
        """The canonical form: equal requests give equal bytes, different ones different bytes.

        JSON keeps null, "", [] and ["x"] apart by itself and quotes every separator. `surrogatepass`, not escapes:
        an escaped pair of lone surrogates would read like the character of the pair.
        """
        fields: list[object] = [
            sorted(self.arguments.items(), key=lambda argument: argument[0]),
            self.sandbox_language,
            self.sandbox_text,
            self.redact,
            self.format.value,
        ]
        if self.page is not None:
            fields += [self.page.size, self.page.token]
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")

    @classmethod
    def from_json(cls, text: bytes) -> QueryRequest:
        """Return the request whose canonical form this is. Raises ValueError if it is not one."""
        try:
            fields = json.loads(text.decode("utf-8", "surrogatepass"))
            arguments, sandbox_language, sandbox_text, redact, media_type, *page = fields
            return cls(
                arguments=dict(arguments),
                sandbox_language=sandbox_language,
                sandbox_text=sandbox_text,
                redact=redact,
                format=ResultFormat(media_type),
                page=Page(*page) if page else None,
            )
        except (ValueError, TypeError) as error:
            raise ValueError("not a request") from error


@dataclass(frozen=True, slots=True)
class ResultKey:
    """One result of one version of an endpoint, by the digest of its request."""

    endpoint_id: str
    version: int
    digest: str

    @property
    def member(self) -> str:
        """The key within its endpoint, as the endpoint's index lists it."""
        return f"{self.version}:{self.digest}"

    @property
    def entry(self) -> str:
        return f"{entry_prefix(self.endpoint_id)}{self.member}"

    @property
    def lease(self) -> str:
        return f"{lease_prefix(self.endpoint_id)}{self.member}"

    @property
    def primary(self) -> str:
        return f"{PREFIX}:primary:{self.endpoint_id}:{self.member}"

    @property
    def request(self) -> str:
        return f"{PREFIX}:recipe:{self.endpoint_id}:{self.member}"

    @property
    def failures(self) -> str:
        return f"{PREFIX}:failures:{self.endpoint_id}:{self.member}"

    @property
    def backoff(self) -> str:
        return f"{PREFIX}:backoff:{self.endpoint_id}:{self.member}"


def result_key(endpoint_id: str, version: int, request: QueryRequest) -> ResultKey:
    """Return the key of a result. Raises ValueError when the endpoint's id is not a UUID."""
    endpoint_id = endpoint_hex(endpoint_id)
    # 32 digits, a number, a colon: where the request begins is never in doubt.
    digest = hashlib.sha256(f"{endpoint_id}{version}:".encode() + request.canonical).hexdigest()
    return ResultKey(endpoint_id=endpoint_id, version=version, digest=digest)


@lru_cache(maxsize=1000)
def endpoint_hex(endpoint_id: str) -> str:
    """Return a UUID as its 32 digits, however it was written. Raises ValueError."""
    return UUID(endpoint_id).hex


def entry_prefix(endpoint_id: str) -> str:
    return f"{PREFIX}:entry:{endpoint_id}:"


def lease_prefix(endpoint_id: str) -> str:
    return f"{PREFIX}:lease:{endpoint_id}:"


def index_name(endpoint_id: str) -> str:
    """The endpoint's entries (`version:digest`), scored by when they expire."""
    return f"{PREFIX}:index:{endpoint_id}"


def share_names(share: str) -> tuple[str, str]:
    """The bytes of each entry of a share and of all together (""), and the same entries scored by when they expire."""
    return f"{PREFIX}:share:{share}:bytes", f"{PREFIX}:share:{share}:ends"


def statistics_name(endpoint_id: str) -> str:
    return f"{PREFIX}:stats:{endpoint_id}"


def asked_name(endpoint_id: str, version: int) -> str:
    """The version's digests, scored by when they were last requested."""
    return f"{PREFIX}:asked:{endpoint_id}:{version}"


def uses_name(endpoint_id: str, version: int, window: int) -> str:
    """The version's digests, scored by how often they were requested in one window of time."""
    return f"{PREFIX}:uses:{endpoint_id}:{version}:{window}"


def calls_name(endpoint_id: str) -> str:
    """The endpoint's last calls, the newest first."""
    return f"{PREFIX}:calls:{endpoint_id}"


def minutes_name(endpoint_id: str, day: int) -> str:
    """The endpoint's calls by minute of one day, counted from 1970."""
    return f"{PREFIX}:minutes:{endpoint_id}:{day}"


def durations_name(endpoint_id: str, hour: int) -> str:
    """How long the endpoint's calls took, by minute of one hour, counted from 1970."""
    return f"{PREFIX}:durations:{endpoint_id}:{hour}"
