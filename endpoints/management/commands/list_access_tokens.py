"""List access tokens: who has one, until when, what each may do, and when it was last used."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from endpoints.access.token_states import (
    EXPIRES_SOON,
    TokenState,
    state_of,
    words_of_bonds,
    words_of_further_rights,
    words_of_reach,
)
from endpoints.calling.installation import ago
from endpoints.management.failures import one_line_failures
from endpoints.management.text_tables import format_rows
from endpoints.models import AccessToken
from logsources.management.own_command import OwnCommand

_STATES = {state.value.replace(" ", "-"): state for state in TokenState}
_HEADER = ("name", "id", "state", "last used", "may")


class Command(OwnCommand):
    help = (
        "List the access tokens with what each may do. The id is what logs and the admin show of an access token; a "
        "secret is stored nowhere."
    )
    examples = (
        "python manage.py list_access_tokens",
        "python manage.py list_access_tokens --state expires-soon --state expired",
        "python manage.py list_access_tokens --format json | jq -r '.[] | select(.last_used_at == null) | .name'",
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--state",
            action="append",
            choices=list(_STATES),
            help=f"only those in this state; repeatable; expires-soon: within {EXPIRES_SOON.days} days; default: all",
        )
        parser.add_argument(
            "--format",
            choices=["table", "json"],
            default="table",
            help="default: %(default)s, as wide as the terminal (or COLUMNS); json has every setting, for scripts",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        now = timezone.now()
        wanted = {_STATES[name] for name in options["state"] or _STATES}
        with one_line_failures():
            tokens = [
                token
                for token in AccessToken.objects.prefetch_related("endpoints")
                if state_of(token, now=now) in wanted
            ]
        if options["format"] == "json":
            self.stdout.write(json.dumps([_settings(token, now=now) for token in tokens], indent=2, ensure_ascii=False))
            return
        rows = [_row(token, now=now) for token in tokens]
        self.stdout.write(format_rows(_HEADER, rows, width=shutil.get_terminal_size().columns), ending="")
        self.stderr.write("1 access token" if len(rows) == 1 else f"{len(rows)} access tokens")


def _row(token: AccessToken, *, now: datetime) -> tuple[str, ...]:
    bonds = words_of_bonds(token)
    may = f"call {words_of_reach(token)}{f' with {bonds}' if bonds else ''}{words_of_further_rights(token)}"
    used = token.last_used_at
    last_used = "never" if used is None else f"{ago((now - used).total_seconds())} ago"
    return (token.name, token.prefix, _words_of_state(token, now=now), last_used, may)


def _words_of_state(token: AccessToken, *, now: datetime) -> str:
    if token.revoked_at is not None:
        return f"revoked {token.revoked_at:%Y-%m-%d %H:%M}"
    if token.expires_at is None:
        return "valid, never expires"
    verb = "expired" if state_of(token, now=now) is TokenState.EXPIRED else "valid until"
    return f"{verb} {token.expires_at:%Y-%m-%d %H:%M}"


def _settings(token: AccessToken, *, now: datetime) -> dict[str, Any]:
    """Return everything that an owner may see of the access token; times are ISO 8601 in UTC."""
    return {
        "name": token.name,
        "id": token.prefix,
        "state": state_of(token, now=now).value,
        "every_endpoint": token.every_endpoint,
        "endpoints": [endpoint.name for endpoint in token.endpoints.all()],
        "bound_arguments": token.bound_arguments,
        "may_purge": token.may_purge,
        "may_issue": token.may_issue,
        "allowed_origins": token.allowed_origins,
        "may_load": token.may_load,
        "load_sources": token.load_sources,
        "default_project": token.default_project,
        "calls_a_minute": token.calls_a_minute,
        "calls_at_once": token.calls_at_once,
        "sandbox_queries_at_once": token.sandbox_queries_at_once,
        "created_at": _iso(token.created_at),
        "last_used_at": _iso(token.last_used_at),
        "expires_at": _iso(token.expires_at),
        "revoked_at": _iso(token.revoked_at),
    }


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
