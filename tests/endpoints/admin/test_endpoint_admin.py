"""Endpoints in the admin: one form for query and parameters, refused at the field, every save a version."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse

from endpoints.access.access_tokens import issue_access_token
from endpoints.calling.calls import run_endpoint
from endpoints.calling.query_requests import Call
from endpoints.defining.saving import save_endpoint
from endpoints.log_database import servers
from endpoints.log_database.gate import GatePool
from endpoints.log_database.publishing import published_schemas
from endpoints.log_database.servers import LogServers
from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter, ParameterType

pytestmark = pytest.mark.django_db
ADD = "/admin/endpoints/endpoint/add/"
PROJECT = {"name": "project", "required": "on", "description": "Whose rows."}
LEVEL = {"name": "level", "type": "integer", "minimum": "1", "maximum": "9", "default": "5"}


def change(endpoint: Endpoint) -> str:
    return reverse("admin:endpoints_endpoint_change", args=[endpoint.pk])


def errors_of(response: Any) -> tuple[dict[str, list[str]], list[str], list[dict[str, list[str]]]]:
    """Return the errors of the form by field, of the parameters as a whole, and of each parameter."""
    assert response.status_code == 200
    (formset,) = response.context["inline_admin_formsets"]
    return (
        dict(response.context["adminform"].form.errors),
        list(formset.formset.non_form_errors()),
        [dict(form.errors) for form in formset.formset.forms],
    )


@pytest.fixture
def endpoint(db: None) -> Endpoint:
    return save_endpoint(
        Endpoint(name="test.endpoint", sql="SELECT @project AS project, @level AS level"),
        [DeclaredParameter("project", required=True), DeclaredParameter("level", type=ParameterType.INTEGER)],
    )


@pytest.fixture
def rows(endpoint: Endpoint) -> list[dict[str, Any]]:
    """The stored parameters as the form of a change sends them."""
    return [
        {"id": row.pk, "endpoint": endpoint.pk, "name": row.name, "type": row.type} for row in endpoint.parameters.all()
    ]


def test_a_new_endpoint_is_saved_with_its_parameters_and_can_be_called(admin_client: Client, fields: Any) -> None:
    data = fields(
        PROJECT,
        {**LEVEL, "allowed_values": "5\n 7 \n"},
        sql="WITH given AS (SELECT @project AS project, @level AS level) SELECT * FROM given",
        sandboxing="on",
        tenant_parameter="project",
    )
    assert admin_client.post(ADD, data).status_code == 302
    saved = Endpoint.objects.get(name="test.endpoint")
    assert (saved.version, saved.sandboxing, saved.tenant_parameter) == (1, True, "project")
    assert [column["name"] for column in saved.result_columns] == ["project", "level"]
    assert saved.parameters_of_version == (
        DeclaredParameter("project", required=True, description="Whose rows."),
        DeclaredParameter(
            "level", type=ParameterType.INTEGER, default="5", allowed_values=("5", "7"), minimum="1", maximum="9"
        ),
    )
    answer = run_endpoint("test.endpoint", call=Call({"project": "acme"}))
    assert answer.outcome.body == b'{"result":[{"project":"acme","level":5}]}'
    own = Call({"project": "acme"}, sandbox_sql="select level + 1 as more from given")
    assert run_endpoint("test.endpoint", call=own).outcome.body == b'{"result":[{"more":6}]}'


def test_the_saver_is_named_in_the_history_and_in_the_log(admin_client: Client, admin_user: User, fields: Any) -> None:
    admin_client.post(ADD, fields())
    saved = Endpoint.objects.get(name="test.endpoint")
    assert saved.history.get().history_user == admin_user
    assert LogEntry.objects.get(object_id=str(saved.pk)).user == admin_user


FAULTS = [
    ("SELECT id,\n  nothing\nFROM edge_logs", 'Line 2, column 3: PostgreSQL: column "nothing" does not exist.'),
    ("SELECT * FROM no_such_table", 'Line 1, column 15: PostgreSQL: relation "no_such_table" does not exist.'),
    ("SELECT FROM WHERE", "Line 1, column 13: PostgreSQL: syntax error"),
    ("DELETE FROM edge_logs", "Line 1, column 1: a query begins with SELECT or WITH."),
    ("SELECT rolname FROM pg_authid", "PostgreSQL: permission denied for table pg_authid."),
    ("SELECT 'open", "Line 1, column 8: "),
    ("", "This field is required."),
]


@pytest.mark.parametrize(("sql", "message"), FAULTS)
def test_a_faulty_query_is_told_at_its_field(admin_client: Client, fields: Any, sql: str, message: str) -> None:
    response = admin_client.post(ADD, fields(sql=sql))
    form_errors, _, _ = errors_of(response)
    assert message in form_errors["sql"][0]
    assert list(form_errors) == ["sql"]
    assert not Endpoint.objects.filter(name="test.endpoint").exists()


def test_a_faulty_tenant_parameter_is_told_at_its_field(admin_client: Client, fields: Any) -> None:
    form_errors, _, _ = errors_of(admin_client.post(ADD, fields(tenant_parameter="project")))
    assert form_errors == {"tenant_parameter": ["The tenant parameter must be declared as required text."]}


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        ({"name": "unused"}, "@unused: is declared but not used in the SQL"),
        ({"name": "project", "pattern": "("}, "@project: pattern is not a regular expression"),
        ({"name": "level", "type": "integer", "default": "x"}, "@level: default is not an integer"),
        ({"name": "level", "type": "uuid", "minimum": "1"}, "@level: cannot have a minimum or maximum"),
    ],
)
def test_a_faulty_declaration_is_told_at_the_parameters(
    admin_client: Client, fields: Any, parameter: dict[str, str], message: str
) -> None:
    form_errors, formset_errors, _ = errors_of(admin_client.post(ADD, fields(parameter)))
    assert form_errors == {}
    assert message in formset_errors[0]
    assert not Endpoint.objects.filter(name="test.endpoint").exists()


@pytest.mark.parametrize(
    ("parameter", "field"), [({"name": "no name"}, "name"), ({"name": ""}, "name"), ({"type": "txt"}, "type")]
)
def test_a_faulty_field_of_a_parameter_is_told_there(
    admin_client: Client, fields: Any, parameter: dict[str, str], field: str
) -> None:
    _, _, (row_errors,) = errors_of(admin_client.post(ADD, fields({**PROJECT, **parameter})))
    assert field in row_errors


def test_two_parameters_of_one_name_are_refused(admin_client: Client, fields: Any) -> None:
    _, formset_errors, _ = errors_of(admin_client.post(ADD, fields(PROJECT, PROJECT)))
    assert "duplicate" in formset_errors[0]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "logs.all"),
        ("name", "has space"),
        ("max_rows", "0"),
        ("max_rows", "-1"),
        ("max_rows", "many"),
        ("statement_timeout_seconds", "0"),
        ("statement_timeout_seconds", "99999999999999999999"),
        ("planner_settings", "enable_sort"),
        ("cache_seconds", "-1"),
        ("warm_every_seconds", "60"),
    ],
)
def test_a_faulty_setting_is_told_at_its_field(admin_client: Client, fields: Any, field: str, value: str) -> None:
    form_errors, formset_errors, _ = errors_of(admin_client.post(ADD, fields(**{field: value})))
    assert list(form_errors) == [field]
    assert formset_errors == []


def test_what_was_typed_is_still_there_after_a_refusal(admin_client: Client, fields: Any) -> None:
    data = fields({**PROJECT, "description": "typed description"}, sql="SELECT typed_column", name="typed.name")
    page = admin_client.post(ADD, data).content.decode()
    for typed in ("typed description", "SELECT typed_column", "typed.name"):
        assert typed in page


def test_a_log_database_that_is_down_is_told_at_the_query(
    admin_client: Client, fields: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = GatePool({**settings.LOGS_GATE, "host": "127.0.0.1", "port": "1"}, size=2, wait_seconds=0.2)
    monkeypatch.setattr(servers, "_servers", LogServers([nowhere]))
    try:
        form_errors, _, _ = errors_of(admin_client.post(ADD, fields()))
    finally:
        nowhere.close()
    assert "Nothing was saved." in form_errors["sql"][0]
    assert not Endpoint.objects.filter(name="test.endpoint").exists()


def test_a_change_is_a_new_version_and_the_history_shows_both(
    admin_client: Client, endpoint: Endpoint, rows: list[dict[str, Any]], fields: Any
) -> None:
    data = fields(rows[0], {**rows[1], "DELETE": "on"}, initial=2, sql="SELECT @project AS other", max_rows="7")
    assert admin_client.post(change(endpoint), data).status_code == 302
    saved = Endpoint.objects.get(pk=endpoint.pk)
    assert (saved.version, saved.max_rows, [row.name for row in saved.parameters.all()]) == (2, 7, ["project"])
    assert run_endpoint("test.endpoint", call=Call({})).outcome.body == b'{"result":[{"other":null}]}'
    page = admin_client.get(reverse("admin:endpoints_endpoint_history", args=[endpoint.pk])).content.decode()
    assert page.index("version 2") < page.index("version 1")
    assert "SQL, parameters, result columns, max rows" in page
    first = saved.history.get(version=1)
    shown = admin_client.get(reverse("admin:endpoints_endpoint_simple_history", args=[saved.pk, first.pk]))
    page = shown.content.decode()
    assert "SELECT @project AS project, @level AS level" in page
    assert "<code>@level</code> integer" in page
    assert "<textarea" not in page
    assert 'name="_save"' not in page


def test_a_refused_change_leaves_the_version_as_it_was(
    admin_client: Client, endpoint: Endpoint, rows: list[dict[str, Any]], fields: Any
) -> None:
    data = fields(*rows, initial=2, sql="SELECT @project AS a, @level AS b, nothing")
    form_errors, _, _ = errors_of(admin_client.post(change(endpoint), data))
    assert "Line 1, column 36" in form_errors["sql"][0]
    kept = Endpoint.objects.get(pk=endpoint.pk)
    assert (kept.version, kept.sql, kept.parameters.count()) == (1, endpoint.sql, 2)
    assert run_endpoint("test.endpoint", call=Call({"project": "a"})).outcome.row_count == 1


def test_an_earlier_version_cannot_be_posted(admin_client: Client, endpoint: Endpoint, fields: Any) -> None:
    address = reverse("admin:endpoints_endpoint_simple_history", args=[endpoint.pk, endpoint.history.get().pk])
    assert admin_client.post(address, fields(sql="SELECT 1 AS a")).status_code == 403
    assert Endpoint.objects.get(pk=endpoint.pk).version == 1


def test_a_name_taken_between_check_and_save_is_told_at_its_field(
    admin_client: Client, fields: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save_after_somebody_else(*args: Any, **kwargs: Any) -> Endpoint:
        monkeypatch.undo()
        save_endpoint(Endpoint(name="test.endpoint", sql="SELECT 'theirs' AS a"), [])
        raise ValidationError({"name": "taken"})

    # Outside of the request's transaction, which would undo it: the exception is raised before anything is written.
    monkeypatch.setattr("endpoints.admin.endpoint.save_endpoint", save_after_somebody_else)
    monkeypatch.setattr("django.contrib.admin.options.transaction.atomic", lambda **_: _NoTransaction())
    form_errors, _, _ = errors_of(admin_client.post(ADD, fields()))
    assert "already exists" in form_errors["name"][0]
    assert Endpoint.objects.get(name="test.endpoint").sql == "SELECT 'theirs' AS a"


class _NoTransaction:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *failure: object) -> None:
        pass


def test_deleting_asks_first_and_takes_the_endpoint_away_from_callers(admin_client: Client, endpoint: Endpoint) -> None:
    limited = issue_access_token(name="limited", endpoint_names=["test.endpoint"]).access_token
    address = reverse("admin:endpoints_endpoint_delete", args=[endpoint.pk])
    assert "test.endpoint" in admin_client.get(address).content.decode()
    assert admin_client.post(address, {"post": "yes"}).status_code == 302
    assert not Endpoint.objects.filter(pk=endpoint.pk).exists()
    assert Endpoint.history.filter(id=endpoint.pk, history_type="-").exists()
    page = admin_client.get(reverse("admin:endpoints_accesstoken_changelist")).content.decode()
    assert "no endpoint" in page
    assert not limited.endpoints.exists()


def test_the_history_of_a_deleted_endpoint_can_be_read(admin_client: Client, endpoint: Endpoint) -> None:
    key = endpoint.pk
    endpoint.delete()
    page = admin_client.get(reverse("admin:endpoints_endpoint_history", args=[key]))
    assert page.status_code == 200
    assert "deleted" in page.content.decode()


def test_the_list_shows_settings_in_words(admin_client: Client) -> None:
    page = admin_client.get(reverse("admin:endpoints_endpoint_changelist")).content.decode()
    for shown in ("@project", "every project", "disabled", "900 s", "every 300 s", "off"):
        assert shown in page


def test_the_form_tells_address_and_result_columns(admin_client: Client, endpoint: Endpoint) -> None:
    page = admin_client.get(change(endpoint)).content.decode()
    assert "/api/endpoints/query/test.endpoint" in page
    assert "<code>level</code> bigint" in page
    assert "django-ace-widget" in page


def test_the_page_lists_the_sandbox_tables_and_their_columns(admin_client: Client) -> None:
    endpoint = Endpoint.objects.get(name="logs.all")
    page = admin_client.get(f"/admin/endpoints/endpoint/{endpoint.pk}/change/").content.decode()
    assert "<code>pooler_logs</code> timestamp timestamp with time zone, id text" in page


def test_deleting_takes_the_sandbox_schema_along(
    admin_client: Client, fields: Any, django_capture_on_commit_callbacks: Any
) -> None:
    admin_client.post(ADD, fields(sql="WITH a AS (SELECT @project AS p, @level AS l) SELECT 1 AS x", sandboxing="on"))
    saved = Endpoint.objects.get(name="test.endpoint")
    assert any(schema.endpoint_id == saved.pk for schema in published_schemas())
    with django_capture_on_commit_callbacks(execute=True):
        admin_client.post(f"/admin/endpoints/endpoint/{saved.pk}/delete/", {"post": "yes"})
    assert not Endpoint.objects.filter(pk=saved.pk).exists()
    assert not any(schema.endpoint_id == saved.pk for schema in published_schemas())
