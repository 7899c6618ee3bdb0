"""Revoke an access token from the command line."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db.models import Q

from endpoints.access.access_tokens import revoke_access_tokens
from endpoints.access.secrets import prefix_of
from endpoints.access.token_states import words_of_bonds, words_of_further_rights, words_of_reach
from endpoints.management.failures import one_line_failures
from endpoints.models import AccessToken
from logsources.management.own_command import OwnCommand


class Command(OwnCommand):
    help = (
        "Revoke an access token, for good: calls with it are refused from now on. Its user needs another one. What it "
        "may do stays in the history of the admin."
    )
    examples = (
        "python manage.py revoke_access_token shop-team",
        "python manage.py revoke_access_token 8d8254a3cead --format json",
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "access_token",
            metavar="NAME-OR-ID",
            help="its name, or its id as list_access_tokens shows it; the id if several have the name",
        )
        parser.add_argument(
            "--format", choices=["text", "json"], default="text", help="default: %(default)s; json is for scripts"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        with one_line_failures():
            token = _find(options["access_token"])
            revoked = revoke_access_tokens(AccessToken.objects.filter(pk=token.pk))
            token.refresh_from_db()
        if not revoked:  # somebody else was faster
            raise _already_revoked([token])
        if options["format"] == "json":
            at = f"{token.revoked_at:%Y-%m-%dT%H:%M:%S.%fZ}"
            self.stdout.write(json.dumps({"name": token.name, "id": token.prefix, "revoked_at": at}))
            return
        bonds = f" with {words_of_bonds(token)}" if token.bound_arguments else ""
        self.stdout.write(
            f"Revoked: access token {token}, which could call {words_of_reach(token)}{bonds}"
            f"{words_of_further_rights(token)}. Calls with it are refused from now on."
        )


def _find(reference: str) -> AccessToken:
    """Return the one that is not yet revoked. Raises CommandError if there is none, or if there are several."""
    # A whole secret that has leaked is at hand more easily than its id. It is never repeated.
    prefix = prefix_of(reference) or reference.removeprefix("lqe_").removesuffix("…")
    found = [] if "\0" in reference else list(AccessToken.objects.filter(Q(name=reference) | Q(prefix=prefix)))
    valid = [token for token in found if token.revoked_at is None]
    if not found:
        said = "this secret" if prefix_of(reference) else f"the name or id {reference!r}"
        raise CommandError(f"There is no access token with {said}. manage.py list_access_tokens lists them.")
    if not valid:
        raise _already_revoked(found)
    if len(valid) > 1:
        several = "; ".join(f"{token.prefix}, {_words_of_use(token)}" for token in valid)
        raise CommandError(f"{len(valid)} access tokens are called {reference!r}. Revoke one by its id: {several}.")
    return valid[0]


def _words_of_use(token: AccessToken) -> str:
    used = token.last_used_at
    return f"last used {used:%Y-%m-%d %H:%M} UTC" if used else f"made {token.created_at:%Y-%m-%d %H:%M} UTC, never used"


def _already_revoked(tokens: list[AccessToken]) -> CommandError:
    """Return the error for access tokens that are all revoked; the last of them is the one that a person means."""
    last = max(tokens, key=lambda token: token.revoked_at.timestamp() if token.revoked_at else 0)
    return CommandError(f"Access token {last} is already revoked, since {last.revoked_at:%Y-%m-%d %H:%M} UTC.")
