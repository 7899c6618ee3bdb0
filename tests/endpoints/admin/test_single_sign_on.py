"""Logging in to the admin through a real provider of OpenID Connect: roles, refusals, and what gets nobody in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import jwt
import pytest
from axes.models import AccessAttempt
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from config.setting_values import read_roles
from endpoints.access import identity_provider
from endpoints.access.logins import PASSWORD_TURNS
from endpoints.models import Identity
from tests.endpoints.admin import sso_addresses
from tests.live.identity_provider import CLIENT_ID, CLIENT_SECRET, SETTINGS, IdentityProvider
from tests.live.installation import free_port

pytestmark = pytest.mark.django_db
BEGIN, CALLBACK, LOGIN = "/admin/sso/", "/admin/sso/callback/", "/admin/login/"
PHRASE = "a pass phrase"


@pytest.fixture(scope="module")
def running_provider() -> Iterator[IdentityProvider]:
    with IdentityProvider() as provider:
        yield provider


@pytest.fixture
def provider(running_provider: IdentityProvider, settings: Any) -> Iterator[IdentityProvider]:
    """The provider with Anna, an editor, and the settings that name it."""
    for name, value in running_provider.environment.items():
        setattr(settings, name, value)
    settings.OIDC_ROLES = read_roles(SETTINGS["OIDC_ROLES"], setting="OIDC_ROLES")
    settings.ROOT_URLCONF = sso_addresses.__name__
    settings.AUTHENTICATION_BACKENDS = [
        "axes.backends.AxesStandaloneBackend",
        "endpoints.access.single_sign_on.PasswordBackend",
        "endpoints.access.single_sign_on.SingleSignOnBackend",
    ]
    running_provider.change_answers()
    running_provider.add("anna-1", groups=["staff", "log-editors"], preferred_username="anna", given_name="Anna")
    yield running_provider
    running_provider.change_answers()
    identity_provider.PROVIDER.__init__()  # type: ignore[misc]  # forgets what it has been told


def begin(client: Client, *, next_page: str | None = None) -> str:
    """Click on "Log in with …"; return where that leads."""
    answer = client.get(BEGIN + (f"?{urlencode({'next': next_page})}" if next_page else ""))
    assert answer.status_code == 302
    return str(answer["Location"])


def come_back(client: Client, address: str) -> Any:
    """Follow the provider's redirect."""
    parts = urlsplit(address)
    assert (parts.netloc, parts.path) == ("testserver", CALLBACK)
    return client.get(f"{parts.path}?{parts.query}")


def log_in(client: Client, provider: IdentityProvider, subject: str = "anna-1", **options: Any) -> Any:
    return come_back(client, provider.log_in(begin(client, **options), subject))


def is_in(client: Client) -> bool:
    return bool(client.get("/admin/").status_code == 200)


def person(subject: str = "anna-1") -> User:
    return Identity.objects.get(subject=subject).user


def role(subject: str = "anna-1") -> tuple[bool, bool, list[str]]:
    found = person(subject)
    return found.is_staff, found.is_superuser, list(found.groups.values_list("name", flat=True))


class TestLogin:
    def test_somebody_new_comes_in_with_the_role_of_a_group(self, client: Client, provider: IdentityProvider) -> None:
        answer = log_in(client, provider)
        assert (answer.status_code, answer["Location"]) == (302, "/admin/")
        assert is_in(client)
        assert role() == (True, False, ["editor"])
        assert (person().username, person().first_name) == ("anna", "Anna")
        assert not person().has_usable_password()

    def test_the_session_gets_a_new_key_and_an_end(self, client: Client, provider: IdentityProvider) -> None:
        address = begin(client)
        before = client.session.session_key
        assert client.session.get_expiry_age() <= 600
        come_back(client, provider.log_in(address, "anna-1"))
        session = client.session
        assert session.session_key != before
        assert not Session.objects.filter(session_key=before).exists()
        assert 14_000 < session.get_expiry_age() <= 14_400
        end = session.get_expiry_date()
        session["any"] = "change"
        session.save()
        assert session.get_expiry_date() == end

    def test_sessions_of_those_who_gave_up_are_forgotten(self, client: Client, provider: IdentityProvider) -> None:
        begin(Client())
        log_in(client, provider)
        Session.objects.exclude(pk=client.session.session_key).update(expire_date=timezone.now())
        begin(Client())
        assert Session.objects.count() == 2
        assert is_in(client)

    def test_somebody_who_is_in_gets_a_new_session_too(self, client: Client, provider: IdentityProvider) -> None:
        log_in(client, provider)
        before = client.session.session_key
        log_in(client, provider)
        assert client.session.session_key != before
        assert is_in(client)

    def test_another_person_in_the_same_browser_finds_nothing_of_the_first(
        self, client: Client, provider: IdentityProvider
    ) -> None:
        provider.add("bert-2", groups=["log-viewers"])
        log_in(client, provider)
        session = client.session
        session["anna"] = "was here"
        session.save()
        log_in(client, provider, "bert-2")
        assert "anna" not in client.session
        assert client.session["_auth_user_id"] == str(person("bert-2").pk)

    def test_the_request_has_pkce_state_and_nonce_and_the_code_its_verifier(
        self, client: Client, provider: IdentityProvider
    ) -> None:
        address = begin(client)
        sent = {name: value for name, (value,) in parse_qs(urlsplit(address).query).items()}
        assert (sent["client_id"], sent["response_type"], sent["scope"]) == (CLIENT_ID, "code", "openid profile email")
        assert (sent["code_challenge_method"], len(sent["code_challenge"])) == ("S256", 43)
        assert len(sent["state"]) == len(sent["nonce"]) == 32
        assert sent["redirect_uri"] == f"http://testserver{CALLBACK}"
        come_back(client, provider.log_in(address, "anna-1"))
        form = provider.redeemed()[-1]
        assert 43 <= len(form["code_verifier"]) <= 128
        assert "client_secret" not in form  # as HTTP Basic, unless the provider names another way

    def test_the_secret_goes_into_the_body_if_the_provider_says_so(
        self, client: Client, provider: IdentityProvider
    ) -> None:
        provider.change_answers(discovery={"token_endpoint_auth_methods_supported": ["client_secret_post"]})
        log_in(client, provider)
        assert provider.redeemed()[-1]["client_secret"] == CLIENT_SECRET

    @pytest.mark.parametrize("key", ["rsa", "ec", "without kid"])
    def test_both_algorithms_and_keys_without_an_id_are_understood(
        self, client: Client, provider: IdentityProvider, key: str
    ) -> None:
        provider.change_answers(key=key)
        assert log_in(client, provider).status_code == 302

    def test_the_page_that_was_wanted_follows(self, client: Client, provider: IdentityProvider) -> None:
        wanted = "/admin/endpoints/endpoint/?q=logs.all"
        page = client.get(wanted, follow=True).content.decode()
        assert f'href="{BEGIN}?next={quote(wanted, safe="")}"' in page
        assert log_in(client, provider, next_page=wanted)["Location"] == wanted

    @pytest.mark.parametrize(
        "next_page",
        [
            "https://evil.example",
            "//evil.example/admin/",
            "\\\\evil.example",
            "javascript:alert(1)",
            "http:///evil.example",
        ],
    )
    def test_no_page_of_another_site_follows(self, client: Client, provider: IdentityProvider, next_page: str) -> None:
        assert log_in(client, provider, next_page=next_page)["Location"] == "/admin/"

    def test_groups_may_come_from_the_userinfo_endpoint_alone(self, client: Client, provider: IdentityProvider) -> None:
        provider.change_answers(claims={"groups": None})
        assert log_in(client, provider).status_code == 302
        assert role() == (True, False, ["editor"])

    def test_logging_out_ends_the_session_and_offers_the_providers_own_logout(
        self, client: Client, provider: IdentityProvider
    ) -> None:
        log_in(client, provider)
        page = client.post("/admin/logout/").content.decode()
        assert 'href="/admin/sso/logout/"' in page
        assert not is_in(client)
        there = urlsplit(client.get("/admin/sso/logout/")["Location"])
        assert f"http://{there.netloc}" == provider.issuer
        assert parse_qs(there.query)["post_logout_redirect_uri"] == [f"http://testserver{LOGIN}"]


class TestRoles:
    @pytest.mark.parametrize(
        ("groups", "expected"),
        [
            (["log-viewers"], (True, False, ["viewer"])),
            (["log-owners", "log-viewers"], (True, False, ["owner"])),
            (["log-admins", "log-owners"], (True, True, [])),
            ("log-viewers", (True, False, ["viewer"])),
        ],
    )
    def test_the_group_that_allows_most_decides(
        self, client: Client, provider: IdentityProvider, groups: object, expected: tuple[bool, bool, list[str]]
    ) -> None:
        provider.add("anna-1", groups=groups)
        log_in(client, provider)
        assert role() == expected

    def test_groups_are_read_again_at_every_login(self, client: Client, provider: IdentityProvider) -> None:
        provider.add("anna-1", groups=["log-admins"])
        log_in(client, provider)
        assert role() == (True, True, [])
        provider.add("anna-1", groups=["log-viewers"])
        log_in(client, provider)
        assert role() == (True, False, ["viewer"])

    def test_what_was_given_by_hand_lasts_until_the_next_login(
        self, client: Client, provider: IdentityProvider
    ) -> None:
        log_in(client, provider)
        person().groups.add(Group.objects.get(name="owner"), Group.objects.create(name="own kind"))
        User.objects.filter(pk=person().pk).update(is_superuser=True)
        log_in(client, provider)
        assert role() == (True, False, ["editor"])

    @pytest.mark.parametrize("groups", [["staff"], [], None, "", [["log-owners"]], {"log-owners": True}, 7, ["owner"]])
    def test_without_a_mapped_group_nobody_comes_in(
        self, client: Client, provider: IdentityProvider, groups: object
    ) -> None:
        provider.add("anna-1", **({} if groups is None else {"groups": groups}))
        answer = log_in(client, provider)
        assert answer.status_code == 403
        assert b"<h1>You have no role here</h1>" in answer.content
        assert not is_in(client)
        assert not User.objects.filter(username__startswith="anna").exists()

    def test_the_page_says_which_groups_came(self, client: Client, provider: IdentityProvider) -> None:
        provider.add("anna-1", groups=["staff", "<b>"])
        assert b"Your groups: &lt;b&gt;, staff." in log_in(client, provider).content
        provider.add("anna-1")
        assert "sent no claim “groups”" in log_in(client, provider).content.decode()

    @pytest.mark.parametrize("claims", [{"groups": ["staff"]}, {}])
    def test_who_has_lost_the_last_group_loses_the_role_and_every_session(
        self, provider: IdentityProvider, claims: dict[str, Any]
    ) -> None:
        here, there = Client(), Client()
        log_in(here, provider)
        provider.add("anna-1", **claims)
        assert is_in(here)
        assert log_in(there, provider).status_code == 403
        assert role() == (False, False, [])
        assert not is_in(here)

    def test_who_is_inactive_here_stays_out(self, client: Client, provider: IdentityProvider) -> None:
        log_in(client, provider)
        User.objects.filter(pk=person().pk).update(is_active=False)
        assert not is_in(client)
        answer = log_in(client, provider)
        assert (answer.status_code, b"<h1>Your account is inactive</h1>" in answer.content) == (403, True)
        assert not is_in(client)

    def test_a_claim_inside_another_one_can_have_the_groups(
        self, client: Client, provider: IdentityProvider, settings: Any
    ) -> None:
        settings.OIDC_GROUPS_CLAIM = "realm_access.roles"
        provider.add("anna-1", realm_access={"roles": ["log-owners"]}, groups=["log-admins"])
        log_in(client, provider)
        assert role() == (True, False, ["owner"])

    def test_a_role_that_is_missing_is_made(self, client: Client, provider: IdentityProvider) -> None:
        Group.objects.all().delete()
        log_in(client, provider)
        assert role() == (True, False, ["editor"])
        assert person().has_perm("endpoints.change_endpoint")


class TestWhoeverIsMeant:
    """A person is one subject of one issuer, whatever else the provider's claims say."""

    @pytest.mark.parametrize("verified", [True, False, None, "true"])
    def test_an_email_address_takes_no_account_over(
        self, client: Client, provider: IdentityProvider, verified: object
    ) -> None:
        boss = User.objects.create_superuser("boss", email="boss@example.org", password=PHRASE)
        claims = {"email": "boss@example.org", "email_verified": verified}
        provider.add("mallory", groups=["log-viewers"], **{k: v for k, v in claims.items() if v is not None})
        log_in(client, provider, "mallory")
        assert person("mallory") != boss
        assert role("mallory") == (True, False, ["viewer"])
        assert person("mallory").email == ("boss@example.org" if verified is True else "")

    def test_an_email_address_takes_no_other_person_of_the_provider_over(self, provider: IdentityProvider) -> None:
        provider.add("anna-1", groups=["log-owners"], email="anna@example.org", email_verified=True)
        provider.add("mallory", groups=["log-viewers"], email="anna@example.org", email_verified=True)
        log_in(Client(), provider)
        log_in(Client(), provider, "mallory")
        assert person("mallory") != person()
        assert role() == (True, False, ["owner"])

    @pytest.mark.parametrize("name", ["boss", "BOSS", "boss ", "bo\u017fs"])
    def test_a_user_name_takes_no_account_over_and_is_not_mistaken_for_it(
        self, client: Client, provider: IdentityProvider, name: str
    ) -> None:
        boss = User.objects.create_superuser("boss", password=PHRASE)
        provider.add("mallory", groups=["log-viewers"], preferred_username=name)
        log_in(client, provider, "mallory")
        assert person("mallory") != boss
        assert person("mallory").username.lower() == "boss-2"

    def test_a_new_name_and_address_at_the_provider_are_still_the_same_person(self, provider: IdentityProvider) -> None:
        log_in(Client(), provider)
        before = person().pk
        provider.add("anna-1", groups=["log-editors"], preferred_username="anna.miller", email="new@example.org")
        log_in(Client(), provider)
        assert (person().pk, person().username) == (before, "anna")

    def test_the_same_subject_of_another_issuer_is_somebody_else(
        self, client: Client, provider: IdentityProvider
    ) -> None:
        other = User.objects.create_superuser("other")
        Identity.objects.create(issuer="https://elsewhere.example", subject="anna-1", user=other)
        log_in(client, provider)
        assert Identity.objects.get(issuer=provider.issuer).user != other

    def test_sessions_of_another_issuer_end(self, client: Client, provider: IdentityProvider, settings: Any) -> None:
        log_in(client, provider)
        settings.OIDC_ISSUER = "https://elsewhere.example"
        assert not is_in(client)

    @pytest.mark.parametrize("name", ["", "   ", None, 7, "ä" * 300, "a\0b", "<script>", "../x"])
    def test_any_name_becomes_one_that_the_admin_takes(
        self, client: Client, provider: IdentityProvider, name: object
    ) -> None:
        provider.add("anna-1", groups=["log-editors"], preferred_username=name, given_name=name, email=name)
        log_in(client, provider)
        person().full_clean(exclude=["password"])

    def test_the_userinfo_of_another_subject_counts_nothing(self, client: Client, provider: IdentityProvider) -> None:
        provider.change_answers(claims={"groups": None}, userinfo={"sub": "boss", "groups": ["log-admins"]})
        assert log_in(client, provider).status_code == 400
        assert not is_in(client)


class TestForged:
    @pytest.mark.parametrize(
        "changes",
        [
            {"key": "foreign"},
            {"key": "unknown"},
            {"key": "secret"},
            {"key": "none"},
            {"claims": {"nonce": "another"}},
            {"claims": {"nonce": None}},
            {"claims": {"nonce": ""}},
            {"claims": {"iss": "https://evil.example"}},
            {"claims": {"iss": None}},
            {"claims": {"aud": "another-client"}},
            {"claims": {"aud": None}},
            {"claims": {"aud": [CLIENT_ID, "another-client"]}},
            {"claims": {"aud": [CLIENT_ID, "another-client"], "azp": "another-client"}},
            {"claims": {"azp": "another-client"}},
            {"claims": {"exp": 1_700_000_000}},
            {"claims": {"exp": None}},
            {"claims": {"iat": 4_000_000_000}},
            {"claims": {"nbf": 4_000_000_000}},
            {"claims": {"sub": None}},
            {"claims": {"sub": ""}},
            {"claims": {"sub": "x" * 256}},
            {"claims": {"sub": 7}},
        ],
        ids=str,
    )
    def test_an_id_token_that_is_not_for_this_login_lets_nobody_in(
        self, client: Client, provider: IdentityProvider, changes: dict[str, Any]
    ) -> None:
        provider.change_answers(**changes)
        answer = log_in(client, provider)
        assert answer.status_code == 400
        assert b"<h1>This login could not be checked</h1>" in answer.content
        assert not is_in(client)
        assert not Identity.objects.exists()

    def test_several_audiences_are_fine_if_this_client_is_the_authorized_one(
        self, client: Client, provider: IdentityProvider
    ) -> None:
        provider.change_answers(claims={"aud": [CLIENT_ID, "another-client"], "azp": CLIENT_ID})
        assert log_in(client, provider).status_code == 302

    def test_the_code_of_somebody_elses_browser_lets_nobody_in(self, provider: IdentityProvider) -> None:
        """A victim who follows an attacker's link is not logged in as the attacker."""
        attacker, victim = Client(), Client()
        address = provider.log_in(begin(attacker), "anna-1")
        assert come_back(victim, address).status_code == 400
        begin(victim)
        assert come_back(victim, address).status_code == 400
        assert not is_in(victim)

    def test_a_code_under_a_state_of_ones_own_lets_nobody_in(self, provider: IdentityProvider) -> None:
        """Code injection: the nonce and the verifier of PKCE are those of another login."""
        attacker, victim = Client(), Client()
        code = parse_qs(urlsplit(provider.log_in(begin(attacker), "anna-1")).query)["code"][0]
        state = parse_qs(urlsplit(begin(victim)).query)["state"][0]
        assert victim.get(CALLBACK, {"code": code, "state": state}).status_code == 400
        assert not is_in(victim)

    def test_an_answer_counts_once(self, provider: IdentityProvider) -> None:
        client = Client()
        address = provider.log_in(begin(client), "anna-1")
        assert come_back(client, address).status_code == 302
        client.post("/admin/logout/")
        assert come_back(client, address).status_code == 400
        assert not is_in(client)

    @pytest.mark.parametrize(
        "query", [{}, {"code": "x"}, {"state": "x"}, {"code": "x", "state": "x"}, {"error": "access_denied"}]
    )
    def test_an_answer_to_nothing_neither_lets_in_nor_throws_out(
        self, client: Client, provider: IdentityProvider, query: dict[str, str]
    ) -> None:
        assert client.get(CALLBACK, query).status_code == 400
        log_in(client, provider)
        assert client.get(CALLBACK, query).status_code == 400
        assert is_in(client)

    def test_a_login_that_was_cancelled_is_a_page_in_words(self, client: Client, provider: IdentityProvider) -> None:
        state = parse_qs(urlsplit(begin(client)).query)["state"][0]
        answer = client.get(CALLBACK, {"error": "access_denied", "state": state})
        assert (answer.status_code, f'href="{BEGIN}"' in answer.content.decode()) == (400, True)

    def test_another_providers_answer_is_refused(self, client: Client, provider: IdentityProvider) -> None:
        address = provider.log_in(begin(client), "anna-1")
        assert come_back(client, f"{address}&iss=https://evil.example").status_code == 400

    @pytest.mark.parametrize("address", [BEGIN, CALLBACK, "/admin/sso/logout/"])
    def test_only_get_is_taken(self, client: Client, provider: IdentityProvider, address: str) -> None:
        assert client.post(address).status_code == 405

    def test_no_password_login_is_offered_to_the_provider(self, client: Client, provider: IdentityProvider) -> None:
        before = len(provider.redeemed())
        client.post(f"{LOGIN}?code=x&state=x", {"username": "anna", "password": "x"})
        assert len(provider.redeemed()) == before


class TestCalls:
    """Single sign-on is for the admin: nothing of it opens an endpoint."""

    def test_neither_a_session_nor_a_token_of_the_provider_is_an_access_token(
        self, client: Client, provider: IdentityProvider
    ) -> None:
        provider.add("anna-1", groups=["log-admins"])
        log_in(client, provider)
        address = "/api/endpoints/query/logs.all?project=acme"
        token = jwt.encode({"iss": provider.issuer, "sub": "anna-1", "aud": CLIENT_ID}, "x" * 32)
        headers = ({}, {"X-API-KEY": token}, {"Authorization": f"Bearer {token}"})
        assert [client.get(address, headers=each).status_code for each in headers] == [401, 401, 401]

    def test_a_viewer_of_the_provider_may_do_no_more_than_any_viewer(
        self, client: Client, provider: IdentityProvider
    ) -> None:
        provider.add("anna-1", groups=["log-viewers"])
        log_in(client, provider)
        refused = ("/admin/endpoints/endpoint/add/", "/admin/endpoints/accesstoken/add/", "/admin/auth/user/")
        assert [client.get(address).status_code for address in refused] == [403, 403, 403]
        assert client.post("/admin/logs/rows/", {"source": "edge_logs"}).status_code == 403


class TestProviderGone:
    def check(self, answer: Any) -> None:
        assert (answer.status_code, answer["Retry-After"]) == (503, "30")
        page = answer.content.decode()
        assert "<h1>Example Login does not respond</h1>" in page
        assert f'href="{LOGIN}"' in page
        assert "default-src 'self'" in answer["Content-Security-Policy"]

    def test_passwords_still_work_and_the_page_says_so(
        self, client: Client, provider: IdentityProvider, settings: Any
    ) -> None:
        settings.OIDC_ISSUER = f"http://127.0.0.1:{free_port()}"
        assert client.get(LOGIN).status_code == 200
        answer = client.get(BEGIN)
        self.check(answer)
        assert b"If you have a password, log in with it." in answer.content
        User.objects.create_superuser("boss", password=PHRASE)
        assert client.post(LOGIN, {"username": "boss", "password": PHRASE}).status_code == 302

    @pytest.mark.parametrize("path", ["/oauth2/token", "/jwks", "/userinfo"])
    def test_on_the_way_back_too(self, client: Client, provider: IdentityProvider, path: str) -> None:
        provider.change_answers(failing=[path], claims={"groups": None})
        self.check(log_in(client, provider))
        assert not is_in(client)

    @pytest.mark.parametrize(
        "discovery",
        [
            {"issuer": "https://evil.example"},
            {"issuer": None},
            {"token_endpoint": None},
            {"jwks_uri": "file:///etc/passwd"},
            {"authorization_endpoint": "javascript:alert(1)"},
            {"userinfo_endpoint": ["http://x"]},
        ],
        ids=str,
    )
    def test_a_document_that_is_not_this_issuers_counts_as_no_answer(
        self, client: Client, provider: IdentityProvider, discovery: dict[str, Any]
    ) -> None:
        provider.change_answers(discovery=discovery)
        self.check(client.get(BEGIN))

    def test_few_wait_for_it_and_the_others_are_told(self, client: Client, provider: IdentityProvider) -> None:
        turns = identity_provider.PROVIDER_TURNS
        taken = [turns._places.acquire(blocking=False) for _ in range(4)]
        try:
            answer = client.get(BEGIN)
        finally:
            for _ in taken:
                turns._places.release()
        assert (all(taken), answer.status_code, answer["Retry-After"]) == (True, 503, "2")
        assert client.get(BEGIN).status_code == 302


class TestPasswords:
    @pytest.fixture
    def boss(self) -> User:
        return User.objects.create_superuser("boss", password=PHRASE)

    @pytest.fixture
    def editor(self) -> User:
        one = User.objects.create_user("editor", password=PHRASE, is_staff=True)
        one.groups.add(Group.objects.get(name="editor"))
        return one

    def try_password(self, name: str, password: str = PHRASE) -> int:
        return int(Client().post(LOGIN, {"username": name, "password": password}).status_code)

    def test_they_work_beside_it(self, provider: IdentityProvider, boss: User, editor: User) -> None:
        assert (self.try_password("boss"), self.try_password("editor")) == (302, 302)

    def test_alone_it_leaves_them_to_superusers(
        self, provider: IdentityProvider, boss: User, editor: User, settings: Any
    ) -> None:
        client = Client()
        assert client.post(LOGIN, {"username": "editor", "password": PHRASE}).status_code == 302
        settings.OIDC_ONLY = True
        assert (self.try_password("boss"), self.try_password("editor")) == (302, 200)
        assert not is_in(client)  # nor does a session from before go on
        assert AccessAttempt.objects.get().username == "editor"

    def test_a_person_of_the_provider_has_none_even_if_somebody_sets_one(
        self, provider: IdentityProvider, boss: User
    ) -> None:
        log_in(Client(), provider)
        anna = person()
        anna.set_password(PHRASE)
        anna.save()
        assert self.try_password("anna") == 200

    def test_refused_logins_of_the_provider_lock_nobody_out(
        self, provider: IdentityProvider, boss: User, settings: Any
    ) -> None:
        """There is nothing to guess, and an office with one address would lock itself out."""
        settings.AXES_FAILURE_LIMIT = 2
        provider.add("nobody", groups=[])
        client = Client()
        for _ in range(3):
            assert log_in(client, provider, "nobody").status_code == 403
        assert not AccessAttempt.objects.exists()
        assert self.try_password("boss") == 302

    def test_a_locked_out_name_is_still_locked_out(self, provider: IdentityProvider, boss: User, settings: Any) -> None:
        settings.AXES_FAILURE_LIMIT = 2
        assert [self.try_password("boss", "wrong") for _ in range(2)] == [200, 429]
        log_in(Client(), provider)
        assert self.try_password("boss") == 429

    def test_a_flood_of_passwords_holds_no_login_of_the_provider_up(
        self, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(PASSWORD_TURNS, "_wait_seconds", 0.0)
        with PASSWORD_TURNS.turn():
            assert log_in(Client(), provider).status_code == 302

    def test_the_login_page_offers_both_or_hides_the_form(
        self, client: Client, provider: IdentityProvider, settings: Any
    ) -> None:
        page = client.get(LOGIN).content.decode()
        assert "Log in with Example Login" in " ".join(page.split())
        assert ("or with a password" in page, "<details" in page) == (True, False)
        settings.OIDC_ONLY = True
        page = client.get(LOGIN).content.decode()
        assert '<details class="login-password">' in page
        wrong = client.post(LOGIN, {"username": "x", "password": "x"}).content.decode()
        assert '<details class="login-password" open>' in wrong


def test_without_an_issuer_there_is_nothing_of_it(client: Client) -> None:
    page = client.get(LOGIN).content.decode()
    assert "login.css" not in page
    assert "<details" not in page
    assert client.get(BEGIN)["Location"].startswith(LOGIN)  # as for any page of the admin that is not there
    assert "/admin/sso/" not in client.post("/admin/logout/").content.decode()
