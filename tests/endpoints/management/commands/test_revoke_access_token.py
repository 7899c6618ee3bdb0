"""revoke_access_token ends one access token and says which; what is unknown, revoked or ambiguous is an error."""

from __future__ import annotations

import io
import json

import pytest
from django.core.management import CommandError, call_command

from endpoints.access.access_tokens import authenticate_access_token, issue_access_token, revoke_access_tokens
from endpoints.errors import NotAuthenticated
from endpoints.models import AccessToken
from tests.conftest import ApiClient

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("revoke_access_token", *arguments, stdout=out)
    return out.getvalue()


def failure(*arguments: str) -> str:
    with pytest.raises(CommandError) as error:
        run(*arguments)
    assert "\n" not in str(error.value)
    assert error.value.returncode == 1
    return str(error.value)


def is_revoked(secret: str) -> bool:
    try:
        authenticate_access_token(secret)
    except NotAuthenticated:
        return True
    return False


def test_a_name_is_enough_and_calls_are_refused_from_then_on() -> None:
    kept = issue_access_token(name="kept")
    bound = {"project": "shop"}
    issued = issue_access_token(name="shop-team", endpoint_names=["logs.all"], bound_arguments=bound, may_load=True)
    client = ApiClient(issued.secret)
    assert client.query("logs.all").status_code == 200
    token = issued.access_token
    assert run("shop-team") == (
        f"Revoked: access token shop-team ({token.prefix}…), which could call logs.all with project=shop and load rows."
        " Calls with it are refused from now on.\n"
    )
    assert client.query("logs.all").status_code == 401
    assert not is_revoked(kept.secret)
    assert token.history.latest().revoked_at is not None


@pytest.mark.parametrize("form", ["{id}", "lqe_{id}", "{id}…", "{secret}"])
def test_an_id_is_enough_also_as_logs_and_leaks_write_it(form: str) -> None:
    issued = issue_access_token(name="shop-team")
    other = issue_access_token(name="shop-team")
    said = run(form.format(id=issued.access_token.prefix, secret=issued.secret))
    assert issued.secret not in said
    assert (is_revoked(issued.secret), is_revoked(other.secret)) == (True, False)


def test_json_says_what_was_revoked() -> None:
    token = issue_access_token(name="shop-team").access_token
    said = json.loads(run("shop-team", "--format", "json"))
    token.refresh_from_db()
    assert token.revoked_at is not None
    at = token.revoked_at.isoformat(timespec="microseconds").replace("+00:00", "Z")
    assert said == {"name": "shop-team", "id": token.prefix, "revoked_at": at}


@pytest.mark.parametrize("reference", ["nobody", "0123456789ab", "", "\0", "é", "shop", "SHOP-TEAM"])
def test_an_unknown_one_is_an_error(reference: str) -> None:
    issued = issue_access_token(name="shop-team")
    assert failure(reference) == (
        f"There is no access token with the name or id {reference!r}. manage.py list_access_tokens lists them."
    )
    assert not is_revoked(issued.secret)


def test_an_unknown_secret_is_not_repeated() -> None:
    secret = "lqe_0123456789ab_" + "A" * 43
    assert failure(secret).startswith("There is no access token with this secret.")


def test_one_that_is_revoked_already_is_an_error() -> None:
    token = issue_access_token(name="shop-team").access_token
    revoke_access_tokens(AccessToken.objects.all())
    token.refresh_from_db()
    for reference in ("shop-team", token.prefix):
        assert failure(reference) == (
            f"Access token shop-team ({token.prefix}…) is already revoked, since {token.revoked_at:%Y-%m-%d %H:%M} UTC."
        )


def test_of_one_name_the_one_that_is_left_is_meant() -> None:
    issue_access_token(name="shop-team")
    revoke_access_tokens(AccessToken.objects.all())
    issued = issue_access_token(name="shop-team")
    run("shop-team")
    assert is_revoked(issued.secret)


def test_several_of_one_name_are_told_apart_by_their_ids() -> None:
    tokens = [issue_access_token(name="shop-team").access_token for _ in range(2)]
    said = failure("shop-team")
    assert said.startswith("2 access tokens are called 'shop-team'. Revoke one by its id: ")
    assert all(f"{token.prefix}, made 20" in said for token in tokens)
    assert not AccessToken.objects.exclude(revoked_at=None).exists()
