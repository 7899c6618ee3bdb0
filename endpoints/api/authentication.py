"""Finds the caller by the access token, or browser token, in `X-API-KEY` or `Authorization: Bearer`.

Some clients can send it only in the address, `?api_key=…`. `take_token_from_address` makes a header of it before
anything reads or logs the address.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any, Final
from urllib.parse import unquote_plus

import structlog
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from endpoints.access.access_tokens import authenticate_access_token
from endpoints.access.browser_tokens import authenticate_browser_token, is_browser_token
from endpoints.access.secrets import Caller
from endpoints.access.token_limits import admit
from endpoints.errors import NotAuthenticated

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
    structlog.contextvars.bind_contextvars(access_token=caller.name, access_token_prefix=caller.prefix)
    return caller


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
