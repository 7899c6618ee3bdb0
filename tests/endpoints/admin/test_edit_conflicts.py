"""Two people edit one endpoint, access token or log source: the second is told, and nothing that was typed is lost."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import connections
from django.test import Client
from django.urls import reverse
from django.utils.html import escape

from endpoints.access.access_tokens import issue_access_token, revoke_access_tokens
from endpoints.defining.saving import save_endpoint
from endpoints.models import AccessToken, Endpoint
from endpoints.sql.parameters import DeclaredParameter, ParameterType
from logsources import services
from logsources.models import LogSource

FIELD = re.compile(r'<input type="hidden" name="opened_as" value="([0-9a-f]{64})">')
SQL = "SELECT @project AS project, @level AS level"


@pytest.fixture
def anna(db: None) -> Client:
    return logged_in("anna")


@pytest.fixture
def berta(db: None) -> Client:
    return logged_in("berta")


def logged_in(name: str) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser(name))
    return client


def opened(client: Client, address: str) -> str:
    """Open a page and return the digest that it carries."""
    (digest,) = FIELD.findall(client.get(address).content.decode())
    return str(digest)


def conflict_of(response: Any) -> str:
    assert response.status_code == 200
    return " ".join(response.context["adminform"].form.non_field_errors())


class TestEndpoint:
    @pytest.fixture
    def endpoint(self, db: None) -> Endpoint:
        parameters = [DeclaredParameter("project"), DeclaredParameter("level", type=ParameterType.INTEGER)]
        return save_endpoint(Endpoint(name="test.endpoint", sql=SQL), parameters)

    @pytest.fixture
    def address(self, endpoint: Endpoint) -> str:
        return reverse("admin:endpoints_endpoint_change", args=[endpoint.pk])

    @pytest.fixture
    def sent(self, endpoint: Endpoint, address: str, fields: Any) -> Callable[..., dict[str, str]]:
        def page_of(client: Client, *more: dict[str, Any], **changes: str) -> dict[str, str]:
            rows = [
                {"id": row.pk, "endpoint": endpoint.pk, "name": row.name, "type": row.type}
                for row in endpoint.parameters.all()
            ]
            return {**fields(*rows, *more, initial=len(rows), **changes), "opened_as": opened(client, address)}

        return page_of

    def test_the_second_save_is_refused_and_says_by_whom_and_keeps_what_was_typed(
        self, anna: Client, berta: Client, address: str, sent: Any, endpoint: Endpoint
    ) -> None:
        of_anna, of_berta = sent(anna, max_rows="10"), sent(berta, description="typed by berta <b>")
        assert anna.post(address, of_anna).status_code == 302
        refused = berta.post(address, of_berta)
        assert re.match(r"Not saved: anna has changed this at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", conflict_of(refused))
        page = refused.content.decode()
        assert f'href="{reverse("admin:endpoints_endpoint_history", args=[endpoint.pk])}"' in page
        assert escape("typed by berta <b>") in page
        endpoint.refresh_from_db()
        assert (endpoint.version, endpoint.max_rows, endpoint.description) == (2, 10, "")

    def test_saving_again_replaces_what_is_stored_with_its_new_parameters(
        self, anna: Client, berta: Client, address: str, sent: Any, endpoint: Endpoint
    ) -> None:
        of_anna = sent(anna)
        of_berta = sent(berta, {"name": "more", "endpoint": endpoint.pk}, sql=f"{SQL}, @more AS more")
        of_berta["parameters-1-default"] = "7"
        anna.post(address, of_anna)
        refused = berta.post(address, of_berta)
        (again,) = FIELD.findall(refused.content.decode())
        assert again != of_berta["opened_as"]
        assert berta.post(address, {**of_berta, "opened_as": again}).status_code == 302
        endpoint.refresh_from_db()
        assert endpoint.version == 3
        assert [(one.name, one.default) for one in endpoint.parameters.all()] == [
            ("project", ""), ("level", "7"), ("more", ""),
        ]  # fmt: skip

    def test_a_parameter_that_the_other_has_removed_is_there_again(
        self, anna: Client, berta: Client, address: str, sent: Any, endpoint: Endpoint
    ) -> None:
        of_anna, of_berta = sent(anna, sql="SELECT @level AS level"), sent(berta)
        anna.post(address, {**of_anna, "parameters-0-DELETE": "on"})
        assert [one.name for one in endpoint.parameters.all()] == ["level"]
        (again,) = FIELD.findall(berta.post(address, of_berta).content.decode())
        assert berta.post(address, {**of_berta, "opened_as": again}).status_code == 302
        assert {one.name for one in endpoint.parameters.all()} == {"level", "project"}

    def test_a_save_by_a_command_is_noticed_too(
        self, berta: Client, address: str, sent: Any, endpoint: Endpoint
    ) -> None:
        of_berta = sent(berta)
        save_endpoint(Endpoint.objects.get(pk=endpoint.pk), [one.declared() for one in endpoint.parameters.all()])
        assert conflict_of(berta.post(address, of_berta)).startswith("Not saved: somebody, or a command, has changed")

    def test_one_person_saves_again_and_again(self, anna: Client, address: str, sent: Any, endpoint: Endpoint) -> None:
        for rows in ("10", "20", "30"):
            assert anna.post(address, sent(anna, max_rows=rows)).status_code == 302
        endpoint.refresh_from_db()
        assert (endpoint.version, endpoint.max_rows) == (4, 30)

    def test_another_error_keeps_the_page_at_what_it_was_opened_with(
        self, anna: Client, address: str, sent: Any
    ) -> None:
        data = sent(anna, max_rows="0")
        assert FIELD.findall(anna.post(address, data).content.decode()) == [data["opened_as"]]

    def test_a_form_without_the_digest_is_saved(self, anna: Client, address: str, sent: Any) -> None:
        data = {name: value for name, value in sent(anna).items() if name != "opened_as"}
        assert anna.post(address, data).status_code == 302


class TestAccessToken:
    @pytest.fixture
    def token(self, db: None) -> AccessToken:
        return issue_access_token(name="dashboard").access_token

    def test_a_token_revoked_meanwhile_is_not_saved_over(self, anna: Client, token: AccessToken) -> None:
        address = reverse("admin:endpoints_accesstoken_change", args=[token.pk])
        data = {"name": "renamed", "every_endpoint": "on", "bound_arguments": "", "opened_as": opened(anna, address)}
        revoke_access_tokens(AccessToken.objects.filter(pk=token.pk))
        assert "has changed this" in conflict_of(anna.post(address, data))
        token.refresh_from_db()
        assert (token.name, token.is_valid) == ("dashboard", False)

    def test_other_endpoints_chosen_meanwhile_are_not_taken_away(
        self, anna: Client, berta: Client, token: AccessToken
    ) -> None:
        address = reverse("admin:endpoints_accesstoken_change", args=[token.pk])
        data = {"name": "dashboard", "bound_arguments": ""}
        of_anna, of_berta = opened(anna, address), opened(berta, address)
        chosen = Endpoint.objects.get(name="logs.all").pk
        assert anna.post(address, {**data, "endpoints": [chosen], "opened_as": of_anna}).status_code == 302
        refused = berta.post(address, {**data, "every_endpoint": "on", "opened_as": of_berta})
        assert conflict_of(refused).startswith("Not saved: anna has changed this")
        assert [one.pk for one in token.endpoints.all()] == [chosen]

    def test_its_use_is_no_change(self, anna: Client, token: AccessToken) -> None:
        address = reverse("admin:endpoints_accesstoken_change", args=[token.pk])
        data = {"name": "renamed", "every_endpoint": "on", "bound_arguments": "", "opened_as": opened(anna, address)}
        AccessToken.objects.filter(pk=token.pk).update(last_used_at="2026-01-01T00:00:00Z")
        assert anna.post(address, data).status_code == 302


@pytest.mark.django_db(databases=["default", "logs"])
class TestLogSource:
    COLUMN = {"name": "status", "path": "response.status_code", "type": "integer"}

    @pytest.fixture
    def source(self, log_database: Any) -> Any:
        source = services.create_source(
            name="edited_twice", holds="rows", project_location="row field", extracted_columns=[self.COLUMN]
        )
        yield source
        services.drop_source(LogSource.objects.get(pk=source.pk))

    def test_the_second_save_is_refused_and_saving_again_replaces(
        self, anna: Client, berta: Client, source: LogSource
    ) -> None:
        address = reverse("admin:logsources_logsource_change", args=[source.pk])

        def page_of(client: Client, holds: str) -> dict[str, Any]:
            row = {**self.COLUMN, "id": source.extracted_columns.get().pk, "source": source.pk}
            return {
                "holds": holds, "project_location": "row field", "opened_as": opened(client, address),
                "extracted_columns-TOTAL_FORMS": "1", "extracted_columns-INITIAL_FORMS": "1",
                **{f"extracted_columns-0-{name}": value for name, value in row.items()},
            }  # fmt: skip

        of_anna, of_berta = page_of(anna, "of anna"), page_of(berta, "of berta")
        assert anna.post(address, of_anna).status_code == 302
        refused = berta.post(address, of_berta)
        assert conflict_of(refused).startswith("Not saved: anna has changed this at ")
        assert "of berta" in refused.content.decode()
        assert LogSource.objects.get(pk=source.pk).holds == "of anna"
        (again,) = FIELD.findall(refused.content.decode())
        assert berta.post(address, {**of_berta, "opened_as": again}).status_code == 302
        assert LogSource.objects.get(pk=source.pk).holds == "of berta"


def test_of_two_saves_at_the_same_moment_one_is_refused(committed: None) -> None:
    token = issue_access_token(name="dashboard").access_token
    try:
        statuses = save_at_the_same_moment(token)
        token.refresh_from_db()
    finally:
        User.objects.filter(username__in=["anna", "berta"]).delete()
        AccessToken.objects.filter(pk=token.pk).delete()
        AccessToken.history.filter(id=token.pk).delete()
        Session.objects.all().delete()
    assert sorted(statuses.values()) == [200, 302]
    assert statuses[token.name] == 302


def save_at_the_same_moment(token: AccessToken) -> dict[str, int]:
    """Have two people rename the access token, each to the own name; return what each was answered."""
    address = reverse("admin:endpoints_accesstoken_change", args=[token.pk])
    clients = {name: logged_in(name) for name in ("anna", "berta")}
    digests = {opened(client, address) for client in clients.values()}
    assert len(digests) == 1
    start = Barrier(2)

    def save(name: str) -> int:
        try:
            start.wait(timeout=60)
            data = {"name": name, "every_endpoint": "on", "bound_arguments": "", "opened_as": next(iter(digests))}
            return int(clients[name].post(address, data).status_code)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(clients, pool.map(save, clients), strict=True))
