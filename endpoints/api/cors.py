"""Which pages of other origins may call: those of the setting, and on the query route those of access tokens.

A preflight carries no token (Fetch standard, CORS-preflight fetch), so it is allowed to every origin of an access token
that may issue browser tokens; it says nothing about endpoints. The call itself is allowed to the origins of the access
token that issued its browser token alone: the browser keeps the answer from any other page.
"""

from __future__ import annotations

from typing import Any, Final

from corsheaders.middleware import CorsMiddleware as SettingsCorsMiddleware
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpRequest, HttpResponse

from endpoints.access.browser_tokens import is_allowed_origin, is_browser_token
from endpoints.access.known_records import KNOWN_RECORDS
from endpoints.api.authentication import sent_credential
from endpoints.errors import DatabaseUnavailable
from endpoints.models.credentials import MAX_ORIGIN_LENGTH

_QUERY_ROUTES: Final = ("/api/endpoints/query/", "/endpoints/query/")


class CorsMiddleware(SettingsCorsMiddleware):
    """django-cors-headers, which asks here about origins that are not in its settings."""

    def check_signal(self, request: HttpRequest) -> bool:
        """Tell whether an access token allows the request's origin to call."""
        return is_allowed_by_token(request)


_MIDDLEWARE: Final = CorsMiddleware(lambda request: HttpResponse())


def cors_headers(environ: dict[str, Any]) -> dict[str, str]:
    """Return the headers that the middleware gives an answer to this request (WSGI), for answers made before Django."""
    if "HTTP_ORIGIN" not in environ:
        return {}
    headers = _MIDDLEWARE.add_response_headers(WSGIRequest(environ), HttpResponse()).headers
    return {name: headers[name] for name in headers if name == "Vary" or name.startswith("access-control-")}


def is_allowed_by_token(request: HttpRequest) -> bool:
    """Tell whether an access token allows a page of the request's origin to make it; never raises."""
    origin = request.META.get("HTTP_ORIGIN", "")
    if not origin or len(origin) > MAX_ORIGIN_LENGTH or not request.path_info.startswith(_QUERY_ROUTES):
        return False
    try:
        if request.method == "OPTIONS":
            return origin in KNOWN_RECORDS.allowed_origins()
        credential = sent_credential(request.META)
        return is_browser_token(credential) and is_allowed_origin(credential, origin)
    except DatabaseUnavailable:
        return False
