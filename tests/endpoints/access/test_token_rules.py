"""What no access token is made to be: over already, without anything to do, or bound so that every call fails."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from endpoints.access.access_tokens import issue_access_token
from endpoints.access.token_rules import check_expiry
from endpoints.defining.saving import save_endpoint
from endpoints.models import AccessToken, Endpoint
from endpoints.sql.parameters import DeclaredParameter, ParameterType

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 6, 2, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def orders(db: None) -> Endpoint:
    """An endpoint whose parameters take only some values."""
    parameters = [
        DeclaredParameter("project", pattern="[a-z]+"),
        DeclaredParameter("level", type=ParameterType.INTEGER, minimum="1", maximum="5"),
        DeclaredParameter("area", allowed_values=("north", "south")),
    ]
    sql = "SELECT @project AS project, @level AS level, @area AS area"
    return save_endpoint(Endpoint(name="test.orders", sql=sql), parameters)


@pytest.mark.parametrize(("seconds", "refused"), [(-86_400, True), (0, True), (1, False), (None, False)])
def test_an_end_is_in_the_future(seconds: int | None, refused: bool) -> None:
    end = None if seconds is None else NOON + timedelta(seconds=seconds)
    if not refused:
        check_expiry(end, now=NOON)
        return
    with pytest.raises(ValidationError, match="This is in the past: it is 2026-06-02 12:00 UTC now"):
        check_expiry(end, now=NOON)
    with pytest.raises(ValidationError) as refusal:
        issue_access_token(name="x", expires_at=end - timedelta(days=365) if end else None)
    assert list(refusal.value.message_dict) == ["expires_at"]


ORDERS = {"endpoint_names": ["test.orders"]}
BOTH = {"endpoint_names": ["test.orders", "logs.all"]}


@pytest.mark.parametrize(
    "options",
    [
        {},
        ORDERS | {"bound_arguments": {"project": "shop", "level": "3", "area": "north"}},
        {"bound_arguments": {"area": "south"}},
        # Any text fits the other endpoint's parameter: there it holds.
        BOTH | {"bound_arguments": {"project": "Shop 7"}},
        {"bound_arguments": {"project": "Shop 7"}},
        # Of two endpoints one has it: the other cannot be called, which is a warning.
        BOTH | {"bound_arguments": {"area": "north"}},
        {"no_endpoints": True, "may_load": True},
    ],
)
def test_what_can_be_called_is_issued(options: dict[str, Any]) -> None:
    assert issue_access_token(name="x", **options).access_token.pk


@pytest.mark.parametrize(
    ("options", "field", "reason"),
    [
        ({"no_endpoints": True}, "endpoints", "It could do nothing"),
        ({"no_endpoints": True, "may_purge": True, "may_issue": True}, "endpoints", "It could do nothing"),
        (
            {"no_endpoints": True, "may_load": True, "bound_arguments": {"project": "a"}},
            "bound_arguments",
            "They do not limit what it loads.",
        ),
        (
            ORDERS | {"bound_arguments": {"Project": "shop"}},
            "bound_arguments",
            "has a parameter @Project; they have @area, @level, @project.",
        ),
        (
            ORDERS | {"bound_arguments": {"project": "Shop-Team 7"}},
            "bound_arguments",
            "@project takes no such value: it does not match the pattern (pattern: [a-z]+).",
        ),
        (ORDERS | {"bound_arguments": {"level": "high"}}, "bound_arguments", "it is not an integer"),
        (ORDERS | {"bound_arguments": {"level": "6"}}, "bound_arguments", "it is above the maximum (maximum: 5)."),
        (
            ORDERS | {"bound_arguments": {"area": "Shop-Team 7"}},
            "bound_arguments",
            "it is not one of the allowed values (allowed values: north, south).",
        ),
        (
            {"bound_arguments": {"area": "north", "iso_timestamp_start": "2026-01-01"}},
            "bound_arguments",
            "No endpoint that it may call has all of @area, @iso_timestamp_start with these values, so it could call",
        ),
        # Each fits an endpoint, and no endpoint both.
        (
            BOTH | {"bound_arguments": {"project": "Shop 7", "area": "north"}},
            "bound_arguments",
            "has all of @area, @project with these values, so it could call none.",
        ),
    ],
)
def test_what_could_never_be_called_is_refused_with_the_reason(
    options: dict[str, Any], field: str, reason: str
) -> None:
    with pytest.raises(ValidationError) as refusal:
        issue_access_token(name="x", **options)
    assert list(refusal.value.message_dict) == [field]
    assert reason in refusal.value.message_dict[field][0]
    assert "Shop" not in str(refusal.value)
    assert not AccessToken.objects.exists()


def test_every_argument_that_does_not_fit_is_told() -> None:
    with pytest.raises(ValidationError) as refusal:
        issue_access_token(name="x", bound_arguments={"level": "9", "porject": "a", "project": "shop"})
    assert [reason.split()[0] for reason in refusal.value.message_dict["bound_arguments"]] == ["@level", "No"]
