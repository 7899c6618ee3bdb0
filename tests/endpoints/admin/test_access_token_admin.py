"""Access tokens in the admin: the secret on one page, once; limits as chosen; revoked for good."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client, RequestFactory
from django.urls import reverse
from django.utils import timezone

from endpoints.access.access_tokens import authenticate_access_token, issue_access_token
from endpoints.access.secrets import OwnLimits
from endpoints.access.token_limits import admit, suspend, turn
from endpoints.access.token_states import TokenState, state_of
from endpoints.admin import access_token_fields
from endpoints.admin.access_token_fields import StateFilter, words_of_state
from endpoints.admin.shown_once import COOKIE
from endpoints.cache.permits import PERMITS
from endpoints.errors import NotAuthenticated
from endpoints.models import AccessToken, Endpoint
from logsources.models import LogSource

pytestmark = pytest.mark.django_db
ADD = "/admin/endpoints/accesstoken/add/"
LIST = "/admin/endpoints/accesstoken/"
SECRET = re.compile(r"lqe_[0-9a-f]{12}_[A-Za-z0-9_-]{43}")


def form(**fields: Any) -> dict[str, Any]:
    data = {
        "name": "dashboard",
        "every_endpoint": "on",
        "bound_arguments": "",
        "expires": "90",
        "expires_at_0": "",
        "expires_at_1": "",
    }
    return {name: value for name, value in {**data, **fields}.items() if value is not None}


def added(client: Client, **fields: Any) -> tuple[str, str]:
    """Add an access token and return its secret and the page that shows it."""
    response = client.post(ADD, form(**fields), follow=True)
    assert [status for _, status in response.redirect_chain] == [302]
    page = response.content.decode()
    (secret,) = SECRET.findall(page)
    assert "no-store" in response["Cache-Control"]
    return secret, page


def words_of(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", "", page).split())


def faults(response: Any) -> dict[str, list[str]]:
    """Return the messages of the form that is shown again, by field."""
    errors: dict[str, list[str]] = response.context["adminform"].form.errors
    return errors


def change(token: AccessToken) -> str:
    return reverse("admin:endpoints_accesstoken_change", args=[token.pk])


def test_the_secret_is_shown_once_after_creation_and_nowhere_afterwards(admin_client: Client) -> None:
    secret, page = added(admin_client)
    assert page.count(secret) == 1
    token = AccessToken.objects.get()
    assert authenticate_access_token(secret).name == "dashboard"
    addresses = [LIST, change(token), ADD, "/admin/", "/admin/endpoints/"]
    addresses += [reverse(f"admin:endpoints_accesstoken_{page}", args=[token.pk]) for page in ("history", "delete")]
    addresses += [reverse("admin:endpoints_accesstoken_simple_history", args=[token.pk, token.history.first().pk])]
    for address in addresses:
        shown = admin_client.get(address)
        assert shown.status_code == 200
        assert secret not in shown.content.decode(), address
        assert token.secret_hash not in shown.content.decode(), address


def test_the_secret_is_neither_in_a_cookie_nor_in_the_database(admin_client: Client) -> None:
    secret, _ = added(admin_client)
    part = secret.split("_", 2)[2]
    assert not [cookie for cookie in admin_client.cookies.values() if part in cookie.value]
    assert part not in str(dict(admin_client.session))
    with connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        for (table,) in cursor.fetchall():
            assert part not in str(cursor.execute(f'SELECT * FROM "{table}"').fetchall()), table


def test_the_page_of_the_secret_is_opened_once(admin_client: Client) -> None:
    response = admin_client.post(ADD, form())
    token = AccessToken.objects.get()
    page = response["Location"]
    assert (response.status_code, SECRET.search(response.content.decode())) == (302, None)
    assert admin_client.head(page).status_code == 405
    assert SECRET.search(admin_client.get(page).content.decode())
    for _ in range(2):
        again = admin_client.get(page)
        assert "The secret was shown once" in again.content.decode()
        assert not SECRET.search(again.content.decode())
    assert AccessToken.objects.get() == token


def test_nobody_else_opens_the_page_of_the_secret(admin_client: Client, client: Client) -> None:
    page = admin_client.post(ADD, form())["Location"]
    client.force_login(User.objects.create_superuser("another owner"))
    client.cookies[COOKIE] = admin_client.cookies[COOKIE].value
    assert not SECRET.search(client.get(page).content.decode())
    assert SECRET.search(admin_client.get(page).content.decode())
    client.logout()
    assert client.get(page).status_code == 302


@pytest.mark.parametrize("leave_out", [True, False])
def test_the_cookie_of_another_access_token_shows_nothing(admin_client: Client, leave_out: bool) -> None:
    page = admin_client.post(ADD, form())["Location"]
    of_the_first = admin_client.cookies[COOKIE].value
    admin_client.post(ADD, form(name="second"))
    assert admin_client.cookies[COOKIE].value != of_the_first
    if leave_out:
        del admin_client.cookies[COOKIE]
    assert not SECRET.search(admin_client.get(page).content.decode())


@pytest.mark.parametrize("button", ["_save", "_continue", "_addanother"])
def test_every_save_button_shows_the_secret(admin_client: Client, button: str) -> None:
    secret, _ = added(admin_client, **{button: "on"})
    assert authenticate_access_token(secret)


def test_limits_are_saved_as_chosen(admin_client: Client) -> None:
    chosen = Endpoint.objects.get(name="logs.all")
    secret, page = added(
        admin_client,
        every_endpoint=None,
        endpoints=[str(chosen.pk)],
        bound_arguments="project = acme\n",
        expires="date",
        expires_at_0="2999-12-31",
        expires_at_1="23:59:00",
    )
    caller = authenticate_access_token(secret)
    assert caller.endpoint_ids == {str(chosen.pk)}
    assert caller.bound_arguments == {"project": "acme"}
    assert AccessToken.objects.get().expires_at == datetime(2999, 12, 31, 23, 59, tzinfo=UTC)
    words = words_of(page)
    assert "dashboard may call logs.all with project=acme until 2999-12-31 23:59 UTC." in words
    assert "/api/endpoints/query/logs.all" in page


def test_the_form_starts_with_no_endpoint_and_an_end(admin_client: Client) -> None:
    shown = admin_client.get(ADD).context["adminform"].form
    assert (shown["every_endpoint"].value(), shown["expires"].value()) == (False, "90")
    assert [value for value, _ in shown.fields["expires"].choices] == ["7", "30", "90", "date", "never"]
    assert faults(admin_client.post(ADD, form(every_endpoint=None))) == {
        "endpoints": ["It could do nothing: choose the endpoints that it may call, or let it load rows."]
    }
    assert not AccessToken.objects.exists()


@pytest.mark.parametrize(("expires", "days"), [("7", 7), ("30", 30), ("90", 90), ("never", None), (None, 90)])
def test_a_lifetime_is_counted_from_the_moment_of_saving(
    admin_client: Client, expires: str | None, days: int | None
) -> None:
    added(admin_client, expires=expires)
    expires_at = AccessToken.objects.get().expires_at
    if days is None:
        assert expires_at is None
    else:
        assert expires_at is not None
        assert abs(expires_at - timezone.now() - timedelta(days=days)) < timedelta(minutes=10)


@pytest.mark.parametrize(
    ("expires", "date", "field", "reason"),
    [
        ("date", "2020-01-01", "expires_at", "This is in the past"),
        (None, "2020-01-01", "expires_at", "This is in the past"),
        ("date", "", "expires_at", "Enter the date and the time"),
        ("never", "2999-01-01", "expires", "it would not count"),
        ("30", "2999-01-01", "expires", "it would not count"),
    ],
)
def test_an_end_that_is_past_or_said_twice_is_refused(
    admin_client: Client, expires: str | None, date: str, field: str, reason: str
) -> None:
    sent = {"expires": expires, "expires_at_0": date, "expires_at_1": "12:00:00" if date else ""}
    found = faults(admin_client.post(ADD, form(**sent)))
    assert list(found) == [field]
    assert reason in found[field][0]
    token = issue_access_token(name="old").access_token
    found = faults(admin_client.post(change(token), form(**sent)))
    assert reason in found[field][0]
    assert AccessToken.objects.get().expires_at is None


def test_another_edit_keeps_the_end_and_does_not_ask_for_what_has_changed_since(admin_client: Client) -> None:
    """An old access token can be renamed, also one that has expired or whose endpoints are gone."""
    token = issue_access_token(name="old", endpoint_names=["logs.all"], bound_arguments={"project": "a"}).access_token
    then = timezone.now().replace(microsecond=0) - timedelta(days=1)
    AccessToken.objects.update(expires_at=then)
    token.endpoints.clear()
    kept = admin_client.get(change(token)).context["adminform"].form
    assert kept["expires"].value() == "keep"
    assert kept.fields["expires"].choices[0][1] == f"as it is: {then:%Y-%m-%d %H:%M} UTC"
    data = form(name="renamed", every_endpoint=None, bound_arguments="project=a", expires="keep")
    data |= {"expires_at_0": f"{then:%Y-%m-%d}", "expires_at_1": f"{then:%H:%M:%S}"}
    assert admin_client.post(change(token), data).status_code == 302
    assert (AccessToken.objects.get().name, AccessToken.objects.get().expires_at) == ("renamed", then)
    refused = admin_client.post(change(token), {**data, "bound_arguments": "project=b"})
    assert list(faults(refused)) == ["endpoints"]
    # Fewer fields, as scripts send them: nothing makes it last longer.
    assert admin_client.post(change(token), form(expires=None)).status_code == 302
    assert AccessToken.objects.get().expires_at == then


@pytest.mark.parametrize(
    ("bound", "reason"),
    [
        ("porject=acme", "No endpoint that it may call has a parameter @porject; they have @interval, "),
        ("interval=weekly", "@interval takes no such value: it is not one of the allowed values (allowed values: "),
        ("interval=daily\niso_timestamp_start=2026-01-01", "has all of @interval, @iso_timestamp_start"),
    ],
)
def test_bound_arguments_that_no_call_could_meet_are_refused(admin_client: Client, bound: str, reason: str) -> None:
    found = faults(admin_client.post(ADD, form(bound_arguments=bound)))
    assert list(found) == ["bound_arguments"]
    assert reason in found["bound_arguments"][0]
    assert not AccessToken.objects.exists()


def test_chosen_endpoints_beside_every_endpoint_are_refused(admin_client: Client) -> None:
    """Whoever chooses endpoints means a limit; without this the access token would call everything."""
    chosen = Endpoint.objects.get(name="logs.all")
    response = admin_client.post(ADD, form(endpoints=[str(chosen.pk)]))
    assert "Clear this to limit" in response.context["adminform"].form.errors["every_endpoint"][0]
    assert not AccessToken.objects.exists()


def test_who_only_loads_needs_no_endpoint(admin_client: Client) -> None:
    secret, page = added(admin_client, every_endpoint=None, may_load="on", expires="never")
    caller = authenticate_access_token(secret)
    assert (caller.endpoint_ids, caller.may_load) == (frozenset(), True)
    assert "may call no endpoint and load rows and never expires." in words_of(page)


def test_loading_may_be_limited_to_log_sources(admin_client: Client) -> None:
    limits = {"may_load": "on", "load_sources": ["auth_logs"], "default_project": "shop"}
    secret, page = added(admin_client, every_endpoint=None, **limits)
    caller = authenticate_access_token(secret)
    assert (caller.may_load, caller.load_sources, caller.default_project) == (True, {"auth_logs"}, "shop")
    words = words_of(page)
    assert "no endpoint and load rows into auth_logs of project shop until" in words


def test_the_limit_to_a_log_source_outlives_the_source(admin_client: Client) -> None:
    token = issue_access_token(name="old", may_load=True, load_sources=["auth_logs"]).access_token
    LogSource.objects.filter(name="auth_logs").delete()
    page = admin_client.get(change(token)).content.decode()
    assert 'value="auth_logs"' in page
    response = admin_client.post(change(token), form(may_load="on", load_sources=["auth_logs"]))
    assert response.status_code == 302
    assert AccessToken.objects.get().load_sources == ["auth_logs"]


def test_an_endpoint_out_of_reach_is_told(admin_client: Client) -> None:
    chosen = [str(key) for key in Endpoint.objects.values_list("pk", flat=True)]
    _, page = added(admin_client, every_endpoint=None, endpoints=chosen, bound_arguments="interval=daily")
    assert "logs.all has no parameter @interval: this access token cannot call it." in page


@pytest.mark.parametrize(
    ("field", "value", "fault"),
    [
        ("name", "", "name"),
        ("name", "x" * 101, "name"),
        ("bound_arguments", "project", "bound_arguments"),
        ("bound_arguments", "no name=a", "__all__"),
        ("expires_at_0", "soon", "expires_at"),
        ("expires", "8", "expires"),
    ],
)
def test_a_refusal_is_told_at_its_field(admin_client: Client, field: str, value: str, fault: str) -> None:
    response = admin_client.post(ADD, form(**{field: value}))
    assert list(response.context["adminform"].form.errors) == [fault]
    assert not AccessToken.objects.exists()
    assert not SECRET.search(response.content.decode())


def test_editing_keeps_the_secret_and_shows_none(admin_client: Client) -> None:
    issued = issue_access_token(name="old", bound_arguments={"project": "acme"})
    address = change(issued.access_token)
    assert "project=acme" in admin_client.get(address).content.decode()
    response = admin_client.post(address, form(name="new", bound_arguments="project=globex"), follow=True)
    assert response.status_code == 200
    assert not SECRET.search(response.content.decode())
    caller = authenticate_access_token(issued.secret)
    assert (caller.name, caller.bound_arguments) == ("new", {"project": "globex"})


def test_the_history_tells_what_changed_and_shows_the_limits_of_then(admin_client: Client) -> None:
    issued = issue_access_token(name="old", endpoint_names=["logs.all"])
    token = issued.access_token
    admin_client.post(change(token), form(name="new"))
    page = admin_client.get(reverse("admin:endpoints_accesstoken_history", args=[token.pk])).content.decode()
    assert "name, endpoints" in page
    then = token.history.filter(name="old").first()
    shown = admin_client.get(reverse("admin:endpoints_accesstoken_simple_history", args=[token.pk, then.pk]))
    assert "logs.all" in shown.content.decode()
    assert admin_client.post(shown.request["PATH_INFO"], form(name="posted")).status_code == 403


def test_revoking_from_the_list_asks_first_and_refuses_calls_from_then_on(admin_client: Client) -> None:
    issued = [issue_access_token(name=f"token {number}") for number in range(3)]
    data = {"action": "revoke", "_selected_action": [one.access_token.pk for one in issued[:2]]}
    question = admin_client.post(LIST, data).content.decode()
    assert all(f"<strong>token {number}</strong>" in question for number in range(2))
    assert "token 2" not in question
    assert authenticate_access_token(issued[0].secret)
    page = admin_client.post(LIST, {**data, "confirmed": "yes"}, follow=True).content.decode()
    assert "2 revoked" in page
    for one in issued[:2]:
        with pytest.raises(NotAuthenticated):
            authenticate_access_token(one.secret)
    assert authenticate_access_token(issued[2].secret)
    assert "already revoked" in admin_client.post(LIST, data).content.decode()


def test_revoking_from_the_page_asks_first_too(admin_client: Client) -> None:
    issued = issue_access_token(name="lost laptop")
    button = reverse("admin:endpoints_accesstoken_revoke_this", args=[issued.access_token.pk])
    assert button in admin_client.get(change(issued.access_token)).content.decode()
    assert "<strong>lost laptop</strong>" in admin_client.get(button).content.decode()
    assert authenticate_access_token(issued.secret)
    page = admin_client.post(button, follow=True).content.decode()
    assert "1 revoked" in page
    assert button not in page
    with pytest.raises(NotAuthenticated):
        authenticate_access_token(issued.secret)


def test_an_access_token_that_is_not_there_is_not_found(admin_client: Client) -> None:
    address = reverse("admin:endpoints_accesstoken_revoke_this", args=["1"])
    assert (admin_client.get(address).status_code, admin_client.post(address).status_code) == (404, 404)


def test_who_may_only_look_can_neither_revoke_nor_issue(client: Client) -> None:
    person = User.objects.create_user("viewer", is_staff=True)
    person.user_permissions.add(Permission.objects.get(codename="view_accesstoken"))
    client.force_login(person)
    issued = issue_access_token(name="kept")
    client.post(LIST, {"action": "revoke", "_selected_action": [issued.access_token.pk], "confirmed": "yes"})
    address = reverse("admin:endpoints_accesstoken_revoke_this", args=[issued.access_token.pk])
    assert client.post(address).status_code == 403
    assert authenticate_access_token(issued.secret)
    assert client.post(ADD, form()).status_code == 403


NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expires", "revoked", "state", "words"),
    [
        (None, False, TokenState.VALID, "valid"),
        (timedelta(days=15), False, TokenState.VALID, "valid"),
        (timedelta(days=14), False, TokenState.EXPIRES_SOON, "expires in 14 days"),
        (timedelta(hours=3), False, TokenState.EXPIRES_SOON, "expires in 3 hours"),
        (timedelta(seconds=1), False, TokenState.EXPIRES_SOON, "expires in 1 second"),
        (timedelta(0), False, TokenState.EXPIRED, "expired"),
        (timedelta(days=-1), False, TokenState.EXPIRED, "expired"),
        (timedelta(days=3), True, TokenState.REVOKED, "revoked"),
        (timedelta(days=-3), True, TokenState.REVOKED, "revoked"),
    ],
)
def test_a_state_has_words_and_a_filter(
    monkeypatch: pytest.MonkeyPatch, expires: timedelta | None, revoked: bool, state: TokenState, words: str
) -> None:
    token = AccessToken.objects.create(
        name="one", expires_at=None if expires is None else NOW + expires, revoked_at=NOW if revoked else None
    )
    assert (state_of(token, now=NOW), words_of_state(token, now=NOW)) == (state, words)
    monkeypatch.setattr(access_token_fields.timezone, "now", lambda: NOW)
    found = [chosen for chosen in TokenState if filtered(chosen.value).exists()]
    assert found == [state]


def filtered(value: str) -> Any:
    one = StateFilter(
        RequestFactory().get("/"), {"state": [value]}, AccessToken, admin.site.get_model_admin(AccessToken)
    )
    return one.queryset(RequestFactory().get("/"), AccessToken.objects.all())


def test_a_made_up_state_filters_nothing() -> None:
    issue_access_token(name="one")
    assert filtered("made up").count() == 1


def test_the_list_tells_state_and_reach(admin_client: Client) -> None:
    now = timezone.now()
    issue_access_token(name="one", endpoint_names=["logs.all"], bound_arguments={"project": "acme"})
    issue_access_token(name="two")
    issue_access_token(name="three", expires_at=now + timedelta(days=3, hours=1))
    AccessToken.objects.filter(name="one").update(revoked_at=now)
    then = now - timedelta(hours=5, minutes=5)
    AccessToken.objects.filter(name="two").update(last_used_at=then, expires_at=then)
    page = admin_client.get(LIST).content.decode()
    shown = ("revoked", "expired", "expires in 3 days", "every endpoint", "logs.all", "project=acme", "5 hours ago")
    assert [words for words in shown if words not in page] == []
    assert "expires in 3 days" in admin_client.get(change(AccessToken.objects.get(name="three"))).content.decode()


def test_limits_of_its_own_are_saved_and_shown_again(admin_client: Client) -> None:
    secret, _ = added(admin_client, calls_a_minute="600", calls_at_once="none", sandbox_queries_at_once="")
    token = AccessToken.objects.get()
    assert (token.calls_a_minute, token.calls_at_once, token.sandbox_queries_at_once) == (600, 0, None)
    assert authenticate_access_token(secret).limits == OwnLimits.of(token)
    page = admin_client.get(change(token)).content.decode()
    for name, value in (("calls_a_minute", "600"), ("calls_at_once", "none")):
        assert re.search(rf'<input[^>]*name="{name}"[^>]*value="{value}"|value="{value}"[^>]*name="{name}"', page), name
    assert 'placeholder="default: 4"' in page
    assert "calls: 0 of 600/minute; calls at the same time: no limit; sandbox queries at the same time: 0 of 4" in page


@pytest.mark.parametrize("limit", ["0", "-1", "many", "1.5", "9999999999"])
def test_what_is_no_limit_is_refused(admin_client: Client, limit: str) -> None:
    response = admin_client.post(ADD, form(calls_at_once=limit))
    assert response.context["adminform"].form.errors.keys() == {"calls_at_once"}
    assert not AccessToken.objects.exists()


def test_limits_in_use_are_shown(admin_client: Client) -> None:
    issued = issue_access_token(name="busy", limits=OwnLimits(600, 3, 2))
    caller = authenticate_access_token(issued.secret)
    admit(caller)
    with turn(caller, is_sandbox_query=True, statement_seconds=15):
        PERMITS.tick()
        page = admin_client.get(change(issued.access_token)).content.decode()
    assert "calls: 1 of 600/minute; calls at the same time: 1 of 3; sandbox queries at the same time: 1 of 2" in page
    suspend(caller.prefix, seconds=30)
    assert "sandbox queries refused for another" in admin_client.get(change(issued.access_token)).content.decode()


def test_a_change_of_limits_is_named_in_the_history(admin_client: Client) -> None:
    token = issue_access_token(name="dashboard").access_token
    admin_client.post(change(token), form(calls_at_once="3", calls_a_minute="none"))
    page = admin_client.get(reverse("admin:endpoints_accesstoken_history", args=[token.pk])).content.decode()
    assert "calls a minute, calls at the same time" in page
    entry = reverse("admin:endpoints_accesstoken_simple_history", args=[token.pk, token.history.first().pk])
    assert "no limit of calls a minute, 3 calls at the same time" in admin_client.get(entry).content.decode()
