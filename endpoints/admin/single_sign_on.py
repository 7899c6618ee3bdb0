"""The pages of single sign-on: to the provider, back from it, out of it, and in words why somebody is not let in.

Only an installation with OIDC_ISSUER has these addresses.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlencode

import structlog
from django.conf import settings
from django.contrib import auth
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.loader import render_to_string
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET
from mozilla_django_oidc.views import OIDCAuthenticationRequestView

from endpoints.access.identity_provider import (
    PROVIDER,
    PROVIDER_TURNS,
    LoginNotVerified,
    LoginRefused,
    ProviderUnavailable,
)
from endpoints.access.single_sign_on import (
    CALLBACK_URL_NAME,
    AccountInactive,
    NoRole,
    SingleSignOnBackend,
    forget_ended_sessions,
    library_setting,
)

LOGIN_SECONDS: Final = 600  # between the click and the way back
_BACKEND: Final = f"{SingleSignOnBackend.__module__}.{SingleSignOnBackend.__qualname__}"
# Of the library: the logins that this browser has begun, by state, and the page that it wanted to see.
_BEGUN, _NEXT = "oidc_states", "oidc_login_next"
_RETRY_SECONDS: Final = 30

logger = structlog.get_logger(__name__)


class _Begin(OIDCAuthenticationRequestView):  # type: ignore[misc]  # ships no types
    """The library's redirect, with state, nonce and PKCE (RFC 7636) kept in the session."""

    get_settings = staticmethod(library_setting)


def _told(view: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Answer GET in a turn, so that few threads wait for the provider, and a refused login with a page."""

    def answer(request: HttpRequest) -> HttpResponse:
        try:
            with PROVIDER_TURNS.turn():
                return view(request)
        except LoginRefused as refusal:
            logger.warning("sso_refused", refusal=type(refusal).__name__, reason=str(refusal))
            return _refusal_page(refusal)

    return require_GET(never_cache(answer))


@_told
def begin(request: HttpRequest) -> HttpResponse:
    """Send the browser to the provider; a provider that is gone is noticed before."""
    response: HttpResponse = _Begin.as_view()(request)
    if not request.user.is_authenticated:
        request.session.set_expiry(LOGIN_SECONDS)
    forget_ended_sessions()
    return response


@_told
def callback(request: HttpRequest) -> HttpResponse:
    """Log in whom the provider sends back, in a session with a new key, and go on to the page that was wanted."""
    begun = request.session.get(_BEGUN, {}).pop(request.GET.get("state", ""), None)
    if begun is None:
        raise LoginNotVerified("No login with this state was begun in this browser.")
    request.session.save()  # a state counts once, whatever comes of it
    if request.GET.get("iss", settings.OIDC_ISSUER) != settings.OIDC_ISSUER:  # RFC 9207: another provider's answer
        raise LoginNotVerified("The answer is another provider's.")
    if "code" not in request.GET:
        raise LoginNotVerified(f"The provider answers {request.GET.get('error', 'nothing')[:60]!r}.")
    person = SingleSignOnBackend().authenticate(
        request, code=request.GET["code"], nonce=begun["nonce"], code_verifier=begun["code_verifier"]
    )
    wanted = request.session.get(_NEXT) or reverse("admin:index")
    request.session.flush()  # also of the same person: by itself, Django keeps the key then
    auth.login(request, person, backend=_BACKEND)
    # A moment and not a number of seconds, which every page would begin anew.
    request.session.set_expiry(timezone.now() + timedelta(seconds=settings.OIDC_SESSION_SECONDS))
    return HttpResponseRedirect(wanted)


@_told
def end(request: HttpRequest) -> HttpResponse:
    """Send the browser to the provider's own logout (OpenID Connect RP-Initiated Logout 1.0), if it has one."""
    address = PROVIDER.metadata().end_session_endpoint
    login = reverse("admin:login")
    if not address:
        return HttpResponseRedirect(login)
    back = request.build_absolute_uri(login)
    query = urlencode({"client_id": settings.OIDC_CLIENT_ID, "post_logout_redirect_uri": back})
    return HttpResponseRedirect(f"{address}{'&' if '?' in address else '?'}{query}")


def _refusal_page(refusal: LoginRefused) -> HttpResponse:
    """Return a page made without the request, as for any refused login."""
    statuses = {ProviderUnavailable: 503, LoginNotVerified: 400, NoRole: 403, AccountInactive: 403}
    groups = getattr(refusal, "groups", ())
    context: dict[str, Any] = {
        "refusal": type(refusal).__name__,
        "name": settings.OIDC_NAME,
        "only": settings.OIDC_ONLY,
        "claim": settings.OIDC_GROUPS_CLAIM,
        "sent_none": groups is None,
        "groups": sorted(groups or ())[:50],
    }
    response = HttpResponse(render_to_string("endpoints/sso_refused.html", context), status=statuses[type(refusal)])
    if isinstance(refusal, ProviderUnavailable):
        response["Retry-After"] = str(_RETRY_SECONDS)
    return response


def sso_urls() -> list[URLPattern]:
    return [
        path("", begin, name="sso"),
        path("callback/", callback, name=CALLBACK_URL_NAME),
        path("logout/", end, name="sso-logout"),
    ]
