"""list_access_tokens shows who has which access token: as a table for people, as JSON for scripts."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from endpoints.access.access_tokens import issue_access_token, revoke_access_tokens
from endpoints.models import AccessToken

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    call_command("list_access_tokens", *arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def listed(*arguments: str) -> list[dict[str, Any]]:
    out, err = run(*arguments, "--format", "json")
    assert err == ""
    found: list[dict[str, Any]] = json.loads(out)
    return found


@pytest.fixture
def tokens(db: None) -> dict[str, str]:
    """One access token of each state; their secrets by name."""
    now = timezone.now()
    issued = [
        issue_access_token(name="always", may_purge=True, may_issue=True),
        issue_access_token(name="revoked", endpoint_names=["logs.all"]),
        issue_access_token(name="shipper", may_load=True, load_sources=["edge_logs"], no_endpoints=True),
        issue_access_token(
            name="shop-team",
            endpoint_names=["usage.api-counts", "logs.all"],
            bound_arguments={"project": "shop"},
            expires_at=now + timedelta(days=3),
        ),
    ]
    revoke_access_tokens(AccessToken.objects.filter(name="revoked"))
    AccessToken.objects.filter(name="shipper").update(
        expires_at=now - timedelta(days=1), last_used_at=now - timedelta(hours=5, minutes=5)
    )
    return {one.access_token.name: one.secret for one in issued}


def test_the_table_says_what_each_may_do(tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    out, err = run()
    header, _, *lines = out.splitlines()
    assert header.split("  ")[0] == "name"
    assert [line.split()[0] for line in lines] == ["always", "revoked", "shipper", "shop-team"]
    for line, words in zip(
        lines,
        (
            ["valid, never expires", "call every endpoint and remove cached results and issue browser tokens"],
            ["revoked 20", "call logs.all"],
            ["expired 20", "5 hours ago", "call no endpoint and load rows into edge_logs"],
            ["valid until 20", "call logs.all, usage.api-counts with project=shop"],
        ),
        strict=True,
    ):
        assert [each for each in words if each not in line] == []
    assert err == "4 access tokens\n"


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_table_fits_the_terminal(tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    out, _ = run()
    assert max(map(len, out.splitlines())) <= width
    for prefix in AccessToken.objects.values_list("prefix", flat=True):
        assert prefix in out


def test_json_has_every_setting_and_no_secret(tokens: dict[str, str]) -> None:
    found = {each["name"]: each for each in listed()}
    assert found.keys() == tokens.keys()
    shop, stored = found["shop-team"], AccessToken.objects.get(name="shop-team")
    assert (shop["id"], shop["state"], shop["every_endpoint"]) == (stored.prefix, "expires soon", False)
    assert (shop["endpoints"], shop["bound_arguments"]) == (["logs.all", "usage.api-counts"], {"project": "shop"})
    assert datetime.fromisoformat(shop["expires_at"]) == stored.expires_at
    assert (shop["last_used_at"], shop["revoked_at"]) == (None, None)
    # A column that is added to access tokens is in the list, unless it is one that nobody may see.
    columns = {field.name for field in AccessToken._meta.get_fields() if field.name not in ("prefix", "secret_hash")}
    assert columns - {"id"} == shop.keys() - {"id", "state"}
    text = "".join(run("--format", each)[0] for each in ("json", "table"))
    for name, secret in tokens.items():
        assert secret.split("_", 2)[2] not in text
        assert AccessToken.objects.get(name=name).secret_hash not in text


@pytest.mark.parametrize(
    ("states", "names"),
    [
        (["valid"], ["always"]),
        (["expires-soon", "expired"], ["shipper", "shop-team"]),
        (["revoked"], ["revoked"]),
        ([], ["always", "revoked", "shipper", "shop-team"]),
    ],
)
def test_states_choose(tokens: dict[str, str], states: list[str], names: list[str]) -> None:
    options = [word for state in states for word in ("--state", state)]
    assert [each["name"] for each in listed(*options)] == names


def test_a_state_that_is_none_is_refused() -> None:
    with pytest.raises(CommandError, match=r"invalid choice: 'old' \(choose from "):
        run("--state", "old")


def test_no_access_tokens_are_an_empty_list() -> None:
    assert listed() == []
    assert run()[1] == "0 access tokens\n"


def test_a_name_cannot_steer_the_terminal() -> None:
    issue_access_token(name="a\x1b[2Jb")
    assert "\x1b" not in run()[0]
    assert datetime.fromisoformat(listed()[0]["created_at"]).tzinfo == UTC
