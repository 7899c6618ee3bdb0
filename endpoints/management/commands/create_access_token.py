"""Issue an access token from the command line."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from endpoints.services import issue_access_token

_DURATION = re.compile(r"(\d{1,6})([mhdw])", re.ASCII)
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class Command(BaseCommand):
    help = (
        "Issue an access token and print its secret, alone, on standard output: it is shown this once. "
        "Example: manage.py create_access_token dashboard --endpoint logs.all --bind project=acme --expires-in 30d"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="who or what will use it, as shown in logs")
        parser.add_argument(
            "--endpoint", action="append", default=[], metavar="E", help="may call only this endpoint; repeatable"
        )
        parser.add_argument(
            "--bind", action="append", default=[], metavar="NAME=VALUE", help="bind this argument; repeatable"
        )
        parser.add_argument("--expires-in", metavar="30d", help="lifetime: a number and m, h, d or w; default: none")

    def handle(self, *args: Any, **options: Any) -> None:
        lifetime = _lifetime(options["expires_in"]) if options["expires_in"] else None
        try:
            issued = issue_access_token(
                name=options["name"],
                endpoint_names=options["endpoint"],
                bound_arguments=_bindings(options["bind"]),
                expires_at=timezone.now() + lifetime if lifetime else None,
            )
        except ValidationError as error:
            raise CommandError("; ".join(error.messages)) from error
        limits = ", ".join(options["endpoint"]) or "every endpoint"
        self.stderr.write(f"Access token {issued.access_token} may call {limits}. Its secret is shown this once:")
        self.stdout.write(issued.secret)


def _lifetime(text: str) -> timedelta:
    match = _DURATION.fullmatch(text)
    if not match or int(match[1]) == 0:
        raise CommandError(f"--expires-in takes a number and one of m, h, d, w, such as 30d; not {text!r}.")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def _bindings(pairs: list[str]) -> dict[str, str]:
    bindings: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals and value):
            raise CommandError(f"--bind takes NAME=VALUE, such as project=acme; not {pair!r}.")
        if name in bindings:
            raise CommandError(f"--bind names {name} twice.")
        bindings[name] = value
    return bindings
