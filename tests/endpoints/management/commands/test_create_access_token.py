"""create_access_token prints the secret alone on standard output, and everything else on standard error."""

from __future__ import annotations

import io
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from endpoints.access.access_tokens import authenticate_access_token
from endpoints.access.secrets import NO_LIMIT, OwnLimits, prefix_of
from endpoints.models import AccessToken

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    call_command("create_access_token", *arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def test_standard_output_holds_the_secret_alone() -> None:
    out, err = run("dashboard")
    secret = out.rstrip("\n")
    assert out == f"{secret}\n"
    assert authenticate_access_token(secret).name == "dashboard"
    assert f"dashboard ({prefix_of(secret)}…) may call every endpoint." in err
    assert secret not in err


def test_endpoints_bindings_and_lifetime() -> None:
    out, err = run(
        "dashboard", "--endpoint", "logs.all", "--endpoint", "usage.api-counts",
        "--bind", "project=acme=1", "--bind", "interval=daily", "--expires-in", "30d",
    )  # fmt: skip
    caller = authenticate_access_token(out.strip())
    token = AccessToken.objects.get()
    assert {endpoint.name for endpoint in token.endpoints.all()} == {"logs.all", "usage.api-counts"}
    assert caller.bound_arguments == {"project": "acme=1", "interval": "daily"}
    assert token.expires_at is not None
    assert abs(token.expires_at - timezone.now() - timedelta(days=30)) < timedelta(minutes=1)
    assert f"until {token.expires_at:%Y-%m-%d %H:%M} UTC" in err
    assert "Warning: logs.all has no parameter @interval, so this access token cannot call it." in err
    assert "usage.api-counts has no" not in err


def test_a_shippers_access_token_loads_and_calls_nothing() -> None:
    out, err = run("shipper", "--may-load", "--no-endpoints")
    caller = authenticate_access_token(out.strip())
    assert (caller.may_load, caller.may_purge, caller.endpoint_ids) == (True, False, frozenset())
    assert "may call no endpoint and load rows." in err


def test_a_backends_access_token_may_issue_browser_tokens() -> None:
    out, err = run("backend", "--may-issue", "--bind", "project=acme")
    assert authenticate_access_token(out.strip()).may_issue
    assert "may call every endpoint with project=acme and issue browser tokens." in err


def test_a_shippers_access_token_may_be_limited_to_log_sources_and_have_a_project() -> None:
    out, err = run("shipper", "--may-load", "edge_logs, auth_logs", "--default-project", "shop", "--no-endpoints")
    caller = authenticate_access_token(out.strip())
    assert (caller.may_load, caller.load_sources) == (True, {"edge_logs", "auth_logs"})
    assert caller.default_project == "shop"
    assert "may call no endpoint and load rows into auth_logs, edge_logs of project shop." in err


def test_an_unknown_log_source_is_refused() -> None:
    with pytest.raises(CommandError, match=r"There is no log source named no_logs, nor_logs\."):
        run("shipper", "--may-load", "no_logs,edge_logs,nor_logs")
    assert not AccessToken.objects.exists()


def test_endpoints_and_none_of_them_are_refused() -> None:
    with pytest.raises(CommandError, match="not both"):
        run("shipper", "--no-endpoints", "--endpoint", "logs.all")


@pytest.mark.parametrize(
    ("text", "lifetime"),
    [("1m", timedelta(minutes=1)), ("12h", timedelta(hours=12)), ("2w", timedelta(weeks=2)), ("007d", timedelta(7))],
)
def test_lifetimes(text: str, lifetime: timedelta) -> None:
    run("dashboard", "--expires-in", text)
    expires_at = AccessToken.objects.get().expires_at
    assert expires_at is not None
    assert abs(expires_at - timezone.now() - lifetime) < timedelta(seconds=30)


REFUSALS = [
    (["x", "--endpoint", "no.such", "--endpoint", "logs.all"], 1, "endpoints: There is no endpoint named no.such."),
    ([""], 1, "name: This field cannot be blank."),
    (["x" * 101], 1, "name: Ensure this value has at most 100 characters"),
    (["x", "--bind", "no name=a"], 1, "A parameter name must start with a letter"),
    (
        ["x", "--bind", "porject=a"],
        1,
        "bound_arguments: No endpoint that it may call has a parameter @porject; they have",
    ),
    (
        ["x", "--bind", "interval=weekly"],
        1,
        "@interval takes no such value: it is not one of the allowed values (allowed",
    ),
    (["x", "--bind", "interval=daily", "--endpoint", "logs.all"], 1, "has a parameter @interval; they have @iso_time"),
    (["x", "--bind", "interval=daily", "--bind", "iso_timestamp_end=2026-01-01"], 1, "so it could call none."),
    *(
        (["x", "--bind", text], 2, f"--bind must be NAME=VALUE, such as project=acme; not {text!r}.")
        for text in ("project", "=acme", "project=", "")
    ),
    (["x", "--bind", "project=a", "--bind", "project=b"], 2, "--bind names project twice."),
    *(
        (["x", "--expires-in", text], 2, f"such as 30d; not {text!r}.")
        for text in ("", "30", "d", "0d", "1y", "-1d", "1.5d", "30 d", "30D", "1d\n", "٣d", "1234567d")
    ),
    (["x", "--expires-in", "999999w"], 2, "--expires-in 999999w ends after the year 9999"),
]


@pytest.mark.parametrize(("arguments", "code", "message"), REFUSALS, ids=lambda value: str(value)[:40])
def test_a_refusal_is_one_line_and_makes_nothing(arguments: list[str], code: int, message: str) -> None:
    name, *options = arguments
    with pytest.raises(CommandError) as error:
        run(name, *(f"{option}={value}" for option, value in zip(options[::2], options[1::2], strict=True)))
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert error.value.returncode == code
    assert not AccessToken.objects.exists()


def test_limits_of_its_own() -> None:
    out, _ = run("dashboard", "--calls-a-minute", "600", "--calls-at-once", "none")
    assert authenticate_access_token(out.strip()).limits == OwnLimits(600, NO_LIMIT, None)


def test_without_an_end_it_says_so() -> None:
    assert "It never expires; --expires-in 90d" in run("dashboard")[1]
    assert "never expires" not in run("dashboard", "--expires-in", "never")[1]
    assert not AccessToken.objects.exclude(expires_at=None).exists()


@pytest.mark.parametrize("rights", [[], ["--may-issue", "--may-purge"]])
def test_an_access_token_that_could_do_nothing_is_refused(rights: list[str]) -> None:
    with pytest.raises(CommandError, match=r"^endpoints: It could do nothing: choose the endpoints"):
        run("nothing", "--no-endpoints", *rights)
    with pytest.raises(CommandError, match=r"^bound_arguments: They limit calls, and it may call no endpoint"):
        run("shipper", "--no-endpoints", "--may-load", "--bind", "project=shop")
    assert not AccessToken.objects.exists()


@pytest.mark.parametrize("limit", ["0", "many", "1.5"])
def test_what_is_no_limit_is_refused(limit: str) -> None:
    with pytest.raises(CommandError, match="--sandbox-queries-at-once must be a number of at least 1, or none; not"):
        run("dashboard", "--sandbox-queries-at-once", limit)
    assert not AccessToken.objects.exists()
