"""A text that one page shows once, handed from the answer to a POST to the page that the browser is sent to.

A page that answers a POST makes everything a second time when it is reloaded, so the answer is a redirect (RFC 9110,
section 15.4.3). Until the browser follows it, nobody has the text alone: the browser has it encrypted, in a cookie that
is sent to this one page, and the session has the key. A copy of the database opens nothing without the browser, a
copied cookie opens nothing without the session, and the address, which logs and histories keep, has neither. The page
takes the key out of the session before it shows the text, so there is no second time, whatever the browser sends.
"""

from __future__ import annotations

import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from contextlib import suppress
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

COOKIE: Final = "shown_once"
SECONDS: Final = 120  # for the browser to follow the redirect, also on a slow line
_SESSION: Final = "shown_once"  # {address of the page: [key, when it ends, in seconds since 1970]}
_KEY_BITS: Final = 256
_NONCE_BYTES: Final = 12  # what GCM is made for (NIST SP 800-38D)


def hand_over(request: HttpRequest, response: HttpResponse, text: str, *, page: str) -> None:
    """Let the page at this address, in this session, show the text once within SECONDS."""
    key, nonce = AESGCM.generate_key(_KEY_BITS), secrets.token_bytes(_NONCE_BYTES)
    sealed = nonce + AESGCM(key).encrypt(nonce, text.encode(), page.encode())
    ends = timezone.now().timestamp() + SECONDS
    request.session[_SESSION] = {**_waiting(request), page: [urlsafe_b64encode(key).decode(), ends]}
    response.set_cookie(
        COOKIE,
        urlsafe_b64encode(sealed).decode(),
        max_age=SECONDS,
        path=page,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Strict",
    )


def take(request: HttpRequest) -> str | None:
    """Return the text that was handed over to the requested page; None if it was shown already, or too late."""
    waiting = _waiting(request)
    key, _ = waiting.pop(request.path, (None, 0))
    if key is None:
        return None
    request.session[_SESSION] = waiting
    with suppress(ValueError, InvalidTag):  # binascii.Error, UnicodeEncodeError too: a cookie is what a client sends
        sealed = urlsafe_b64decode(request.COOKIES.get(COOKIE, "").encode("ascii"))
        cipher = AESGCM(urlsafe_b64decode(key))
        return cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], request.path.encode()).decode()
    return None


def forget(request: HttpRequest, response: HttpResponse) -> None:
    """Let the browser drop the cookie of the requested page."""
    response.delete_cookie(COOKIE, path=request.path, samesite="Strict")


def _waiting(request: HttpRequest) -> dict[str, Any]:
    now = timezone.now().timestamp()
    return {page: entry for page, entry in request.session.get(_SESSION, {}).items() if entry[1] > now}
