"""The secret of an access token: how it is made, found again and compared. Pure: nothing is stored here.

    lqe_4f7c2a9e1b0d_Kb3…   = marker _ prefix (12 hex digits, public, finds the row) _ secret part (43 characters)

The secret part holds 256 random bits, so one SHA-256 is enough: nothing is faster to guess than the bits themselves.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

_SHAPE = re.compile(r"lqe_([0-9a-f]{12})_[A-Za-z0-9_-]{43}", re.ASCII)
# Compared against when no row has the prefix, so that an unknown prefix takes as long as a wrong secret.
NO_HASH = hashlib.sha256(b"").hexdigest()


NO_LIMIT: Final = 0  # how a limit of an access token says that there is none


class TokenLimits(Protocol):
    """Where an access token keeps its limits."""

    calls_a_minute: int | None
    calls_at_once: int | None
    sandbox_queries_at_once: int | None


@dataclass(frozen=True, slots=True)
class OwnLimits:
    """The limits of one access token; None is the installation's default, NO_LIMIT no limit."""

    calls_a_minute: int | None = None
    calls_at_once: int | None = None
    sandbox_queries_at_once: int | None = None

    @classmethod
    def of(cls, token: TokenLimits) -> OwnLimits:
        """Return those of an access token as it is stored."""
        return cls(token.calls_a_minute, token.calls_at_once, token.sandbox_queries_at_once)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: what an access token allows. `endpoint_ids` None means every endpoint, no `load_sources` every one.

    The caller of a browser token has the prefix and the limits of the access token that issued it, and fewer rights.
    """

    name: str
    prefix: str
    endpoint_ids: frozenset[str] | None = None
    bound_arguments: Mapping[str, str] = field(default_factory=dict)
    may_purge: bool = False
    may_load: bool = False
    load_sources: frozenset[str] = frozenset()
    default_project: str = ""
    may_issue: bool = False
    limits: OwnLimits = OwnLimits()
    browser_token: str = ""  # its id, if it is one

    @property
    def is_browser(self) -> bool:
        return bool(self.browser_token)

    @property
    def own_id(self) -> str:
        """What a refusal that concerns this caller alone is kept under: of one browser token no other one feels it."""
        return f"{self.prefix}:{self.browser_token}" if self.browser_token else self.prefix

    def may_call(self, endpoint_id: str) -> bool:
        return self.endpoint_ids is None or endpoint_id in self.endpoint_ids


def new_secret() -> tuple[str, str]:
    """Return a fresh (prefix, secret); the secret is shown once and only its hash kept."""
    prefix = secrets.token_hex(6)
    return prefix, f"lqe_{prefix}_{secrets.token_urlsafe(32)}"


def prefix_of(secret: str) -> str | None:
    """Return the public prefix of a well-formed secret, else None."""
    match = _SHAPE.fullmatch(secret)
    return match[1] if match else None


def hash_secret(secret: str) -> str:
    """Return what is stored in place of the secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def matches(secret: str, secret_hash: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(hash_secret(secret), secret_hash)
