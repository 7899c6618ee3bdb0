"""Browser tokens: short-lived JWTs (RFC 7519) that an access token has issued, and what each allows at this moment.

A browser token allows what both its own claims and its issuer allow: the issuer is looked up at each call, so what is
revoked, expired or taken from it is lost to the browser token too, as fast as to the issuer itself. What the
issuer gains later is not gained. Limits are the issuer's, shared with it and with everything else it has issued; the
pause after an overrun is the browser token's own.

The algorithm is the key's, never the header's (RFC 8725 section 3.1). What a process has verified it remembers by
digest; key, issuer and times are looked at again at each call.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import jwt
from django.utils import timezone

from endpoints.access.known_records import KNOWN_RECORDS, KnownToken
from endpoints.access.secrets import Caller
from endpoints.access.signing_keys import KnownSigningKey
from endpoints.errors import NotAuthenticated

LONGEST_SECONDS: Final = 86_400  # between issue and expiry
MAX_CHARACTERS: Final = 4096  # with room for some sixty endpoints; a header may have four times as many
SKEW_SECONDS: Final = 5  # by which the clocks of two machines of the service may differ
ISSUED_BY: Final = "log-query-endpoints"
AUDIENCE: Final = "log-query-endpoints/query"
_CAPACITY: Final = 4096  # verified tokens that a process remembers

_SHAPE: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+", re.ASCII)
_KID: Final = re.compile(r"[0-9a-f]{12}", re.ASCII)
_HEADER: Final = frozenset(("alg", "kid", "typ"))
_CLAIMS: Final = frozenset(("iss", "aud", "sub", "iat", "nbf", "exp", "jti", "endpoints", "arguments"))
# Times are checked at each call, not only when a token is verified.
_OPTIONS: Final[Any] = {
    "require": sorted(_CLAIMS), "strict_aud": True, "verify_exp": False, "verify_nbf": False, "verify_iat": False,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Claims:
    """What a browser token says; times are seconds since 1970."""

    issuer_prefix: str
    endpoint_ids: frozenset[str]
    arguments: Mapping[str, str]
    issued_at: int
    expires_at: int
    token_id: str = field(default_factory=lambda: secrets.token_hex(8))  # of two alike, issued in one second, too

    def as_json(self) -> dict[str, Any]:
        """Return the claims of the JWT."""
        return {
            "iss": ISSUED_BY,
            "aud": AUDIENCE,
            "sub": self.issuer_prefix,
            "iat": self.issued_at,
            "nbf": self.issued_at,
            "exp": self.expires_at,
            "jti": self.token_id,
            "endpoints": sorted(UUID(each).hex for each in self.endpoint_ids),
            "arguments": dict(self.arguments),
        }


@dataclass(slots=True)
class _Verified:
    """A token whose signature is right, and the caller it last stood for: the same until key or issuer change."""

    key: KnownSigningKey
    claims: Claims
    # One pair: of two threads, each with another state of the issuer, neither may leave its caller to the other's.
    last: tuple[KnownToken, Caller] | None = None


_lock = threading.Lock()
_verified: OrderedDict[bytes, _Verified] = OrderedDict()


def is_browser_token(credential: str) -> bool:
    """Tell a JWT, which has dots, from the secret of an access token, which has none."""
    return "." in credential


def authenticate_browser_token(text: str, *, now: datetime | None = None) -> Caller:
    """Return the caller this browser token stands for.

    Raises NotAuthenticated, the same for every reason, and DatabaseUnavailable.
    """
    now = now or timezone.now()
    verified = _verify(text)
    _refuse_at(now, verified)
    issuer = KNOWN_RECORDS.access_token(verified.claims.issuer_prefix)
    if issuer is None or not issuer.is_valid_at(now) or not issuer.may_issue:
        raise NotAuthenticated
    KNOWN_RECORDS.note_use(issuer, now=now)
    last = verified.last
    if last is None or last[0] is not issuer:
        verified.last = last = (issuer, caller_of(verified.claims, issuer))
    return last[1]


def caller_of(claims: Claims, issuer: KnownToken) -> Caller:
    """Return what the claims and the issuer allow together. Raises NotAuthenticated if their bound arguments differ."""
    bound = {**claims.arguments, **issuer.bound_arguments}
    if any(bound[name] != value for name, value in claims.arguments.items()):
        raise NotAuthenticated
    endpoint_ids = claims.endpoint_ids
    if issuer.endpoint_ids is not None:
        endpoint_ids &= issuer.endpoint_ids
    return Caller(
        name=f"{issuer.name} / browser",
        prefix=issuer.prefix,
        endpoint_ids=endpoint_ids,
        bound_arguments=bound,
        limits=issuer.limits,
        browser_token=claims.token_id,
    )


def is_allowed_origin(text: str, origin: str) -> bool:
    """Tell whether the key of a browser token allows the origin, also if the token has expired.

    A page can then read why it was refused. Raises DatabaseUnavailable.
    """
    try:
        return origin in _verify(text).key.allowed_origins
    except NotAuthenticated:
        return False


# --- Verified ---------------------------------------------------------------------------------------------------------
def _verify(text: str) -> _Verified:
    """Return a token whose signature and form are right. Raises NotAuthenticated and DatabaseUnavailable."""
    if len(text) > MAX_CHARACTERS or not _SHAPE.fullmatch(text):
        raise NotAuthenticated
    digest = hashlib.sha256(text.encode()).digest()
    with _lock:
        remembered = _verified.get(digest)
        if remembered is not None:
            _verified.move_to_end(digest)
    kid = _kid(text) if remembered is None else remembered.key.kid
    key = KNOWN_RECORDS.signing_key(kid)
    if key is None or key.revoked_at is not None or key.verifies_with is None:
        raise NotAuthenticated
    if remembered is not None and remembered.key is key:
        return remembered
    verified = _Verified(key, _read(text, key))
    with _lock:
        _verified[digest] = verified
        _verified.move_to_end(digest)
        while len(_verified) > _CAPACITY:
            _verified.popitem(last=False)
    return verified


def _kid(text: str) -> str:
    """Return the id of the key that the header names. Raises NotAuthenticated if the service makes no such header.

    One that brings a key, the address of a key or an extension is refused (RFC 8725 section 3.10).
    """
    try:
        header = jwt.get_unverified_header(text)
    except (jwt.PyJWTError, RecursionError):  # the latter from JSON that is nested a thousand deep
        raise NotAuthenticated from None
    kid = header.get("kid")
    if not header.keys() <= _HEADER or not isinstance(kid, str) or not _KID.fullmatch(kid):
        raise NotAuthenticated
    return kid


def _read(text: str, key: KnownSigningKey) -> Claims:
    try:
        claims = jwt.decode(
            text,
            key.verifies_with,
            algorithms=[key.algorithm],
            audience=AUDIENCE,
            issuer=ISSUED_BY,
            options=_OPTIONS,
        )
    except jwt.PyJWTError:
        raise NotAuthenticated from None
    # Exactly these: a claim this version does not know may be one that allows less.
    if claims.keys() != _CLAIMS:
        raise NotAuthenticated
    return _claims(claims)


def _claims(claims: Mapping[str, Any]) -> Claims:
    endpoints, arguments = claims["endpoints"], claims["arguments"]
    times = [claims[name] for name in ("iat", "nbf", "exp")]
    if (
        not isinstance(claims["sub"], str)
        or not isinstance(claims["jti"], str)
        or not claims["jti"]
        or not all(type(time) is int for time in times)
        or times[1] != times[0]
        or not 0 < times[2] - times[0] <= LONGEST_SECONDS
        or not isinstance(endpoints, list)
        or not isinstance(arguments, dict)
        or not all(isinstance(value, str) and value for value in arguments.values())
    ):
        raise NotAuthenticated
    try:
        endpoint_ids = frozenset(str(UUID(hex=each)) for each in endpoints)
    except (ValueError, AttributeError, TypeError):
        raise NotAuthenticated from None
    return Claims(claims["sub"], endpoint_ids, arguments, times[0], times[2], claims["jti"])


def _refuse_at(now: datetime, verified: _Verified) -> None:
    """Raise NotAuthenticated outside the token's time, and for what a retired key has signed after its retirement."""
    moment, claims, retired_at = now.timestamp(), verified.claims, verified.key.retired_at
    is_signed_late = retired_at is not None and claims.issued_at > retired_at.timestamp() + SKEW_SECONDS
    if moment >= claims.expires_at or moment < claims.issued_at - SKEW_SECONDS or is_signed_late:
        raise NotAuthenticated
