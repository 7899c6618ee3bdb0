"""Who a person is whom the provider of OpenID Connect has logged in, and which role the person has.

A person is found by issuer and subject alone, never by an e-mail address or a name: whoever can choose those at the
provider must not become somebody else here. The role comes from the groups that the provider sends, at every login;
without a mapped group the person loses the role of before.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, Final

import requests
import structlog
from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import Group, User
from django.db import IntegrityError, connection, transaction
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from mozilla_django_oidc.auth import OIDCAuthenticationBackend

from config.setting_values import ROLE_NAMES, SUPERUSER
from endpoints.access.admin_roles import keep_roles
from endpoints.access.identity_provider import (
    PROVIDER,
    TIMEOUT,
    LoginNotVerified,
    LoginRefused,
    Metadata,
    ProviderUnavailable,
    fetch_json,
    fetch_keys,
    verify_id_token,
)
from endpoints.models import Identity

CALLBACK_URL_NAME: Final = "sso-callback"
_NO_NAME: Final = re.compile(r"[^\w.@+-]+")  # what Django's form of a user does not take
_NAME_CHARACTERS: Final = 140  # of Django's 150, with room for a number

logger = structlog.get_logger(__name__)


class NoRole(LoginRefused):
    """None of the person's groups has a role here; `groups` is None if the provider sent no such claim."""

    def __init__(self, groups: Sequence[str] | None) -> None:
        super().__init__("no group with a role")
        self.groups = groups


class AccountInactive(LoginRefused):
    """An owner has set the person's account inactive."""


# --- Groups and roles -------------------------------------------------------------------------------------------------
def groups_of(claims: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    """Return the groups in a claim, None if there is no such claim.

    A name with dots that is no claim itself leads into objects: `realm_access.roles`. A text is one group.
    """
    value: Any = claims.get(name)
    if value is None and "." in name:
        value = claims
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return None
    return tuple(group for group in ([value] if isinstance(value, str) else _list(value)) if isinstance(group, str))


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def role_of(groups: Sequence[str]) -> str | None:
    """Return the role that allows most out of those of the groups, by OIDC_ROLES."""
    roles = {settings.OIDC_ROLES[group] for group in groups if group in settings.OIDC_ROLES}
    return max(roles, key=ROLE_NAMES.index, default=None)


# --- Persons ----------------------------------------------------------------------------------------------------------
def person_of(claims: Mapping[str, Any]) -> User:
    """Return the person of verified claims with the role of the groups in them, made at the first login.

    Raises NoRole, after the role of before has been taken away, and AccountInactive.
    """
    groups = groups_of(claims, settings.OIDC_GROUPS_CLAIM)
    role = role_of(groups or ())
    identity = Identity.objects.filter(issuer=settings.OIDC_ISSUER, subject=claims["sub"]).first()
    if role is None:
        if identity is not None:
            _give_role(identity.user_id, None)
        raise NoRole(groups)
    if identity is None:
        identity = _create(claims)
    person = _give_role(identity.user_id, role)
    if not person.is_active:
        raise AccountInactive("the account is inactive")
    return person


def _create(claims: Mapping[str, Any]) -> Identity:
    """Make the person of a first login: with no password, and with a name that nobody has yet."""
    subject = {"issuer": settings.OIDC_ISSUER, "subject": claims["sub"]}
    wanted = _wanted_name(claims)
    number = 1
    while True:
        name = wanted if number == 1 else f"{wanted}-{number}"
        number += 1
        # Not "Root" either where there is "root": versions and histories would name the wrong person.
        if User.objects.filter(username__iexact=name).exists():
            continue
        try:
            with transaction.atomic():
                user = User.objects.create_user(name, email=_email(claims), **_names(claims))
                return Identity.objects.create(user=user, **subject)
        except IntegrityError:  # somebody else has just taken the name, or the same person logs in twice at once
            found = Identity.objects.filter(**subject).first()
            if found is not None:
                return found


def _wanted_name(claims: Mapping[str, Any]) -> str:
    given = str(claims.get("preferred_username") or _email(claims) or "")
    name = _NO_NAME.sub("-", unicodedata.normalize("NFKC", given)).strip("-")[:_NAME_CHARACTERS]
    digest = hashlib.sha256(f"{settings.OIDC_ISSUER}\n{claims['sub']}".encode()).hexdigest()
    return name or f"sso-{digest[:12]}"


def _names(claims: Mapping[str, Any]) -> dict[str, str]:
    names = {"first_name": claims.get("given_name"), "last_name": claims.get("family_name")}
    return {field: name[:150] for field, name in names.items() if isinstance(name, str) and "\0" not in name}


def _email(claims: Mapping[str, Any]) -> str:
    """Return the e-mail address if the provider has verified it. It is shown, and never looked for."""
    address = claims.get("email")
    is_shown = isinstance(address, str) and claims.get("email_verified") is True
    return str(address) if is_shown and len(str(address)) <= 254 and "\0" not in str(address) else ""


def _give_role(user_id: int, role: str | None) -> User:
    """Give the person this role and no other right. What an owner has changed by hand meanwhile is undone."""
    if role in ROLE_NAMES[:-1] and not Group.objects.filter(name=role).exists():
        keep_roles()
    with transaction.atomic():
        person = User.objects.select_for_update().get(pk=user_id)
        before = (person.is_staff, person.is_superuser, set(person.groups.values_list("name", flat=True)))
        wanted = (role is not None, role == SUPERUSER, {role} - {None, SUPERUSER})
        if before != wanted:
            person.is_staff, person.is_superuser = wanted[:2]
            person.save(update_fields=["is_staff", "is_superuser"])
            person.groups.set(Group.objects.filter(name__in=wanted[2]))
            logger.warning("sso_role_changed", user=person.pk, role=role or "none")
        person.user_permissions.clear()
    return person


# --- Sessions ---------------------------------------------------------------------------------------------------------
# Rows that another login is forgetting are left to it.
_FORGET: Final = """
DELETE FROM django_session WHERE session_key IN (
    SELECT session_key FROM django_session WHERE expire_date < %s LIMIT 100 FOR UPDATE SKIP LOCKED)
"""


def forget_ended_sessions() -> None:
    """Delete some sessions that are over: each visitor who is sent to the provider has one, also those who give up."""
    with connection.cursor() as cursor:
        cursor.execute(_FORGET, [timezone.now()])


# --- Backends of Django's logins --------------------------------------------------------------------------------------
def library_setting(name: str, *default: Any) -> Any:
    """Return a setting of mozilla-django-oidc, which expects the provider's addresses among Django's settings."""
    match name:
        case "OIDC_OP_AUTHORIZATION_ENDPOINT":
            return PROVIDER.metadata().authorization_endpoint
        case "OIDC_RP_CLIENT_ID":
            return settings.OIDC_CLIENT_ID
        case "OIDC_RP_SCOPES":
            return settings.OIDC_SCOPES
        case "OIDC_AUTHENTICATION_CALLBACK_URL":
            return CALLBACK_URL_NAME
        case "OIDC_TOKEN_USE_BASIC_AUTH":
            return not PROVIDER.metadata().sends_secret_in_body
        case "OIDC_TIMEOUT":
            return TIMEOUT
        case "OIDC_USE_PKCE":
            return True
    return default[0]


class SingleSignOnBackend(OIDCAuthenticationBackend):  # type: ignore[misc]  # ships no types
    """Logs in whom the provider vouches for; of the library it takes how a code is redeemed.

    Its sessions end if the account is set inactive or OIDC_ISSUER names another provider.
    """

    get_settings = staticmethod(library_setting)

    def __init__(self) -> None:
        # Without the library's own, which reads the provider's addresses: Django makes a backend for each request.
        self.UserModel = User

    # Nothing but these arguments, so that Django does not offer it passwords.
    def authenticate(self, request: HttpRequest, *, code: str, nonce: str, code_verifier: str) -> User:
        """Return the person of a code that the provider gave this browser. Raises LoginRefused."""
        metadata = PROVIDER.metadata()
        tokens = self._redeem(request, metadata, code=code, code_verifier=code_verifier)
        claims = verify_id_token(str(tokens.get("id_token", "")), keys=fetch_keys(metadata), nonce=nonce)
        return person_of(_with_groups(claims, metadata, str(tokens.get("access_token", ""))))

    def _redeem(self, request: HttpRequest, metadata: Metadata, *, code: str, code_verifier: str) -> dict[str, Any]:
        self.OIDC_OP_TOKEN_ENDPOINT = metadata.token_endpoint
        try:
            tokens = self.get_token(
                {
                    "client_id": settings.OIDC_CLIENT_ID,
                    "client_secret": settings.OIDC_CLIENT_SECRET,
                    "grant_type": "authorization_code",
                    "code": code,
                    "code_verifier": code_verifier,
                    "redirect_uri": request.build_absolute_uri(reverse(CALLBACK_URL_NAME)),
                }
            )
        except requests.HTTPError as error:
            status = error.response.status_code if error.response is not None else 0
            if 400 <= status < 500:  # RFC 6749 section 5.2: the code, or the client's secret
                raise LoginNotVerified(f"The provider refuses the code with {status}.") from None
            raise ProviderUnavailable(f"The token endpoint answers with {status}.") from None
        except (requests.RequestException, ValueError) as error:
            raise ProviderUnavailable(f"The token endpoint: {type(error).__name__}.") from None
        if not isinstance(tokens, dict):
            raise ProviderUnavailable("The token endpoint's answer is not an object.")
        return tokens

    def get_user(self, user_id: int) -> User | None:
        found = User.objects.filter(pk=user_id, is_active=True, identity__issuer=settings.OIDC_ISSUER)
        return found.first()


def _with_groups(claims: Mapping[str, Any], metadata: Metadata, access_token: str) -> Mapping[str, Any]:
    """Return the claims with those of the userinfo endpoint, which is asked only if the ID token has no groups."""
    if groups_of(claims, settings.OIDC_GROUPS_CLAIM) is not None or not metadata.userinfo_endpoint:
        return claims
    more = fetch_json(metadata.userinfo_endpoint, access_token=access_token)
    # Core, section 5.3.2: the answer could be about another person.
    if not isinstance(more, dict) or more.get("sub") != claims["sub"]:
        raise LoginNotVerified("The userinfo endpoint answers for another subject.")
    return {**more, **claims}


class PasswordBackend(ModelBackend):
    """Django's passwords beside single sign-on: none for the provider's people, and with OIDC_ONLY superusers' alone.

    A password that does not count is refused like a wrong one, and counted like one. Otherwise somebody whom the
    provider no longer lets in would come in by a password, with the role of the last login.
    """

    def authenticate(self, request: HttpRequest | None, *args: Any, **kwargs: Any) -> Any:
        person = super().authenticate(request, *args, **kwargs)
        return None if person is not None and Identity.objects.filter(user_id=person.pk).exists() else person

    def user_can_authenticate(self, user: Any) -> bool:
        return super().user_can_authenticate(user) and (not settings.OIDC_ONLY or bool(user.is_superuser))
