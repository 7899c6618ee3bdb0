"""Browser tokens: short-lived, signed by the service, issued by an access token; what each allows at this moment.

A browser token allows what both its own claims and its issuer allow: the issuer is looked up at each call, so what is
revoked, expired or taken from it is lost to the browser token too, as fast as to the issuer itself. What the
issuer gains later is not gained. Limits are the issuer's, shared with it and with everything else it has issued; the
pause after an overrun is the browser token's own.

It is an object signed by Django (`django.core.signing`: HMAC-SHA256 with SECRET_KEY), which no other program reads.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from django.core.signing import BadSignature, TimestampSigner
from django.utils import timezone

from endpoints.access.known_records import KNOWN_RECORDS, KnownToken
from endpoints.access.secrets import Caller
from endpoints.errors import NotAuthenticated

LONGEST_SECONDS: Final = 86_400  # between issue and expiry
MAX_CHARACTERS: Final = 4096  # with room for some sixty endpoints; a header may have four times as many
_SEPARATOR: Final = "."  # no secret of an access token has one
_PURPOSE: Final = "log query endpoints: browser token 1"  # another number where claims mean something else


@dataclass(frozen=True, slots=True)
class Claims:
    """What a browser token says; `expires_at` is in seconds since 1970."""

    issuer_prefix: str
    endpoint_ids: frozenset[str]
    arguments: Mapping[str, str]
    expires_at: int
    token_id: str = field(default_factory=lambda: secrets.token_hex(8))  # of two alike, issued in one second, too


def sign(claims: Claims) -> str:
    """Return the browser token that says so."""
    content = [
        claims.issuer_prefix,
        sorted(claims.endpoint_ids),
        dict(claims.arguments),
        claims.expires_at,
        claims.token_id,
    ]
    return _signer().sign_object(content, compress=True)


def is_browser_token(credential: str) -> bool:
    """Tell a browser token, which has dots, from the secret of an access token, which has none."""
    return _SEPARATOR in credential


def authenticate_browser_token(text: str, *, now: datetime | None = None) -> Caller:
    """Return the caller this browser token stands for.

    Raises NotAuthenticated, the same for every reason, and DatabaseUnavailable.
    """
    now = now or timezone.now()
    claims = _read(text)
    if now.timestamp() >= claims.expires_at:
        raise NotAuthenticated
    issuer = KNOWN_RECORDS.access_token(claims.issuer_prefix)
    if issuer is None or not issuer.is_valid_at(now) or not issuer.may_issue:
        raise NotAuthenticated
    KNOWN_RECORDS.note_use(issuer, now=now)
    return caller_of(claims, issuer)


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
    """Tell whether the issuer of a browser token allows the origin, also if either has ended.

    A page can then read why it was refused. Raises DatabaseUnavailable.
    """
    try:
        issuer = KNOWN_RECORDS.access_token(_read(text).issuer_prefix)
    except NotAuthenticated:
        return False
    return issuer is not None and origin in issuer.allowed_origins


def _read(text: str) -> Claims:
    """Return what the service has signed, however long ago. Raises NotAuthenticated."""
    if len(text) > MAX_CHARACTERS:
        raise NotAuthenticated
    try:
        content: list[Any] = _signer().unsign_object(text)
    except (BadSignature, ValueError):  # ValueError: of a text that is no ASCII, before its signature is compared
        raise NotAuthenticated from None
    prefix, endpoint_ids, arguments, expires_at, token_id = content
    return Claims(prefix, frozenset(endpoint_ids), arguments, expires_at, token_id)


def _signer() -> TimestampSigner:
    return TimestampSigner(salt=_PURPOSE, sep=_SEPARATOR)
