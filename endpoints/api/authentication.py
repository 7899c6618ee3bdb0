"""Finds the caller by the access token, or browser token, in `X-API-KEY` or `Authorization: Bearer`.

Some clients can send it only in the address, `?api_key=…`. `take_token_from_address` makes a header of it before
anything reads or logs the address.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Final
from urllib.parse import unquote_plus

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from config import logs
from endpoints.access.access_tokens import authenticate_access_token
from endpoints.access.browser_tokens import authenticate_browser_token, is_browser_token
from endpoints.access.secrets import Caller
from endpoints.access.token_limits import admit
from endpoints.api.replies import error_reply
from endpoints.errors import HTTPSRequired, NotAuthenticated

ADDRESS_PARAMETER: Final = "api_key"
# Not of WSGI: some servers put the whole address there too.
_WHOLE_ADDRESSES: Final = ("REQUEST_URI", "RAW_URI")


def authenticate(environ: Mapping[str, Any]) -> Caller:
    """Return the caller whose access token is in the request (WSGI's environ, PEP 3333). Raises NotAuthenticated."""
    secret = sent_credential(environ)
    if not secret:
        raise NotAuthenticated
    # As `is_browser_token`, without the call.
    caller = authenticate_browser_token(secret) if "." in secret else authenticate_access_token(secret)
    logs.bind(access_token=caller.name, access_token_prefix=caller.prefix)
    return caller


class InsecureTokenMiddleware:
    """Refuse an access token that came over plain HTTP, where only HTTPS is allowed.

    SecurityMiddleware, behind it, would redirect: the caller would never notice that each of its calls sends the access
    token in the clear first. Whether the access token is valid is not looked up.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response
        self._exempt = tuple(map(re.compile, settings.SECURE_REDIRECT_EXEMPT))

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if settings.SECURE_SSL_REDIRECT and not request.is_secure() and sent_credential(request.META):
            path = request.path.lstrip("/")
            if not any(pattern.search(path) for pattern in self._exempt):
                return error_reply(HTTPSRequired(), request.META["HTTP_X_REQUEST_ID"]).as_response()
        return self._get_response(request)


class AccessTokenAuthentication(BaseAuthentication):
    """Make `request.user` the Caller of the access token. Raises NotAuthenticated if it is missing or invalid."""

    def authenticate(self, request: Request) -> tuple[Caller, None]:
        caller = authenticate(request.META)
        admit(caller)
        return caller, None


def take_token_from_address(environ: MutableMapping[str, Any]) -> None:
    """Remove `api_key` from the query string; it becomes X-API-KEY unless a header carries an access token.

    If it is sent more than once with different values, none of them counts.
    """
    kept: list[str] = []
    sent: list[str] = []
    for field in environ.get("QUERY_STRING", "").split("&"):
        name, _, value = field.partition("=")
        if unquote_plus(name) == ADDRESS_PARAMETER:
            sent.append(unquote_plus(value).strip())
        else:
            kept.append(field)
    if not sent:
        return
    environ["QUERY_STRING"] = "&".join(kept)
    for name in _WHOLE_ADDRESSES:
        environ.pop(name, None)
    values = {value for value in sent if value}
    # A browser token is for pages, which can send headers: in an address it does not count.
    if not sent_credential(environ) and len(values) == 1 and not is_browser_token(value := values.pop()):
        environ["HTTP_X_API_KEY"] = value


def sent_credential(environ: Mapping[str, Any]) -> str:
    """Return the access token or browser token of the headers, unchecked; "" without one."""
    header = environ.get("HTTP_X_API_KEY", "").strip()
    if header:
        return str(header)
    scheme, _, credentials = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    return str(credentials.strip()) if scheme.lower() == "bearer" else ""
