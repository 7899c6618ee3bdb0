"""The page "Usage" of an endpoint: what it tells, to whom, and that it stays useful without Redis."""

from __future__ import annotations

import html
import re
import time
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from endpoints.access.access_tokens import issue_access_token, revoke_access_tokens
from endpoints.access.secrets import Caller
from endpoints.cache import connection, usage
from endpoints.cache.usage import RecentCall, asked
from endpoints.calling.calls import note_answered_call, run_endpoint
from endpoints.calling.query_requests import Call
from endpoints.calling.warming import warm_endpoint
from endpoints.defining.saving import save_endpoint
from endpoints.models import AccessToken, Endpoint
from endpoints.sql.parameters import DeclaredParameter, ParameterType

pytestmark = pytest.mark.django_db
PARAMETERS = [
    DeclaredParameter("project", required=True, description="Rows of this project."),
    DeclaredParameter("unit", allowed_values=("hour", "day")),
]


@pytest.fixture
def endpoint(db: None) -> Endpoint:
    sql = "WITH chosen AS (SELECT @project AS project, @unit AS unit) SELECT * FROM chosen"
    return save_endpoint(
        Endpoint(name="test.used", sql=sql, cache_seconds=60, warm_every_seconds=30, sandboxing=True), PARAMETERS
    )


def address(endpoint: Endpoint, query: str = "") -> str:
    return reverse("admin:endpoints_endpoint_usage", args=[endpoint.pk]) + query


def page(client: Client, endpoint: Endpoint, query: str = "") -> str:
    """Return the page's text without its tags, and with single blanks."""
    response = client.get(address(endpoint, query))
    assert response.status_code == 200
    content = re.sub(r"(?s)<script.*?</script>|<[^>]*>", " ", response.content.decode())
    return " ".join(html.unescape(content).split())


def client_of(role: str) -> Client:
    person = User.objects.create_user(f"test-{role}", is_staff=True)
    person.groups.add(Group.objects.get(name=role))
    client = Client()
    client.force_login(person)
    return client


def test_it_shows_the_call_with_its_address_and_arguments(admin_client: Client, endpoint: Endpoint) -> None:
    text = page(admin_client, endpoint)
    assert "curl --get 'http://testserver/api/endpoints/query/test.used'" in text
    assert "--data-urlencode 'project= SOME_PROJECT '" in text, "the word stands in an element of its own"
    assert "--data-urlencode 'unit=hour'" in text
    assert "timeout=20," in text
    assert "project text yes any Rows of this project." in text
    assert "unit text no hour, day —" in text


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("?query=sql", "--data-urlencode 'sql=SELECT * FROM chosen LIMIT 10'"),
        ("?query=lql", "--data-urlencode 'lql=f:chosen t:last@1hour'"),
        ("?query=else", "--data-urlencode 'unit=hour'"),
    ],
)
def test_it_shows_queries_of_the_consumers_own(
    admin_client: Client, endpoint: Endpoint, query: str, expected: str
) -> None:
    assert expected in page(admin_client, endpoint, query)


def test_without_sandboxing_there_are_none(admin_client: Client) -> None:
    plain = save_endpoint(Endpoint(name="test.plain", sql="SELECT 1 AS one"), [])
    text = page(admin_client, plain, "?query=sql")
    assert "sql=" not in text
    assert "A query in SQL" not in text
    assert "It has no parameters." in text
    assert "Caching is disabled" in text


def test_the_examples_of_sandbox_queries_run(endpoint: Endpoint, api: Any) -> None:
    from endpoints.admin.call_examples import sandbox_query

    for language in ("sql", "lql"):
        response = api.query("test.used", {"project": "acme", language: sandbox_query(endpoint, language)})
        # The table of this test has no column of time to filter by.
        assert response.status_code == (200 if language == "sql" else 400)
    logs = Endpoint.objects.get(name="logs.all")
    for language in ("sql", "lql"):
        assert api.query("logs.all", {"project": "a", language: sandbox_query(logs, language)}).status_code == 200


def test_it_lists_who_may_call_it(admin_client: Client, endpoint: Endpoint) -> None:
    issue_access_token(name="every one")
    issue_access_token(name="bound", endpoint_names=["test.used"], bound_arguments={"project": "acme"})
    issue_access_token(name="ends soon", expires_at=timezone.now() + timedelta(days=3))
    issue_access_token(name="other endpoint", endpoint_names=["logs.all"])
    issue_access_token(name="other argument", bound_arguments={"interval": "daily"})
    issue_access_token(name="expired")
    AccessToken.objects.filter(name="expired").update(expires_at=timezone.now() - timedelta(days=3))
    issue_access_token(name="revoked")
    revoke_access_tokens(AccessToken.objects.filter(name="revoked"))
    AccessToken.objects.filter(name="bound").update(last_used_at=timezone.now() - timedelta(minutes=5))
    text = re.sub(r" \([0-9a-f]{12}…\)", "", page(admin_client, endpoint))
    assert "bound chosen endpoints project=acme never 5 minutes ago ends soon" in text, "the last used comes first"
    assert "every one every endpoint — never never" in text
    assert re.search(r"ends soon every endpoint — \d{4}-\d\d-\d\d \d\d:\d\d soon never", text)
    for hidden in ("other endpoint ", "other argument ", "expired every", "revoked every"):
        assert hidden not in text
    assert "Not listed: 2 revoked or expired." in text
    assert "Not listed: 1 bound to an argument that this endpoint does not have." in text


def test_access_tokens_of_one_name_are_told_apart(admin_client: Client, endpoint: Endpoint) -> None:
    prefixes = [issue_access_token(name="demo").access_token.prefix for _ in range(2)]
    text = page(admin_client, endpoint)
    assert all(f"demo ({prefix}…)" in text for prefix in prefixes)


def test_a_new_access_token_begins_limited_to_the_endpoint(admin_client: Client, endpoint: Endpoint) -> None:
    content = admin_client.get(address(endpoint)).content.decode()
    (add,) = set(re.findall(r'href="([^"]*accesstoken/add/[^"]*)"', content))
    form = admin_client.get(html.unescape(add)).context["adminform"].form
    assert form["every_endpoint"].value() == ""
    assert form["endpoints"].value() == [str(endpoint.pk)]


def test_bound_arguments_are_for_who_may_change_access_tokens(endpoint: Endpoint) -> None:
    issue_access_token(name="bound", bound_arguments={"project": "secret-customer"})
    for role, sees in (("viewer", False), ("editor", False), ("owner", True)):
        text = page(client_of(role), endpoint)
        assert "bound" in text
        assert ("secret-customer" in text) is sees
        assert ("Issue an access token" in text) is sees


def test_it_lists_the_last_calls_without_their_values(admin_client: Client, endpoint: Endpoint) -> None:
    caller = Caller(name="reports", prefix="0123456789ab")
    answer = run_endpoint("test.used", call=Call({"project": "secret-value"}))
    note_answered_call(answer, caller, status=200, seconds=0.0125)
    failed = RecentCall(time.time(), "reports", "0123456789ab", 504, "query_timeout", 0, 15_000.0, "", 1)
    usage.note_outcome(endpoint.pk.hex, failed)
    reason = "division by zero (SQLSTATE 22012)"
    failed = RecentCall(time.time(), "reports", "0123456789ab", 500, "stored_query_failed", 0, 1.0, "", 1, reason)
    usage.note_outcome(endpoint.pk.hex, failed)
    text = page(admin_client, endpoint)
    assert f"reports 0123456789ab… 500 stored query failed: {reason} —" in text
    assert "reports 0123456789ab… 504 query timeout — 15.00 s — 1" in text
    assert "reports 0123456789ab… 200 answered 1 12 ms miss 1" in text
    assert "secret-value" not in text
    assert "calls 3 refused (4xx) 0 failed (5xx) 2 from the cache 0 %" in text
    assert re.search(r"median 1\d ms 95th percentile 1\d\.\d\d s", text)


def test_before_the_first_call_it_says_what_to_do(admin_client: Client, endpoint: Endpoint) -> None:
    text = page(admin_client, endpoint)
    assert "Nobody has called it yet." in text
    assert "No access token may call it yet" in text
    assert "It has not run yet: the worker and beat must run" in text


def test_it_tells_of_the_cache_and_its_warming(admin_client: Client, endpoint: Endpoint) -> None:
    for project in "aab":
        run_endpoint("test.used", call=Call({"project": project}))
    asked.flush()
    warm_endpoint(endpoint.pk)
    text = page(admin_client, endpoint)
    assert "results in the cache 2 hits 1 stale hits 0 misses 2 without the cache 0" in text
    assert "Scheduled every 30 seconds; not sent yet." in text
    assert re.search(r"last run \d seconds? ago \([^)]* UTC\), took [\d.]+ m?s runs 1 results renewed 0", text)
    PeriodicTask.objects.filter(name__endswith=str(endpoint.pk)).update(enabled=False)
    assert "Scheduled every 30 seconds, but stopped : see Schedules ." in page(admin_client, endpoint)


@pytest.mark.parametrize(("role", "may_purge"), [("viewer", False), ("editor", True), ("owner", True)])
def test_the_button_that_purges_is_for_who_may(endpoint: Endpoint, role: str, may_purge: bool) -> None:
    client = client_of(role)
    purge = reverse("admin:endpoints_endpoint_purge", args=[endpoint.pk])
    assert (f'action="{purge}"' in client.get(address(endpoint)).content.decode()) is may_purge
    assert client.post(purge).status_code == (302 if may_purge else 403)


def test_without_redis_the_rest_is_there_and_soon(
    admin_client: Client, endpoint: Endpoint, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_breaker", connection._Breaker())
    settings.CACHES = {"default": settings.CACHES["default"] | {"LOCATION": "redis://127.0.0.1:1/0"}}
    text = page(admin_client, endpoint)
    assert "Calls are counted in Redis, which does not answer" in text
    assert "Redis does not answer: every call runs the query." in text
    assert "curl --get" in text


def test_it_is_refused_to_who_may_not_see_endpoints(endpoint: Endpoint) -> None:
    assert Client().get(address(endpoint)).status_code == 302
    stranger = Client()
    stranger.force_login(User.objects.create_user("stranger", is_staff=True))
    assert stranger.get(address(endpoint)).status_code == 403


def test_what_is_no_endpoint_is_not_found(admin_client: Client, endpoint: Endpoint) -> None:
    for reference in ("no-uuid", "00000000-0000-0000-0000-000000000000"):
        missing = reverse("admin:endpoints_endpoint_usage", args=[reference])
        assert admin_client.get(missing).status_code == 404


def test_the_endpoints_page_leads_there(admin_client: Client, endpoint: Endpoint) -> None:
    change = admin_client.get(reverse("admin:endpoints_endpoint_change", args=[endpoint.pk])).content.decode()
    assert f'href="{address(endpoint)}"' in change
    assert address(endpoint) not in admin_client.get(reverse("admin:endpoints_endpoint_add")).content.decode()


def test_a_parameter_of_any_type_has_its_row(admin_client: Client) -> None:
    declared = [DeclaredParameter(f"p{number}", type_) for number, type_ in enumerate(ParameterType)]
    sql = "SELECT " + ", ".join(f"@{parameter.name} AS {parameter.name}" for parameter in declared)
    text = page(admin_client, save_endpoint(Endpoint(name="test.types", sql=sql), declared))
    for parameter in declared:
        assert f"{parameter.name} {parameter.type} no any —" in text
