"""Finds the caller by the access token in `X-API-KEY` or `Authorization: Bearer`, never in the query string."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from endpoints.access.access_tokens import authenticate_access_token
from endpoints.access.secrets import Caller
from endpoints.access.token_limits import admit
from endpoints.errors import NotAuthenticated


def authenticate(environ: Mapping[str, Any]) -> Caller:
    """Return the caller whose access token is in the request (WSGI's environ, PEP 3333). Raises NotAuthenticated."""
    caller = authenticate_access_token(_secret(environ))
    structlog.contextvars.bind_contextvars(access_token=caller.name, access_token_prefix=caller.prefix)
    return caller


class AccessTokenAuthentication(BaseAuthentication):
    """Make `request.user` the Caller of the access token. Raises NotAuthenticated if it is missing or invalid."""

    def authenticate(self, request: Request) -> tuple[Caller, None]:
        caller = authenticate(request.META)
        admit(caller)
        return caller, None


def _secret(environ: Mapping[str, Any]) -> str:
    header = environ.get("HTTP_X_API_KEY", "").strip()
    if header:
        return str(header)
    scheme, _, credentials = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    if scheme.lower() == "bearer" and credentials.strip():
        return str(credentials.strip())
    raise NotAuthenticated
