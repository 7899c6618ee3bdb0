"""A secret that one page shows once, handed from the answer to a POST to the page that the browser is sent to.

A page that answers a POST makes everything a second time when it is reloaded, so the answer is a redirect (RFC 9110,
section 15.4.3). Until the browser follows it, nobody has the secret alone: the browser has it encrypted, in a cookie
that is sent to this one page, and the session has the key. A copy of the database opens nothing without the browser, a
copied cookie opens nothing without the session, and the address, which logs and histories keep, has neither. The page
takes the key out of the session before it shows the secret, so there is no second time, whatever the browser sends.
"""

from __future__ import annotations

import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from contextlib import suppress
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from unfold.admin import ModelAdmin

COOKIE: Final = "shown_once"
SECONDS: Final = 120  # for the browser to follow the redirect, also on a slow line
_SESSION: Final = "shown_once"  # {address of the page: [key, when it ends, in seconds since 1970]}
_KEY_BITS: Final = 256
_NONCE_BYTES: Final = 12  # what GCM is made for (NIST SP 800-38D)


class SecretPageAdmin(ModelAdmin):  # type: ignore[misc]
    """Gives each row a page that shows its new secret, once, to whoever has just made it."""

    shown_once_template: str  # extends endpoints/secret.html

    def may_see_secret(self, request: HttpRequest) -> bool:
        """Whether this person may make secrets of this kind."""
        return bool(self.has_add_permission(request))

    def secret_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return what the template needs to know of the row, and at least its title."""
        raise NotImplementedError

    def get_urls(self) -> list[URLPattern]:
        shown = self.admin_site.admin_view(self.show_secret)
        return [path("<path:object_id>/secret/", shown, name=_url_name(self.opts)), *super().get_urls()]

    def lead_to_secret(self, request: HttpRequest, row: Model, secret: str) -> HttpResponse:
        """Send the browser to the page that shows the secret: reloading that one makes nothing."""
        page = reverse(f"admin:{_url_name(self.opts)}", args=[row.pk])
        response = HttpResponseRedirect(page)
        hand_over(request, response, secret, page=page)
        return response

    def show_secret(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show the secret that was handed over to this page; afterwards say that it was shown."""
        if not self.may_see_secret(request):
            raise PermissionDenied
        row = self.get_object(request, object_id)
        if row is None:
            raise Http404(f"There is no such {self.opts.verbose_name}.")
        if request.method != "GET":  # a HEAD would use up the only time
            return HttpResponseNotAllowed(["GET"])
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "row": row,
            "secret": take(request),
            **self.secret_context(request, row),
        }
        response = TemplateResponse(request, self.shown_once_template, context)
        forget(request, response)
        return response


def _url_name(opts: Any) -> str:
    return f"{opts.app_label}_{opts.model_name}_secret"


def hand_over(request: HttpRequest, response: HttpResponse, secret: str, *, page: str) -> None:
    """Let the page at this address, in this session, show the secret once within SECONDS."""
    key, nonce = AESGCM.generate_key(_KEY_BITS), secrets.token_bytes(_NONCE_BYTES)
    sealed = nonce + AESGCM(key).encrypt(nonce, secret.encode(), page.encode())
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
    """Return the secret that was handed over to the requested page; None if it was shown already, or too late."""
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
