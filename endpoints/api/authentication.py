"""Who calls: the access token of a request, from `X-API-KEY` or `Authorization: Bearer`, never the query string."""

from __future__ import annotations

from typing import Final

import structlog
from django.http import HttpRequest
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from endpoints.access_tokens import Caller
from endpoints.errors import NotAuthenticated
from endpoints.services import admit, authenticate_access_token

_CALLER: Final = "endpoints.caller"  # in the request's environ, whose other names no header can reach


class AccessTokenAuthentication(BaseAuthentication):
    """Make `request.user` the Caller of the access token. Raises NotAuthenticated when there is none or it fails."""

    def authenticate(self, request: Request) -> tuple[Caller, None]:
        caller = authenticate_access_token(_secret(request))
        structlog.contextvars.bind_contextvars(access_token=caller.name, access_token_prefix=caller.prefix)
        request.META[_CALLER] = caller  # known from here on, also when the next line refuses the call
        admit(caller)
        return caller, None


def caller_of(request: HttpRequest) -> Caller | None:
    """Return whose access token came with this request, once that was looked at."""
    caller: Caller | None = request.META.get(_CALLER)
    return caller


def _secret(request: Request) -> str:
    header = request.META.get("HTTP_X_API_KEY", "").strip()
    if header:
        return str(header)
    scheme, _, credentials = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
    if scheme.lower() == "bearer" and credentials.strip():
        return str(credentials.strip())
    raise NotAuthenticated
