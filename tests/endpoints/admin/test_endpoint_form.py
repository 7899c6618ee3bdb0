"""The form of a new endpoint, filled in from the log explorer: sound as it is, and never with SQL out of a link."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from endpoints.models import Endpoint

pytestmark = pytest.mark.django_db
ADD = "/admin/endpoints/endpoint/add/"


def forms(response: Any) -> tuple[Any, Any]:
    context = response.context
    return context["adminform"].form, context["inline_admin_formsets"][0].formset


def test_the_source_fills_in_sql_tenant_and_parameters(admin_client: Client) -> None:
    form, parameters = forms(admin_client.get(ADD, {"log_source": "edge_logs", "lql": "m.level:error"}))
    assert "logs.edge_logs" in form["sql"].value()
    assert form["tenant_parameter"].value()
    assert form["default_sandbox_table"].value() == "edge_logs"
    assert "m.level:error" in form["description"].value()
    names = [row["name"].value() for row in parameters.forms]
    assert form["tenant_parameter"].value() in names
    assert all(f"@{name}" in form["sql"].value() for name in names)


@pytest.mark.parametrize("lql", ["", "m.response.status_code:>=500", "m.level:error c:count(*)"])
@pytest.mark.parametrize("every_project", [{}, {"every_project": "1"}])
def test_a_search_opens_no_more_than_its_rows(admin_client: Client, lql: str, every_project: dict[str, str]) -> None:
    page = admin_client.get(ADD, {"log_source": "edge_logs", "lql": lql, **every_project})
    form, _ = forms(page)
    assert form["sandboxing"].value() is False
    assert "every row and column of every CTE, also what the final SELECT leaves out" in form["sandboxing"].help_text
    assert form["sandboxing"].help_text in page.content.decode()


def test_every_project_needs_no_tenant(admin_client: Client) -> None:
    form, _ = forms(admin_client.get(ADD, {"log_source": "edge_logs", "every_project": "1"}))
    assert form["tenant_parameter"].value() == ""


def test_what_is_filled_in_can_be_saved_as_it_is(admin_client: Client) -> None:
    page = admin_client.get(ADD, {"log_source": "edge_logs"})
    form, parameters = forms(page)
    data = {name: form[name].value() for name in form.fields} | {"name": "from.explorer"}
    for field in parameters.management_form:
        data[field.html_name] = field.value()
    for row in parameters.forms:
        data |= {row[name].html_name: row[name].value() for name in ("name", "type", "required", "description")}
    sent = {name: "on" if value is True else value for name, value in data.items() if value is not None}
    sent = {name: value for name, value in sent.items() if value is not False}
    response = admin_client.post(f"{ADD}?log_source=edge_logs", sent)
    assert response.status_code == 302, response.context["errors"]
    saved = Endpoint.objects.get(name="from.explorer")
    assert (saved.sandboxing, saved.sandbox_tables) == (False, [])
    assert {row.name for row in saved.parameters.all()} == {row["name"].value() for row in parameters.forms}


def test_an_unknown_source_is_said_and_fills_in_nothing(admin_client: Client) -> None:
    response = admin_client.get(ADD, {"log_source": "nothing_logs", "sql": "SELECT 1"})
    form, parameters = forms(response)
    assert form["sql"].value() in ("", None)
    assert len(parameters.forms) == 0
    assert b"The form is empty" in response.content


@pytest.mark.parametrize("source", [{}, {"log_source": "edge_logs"}, {"log_source": "nothing_logs"}])
def test_sql_of_a_link_is_never_taken_over(admin_client: Client, source: dict[str, str]) -> None:
    form, _ = forms(admin_client.get(ADD, {**source, "sql": "SELECT 'of a stranger'"}))
    assert "of a stranger" not in (form["sql"].value() or "")


def test_a_saved_endpoint_is_not_overwritten(admin_client: Client) -> None:
    endpoint = Endpoint.objects.get(name="logs.all")
    address = reverse("admin:endpoints_endpoint_change", args=[endpoint.pk])
    form, _ = forms(admin_client.get(address, {"log_source": "auth_logs"}))
    assert form["sql"].value() == endpoint.sql
