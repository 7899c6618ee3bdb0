"""The provider of OpenID Connect that OIDC_ISSUER names: its addresses, its keys, and what its ID tokens say.

Only an installation with OIDC_ISSUER imports this module, which needs the extra `sso`. The provider may be slow or
gone: each request to it has a timeout, and few threads of a process wait for it at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import jwt
import requests
import structlog
from django.conf import settings
from django.utils.crypto import constant_time_compare

from endpoints.access.logins import PasswordTurns

TIMEOUT: Final = (3.0, 5.0)  # seconds: to connect, and between two packets
# For so long a provider that has answered is taken to be there, and its addresses to be the same.
METADATA_SECONDS: Final = 30.0
SKEW_SECONDS: Final = 60  # by which the provider's clock may differ
# The key decides which of the two (RFC 8725 section 3.1). None of them is made with the client's secret.
ALGORITHMS: Final = ("RS256", "ES256")
PROVIDER_TURNS: Final = PasswordTurns(at_once=2, waiting=2, wait_seconds=2.0)  # of the 16 threads of a process

logger = structlog.get_logger(__name__)


class LoginRefused(Exception):
    """The provider's answer lets nobody in; the text is for the log."""


class ProviderUnavailable(LoginRefused):
    """The provider does not respond, or with something that is no answer."""


class LoginNotVerified(LoginRefused):
    """What came back is not proof that this provider has logged this browser in."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """The addresses of a provider (OpenID Connect Discovery, section 3); "" where it has none."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str
    end_session_endpoint: str
    sends_secret_in_body: bool  # otherwise as HTTP Basic, the default of section 3


class Provider:
    """What a process knows of the provider, asked for when it is needed and then remembered for a short time."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._known: tuple[str, float, Metadata] = ("", 0.0, Metadata("", "", "", "", "", False))

    def metadata(self) -> Metadata:
        """Return the addresses. Raises ProviderUnavailable."""
        with self._turn:
            issuer, until, metadata = self._known
            if issuer != settings.OIDC_ISSUER or time.monotonic() >= until:
                metadata = read_metadata(_discovery(settings.OIDC_ISSUER), issuer=settings.OIDC_ISSUER)
                self._known = (settings.OIDC_ISSUER, time.monotonic() + METADATA_SECONDS, metadata)
            return metadata


PROVIDER: Final = Provider()


def _discovery(issuer: str) -> Any:
    return fetch_json(f"{issuer.rstrip('/')}/.well-known/openid-configuration")


def read_metadata(document: Any, *, issuer: str) -> Metadata:
    """Return the addresses in a provider's document. Raises ProviderUnavailable unless it is this issuer's.

    The issuer must be the same to the letter (Discovery, section 4.3), and one on HTTPS has no address without it.
    """
    if not isinstance(document, dict) or document.get("issuer") != issuer:
        said = document.get("issuer") if isinstance(document, dict) else None
        raise ProviderUnavailable(f"OIDC_ISSUER is {issuer!r}, but the provider calls itself {said!r}.")
    required = ("authorization_endpoint", "token_endpoint", "jwks_uri")
    optional = ("userinfo_endpoint", "end_session_endpoint")
    addresses = {name: document.get(name) or "" for name in (*required, *optional)}
    scheme = urlsplit(issuer).scheme
    for name, address in addresses.items():
        is_usable = isinstance(address, str) and urlsplit(address).scheme in {scheme, "https"}
        if not is_usable and (address or name in required):
            raise ProviderUnavailable(f"The provider's {name} is not an address on {scheme}: {address!r}.")
    methods = document.get("token_endpoint_auth_methods_supported") or []
    return Metadata(**addresses, sends_secret_in_body="client_secret_post" in methods)


def fetch_json(address: str, *, access_token: str = "") -> Any:
    """Return the JSON at an address of the provider. Raises ProviderUnavailable."""
    headers = {"Accept": "application/json"}
    if access_token:
        headers["Authorization"] = f"Bearer {access_token}"
    try:
        response = requests.get(address, headers=headers, timeout=TIMEOUT, allow_redirects=False)
        if response.status_code != 200:
            raise ProviderUnavailable(f"{address} answers with {response.status_code}.")
        return response.json()
    except (requests.RequestException, ValueError) as error:
        raise ProviderUnavailable(f"{address}: {type(error).__name__}.") from error


def fetch_keys(metadata: Metadata) -> list[jwt.PyJWK]:
    """Return the keys that sign ID tokens now, asked for at each login: a withdrawn key no longer counts."""
    document = fetch_json(metadata.jwks_uri)
    try:
        return jwt.PyJWKSet.from_dict(document).keys
    except (jwt.PyJWTError, AttributeError, TypeError) as error:
        raise ProviderUnavailable(f"{metadata.jwks_uri} has no usable keys.") from error


def verify_id_token(token: str, *, keys: Sequence[jwt.PyJWK], nonce: str) -> Mapping[str, Any]:
    """Return the claims of an ID token (OpenID Connect Core, section 3.1.3.7). Raises LoginNotVerified.

    It must be signed by one of the keys, be of OIDC_ISSUER, for OIDC_CLIENT_ID, not expired, and have the nonce of
    the login that this browser began.
    """
    try:
        kid = jwt.get_unverified_header(token).get("kid")
        claims = _decode(token, [key for key in keys if kid is None or key.key_id == kid])
    except jwt.PyJWTError as error:
        raise LoginNotVerified(f"The ID token is refused: {type(error).__name__}.") from error
    if not constant_time_compare(str(claims.get("nonce", "")), nonce) or not nonce:
        raise LoginNotVerified("The nonce of the ID token is another one.")
    audience = claims["aud"] if isinstance(claims["aud"], list) else [claims["aud"]]
    authorized = claims.get("azp", settings.OIDC_CLIENT_ID if len(audience) == 1 else None)
    if authorized != settings.OIDC_CLIENT_ID:
        raise LoginNotVerified("The ID token was made for another client.")
    if not 0 < len(claims["sub"]) <= 255 or "\0" in claims["sub"]:
        raise LoginNotVerified("The subject of the ID token is empty or too long.")
    return claims


def _decode(token: str, keys: Sequence[jwt.PyJWK]) -> dict[str, Any]:
    failure: jwt.PyJWTError = jwt.InvalidKeyError("no key of the provider has this key id")
    for key in keys:
        # The key's own algorithm alone: a public key never verifies an HMAC.
        if key.algorithm_name not in ALGORITHMS or key.public_key_use not in (None, "sig"):
            continue
        try:
            return jwt.decode(
                token,
                key,
                algorithms=[key.algorithm_name],
                audience=settings.OIDC_CLIENT_ID,
                issuer=settings.OIDC_ISSUER,
                leeway=SKEW_SECONDS,
                options={"require": ["iss", "sub", "aud", "exp", "iat"]},
            )
        except (jwt.InvalidSignatureError, jwt.InvalidAlgorithmError) as error:
            failure = error  # without a key id any of the keys may be the one
    raise failure
