"""Issue an access token from the command line."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from config.setting_values import parse_limit
from endpoints.access.access_tokens import endpoints_out_of_reach, issue_access_token
from endpoints.access.secrets import NO_LIMIT, OwnLimits
from endpoints.access.token_states import words_of_bonds, words_of_further_rights, words_of_reach
from endpoints.management.failures import USAGE_EXIT_CODE, one_line_failures
from logsources.management.own_command import OwnCommand

_DURATION = re.compile(r"(\d{1,6})([mhdw])", re.ASCII)
_LIMITS = {  # in the order of OwnLimits
    "--calls-a-minute": "how many calls it may make a minute",
    "--calls-at-once": "how many of its calls run in PostgreSQL at the same time",
    "--sandbox-queries-at-once": "how many of them may be sandbox queries",
}
_NEVER = "never"
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class Command(OwnCommand):
    help = "Issue an access token and print only its secret on standard output; the secret is shown only once."
    examples = (
        "python manage.py create_access_token dashboard --endpoint logs.all --bind project=acme --expires-in 30d",
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="the person or program that will use it, as shown in logs")
        parser.add_argument(
            "--endpoint",
            action="extend",
            nargs="+",
            default=[],
            metavar="E",
            help="the only endpoints that it may call; repeatable; default: every endpoint",
        )
        parser.add_argument(
            "--bind",
            action="extend",
            nargs="+",
            default=[],
            metavar="NAME=VALUE",
            help="bind this argument: a call with another value is refused, a call without it gets this value",
        )
        parser.add_argument("--no-endpoints", action="store_true", help="it may call no endpoint")
        parser.add_argument("--may-purge", action="store_true", help="it may remove cached results")
        parser.add_argument("--may-issue", action="store_true", help="it may issue browser tokens")
        parser.add_argument(
            "--allow-origin",
            action="extend",
            nargs="+",
            default=[],
            metavar="ORIGIN",
            help="pages of this origin may call with the browser tokens that it issues, such as https://app.example.org",
        )
        parser.add_argument(
            "--may-load",
            nargs="?",
            const="",
            metavar="SOURCE,SOURCE",
            help="it may add rows over HTTP, to these log sources; without names, to every log source",
        )
        parser.add_argument(
            "--default-project", default="", metavar="PROJECT", help="the project of the rows it loads that name none"
        )
        for option, what in _LIMITS.items():
            parser.add_argument(option, metavar="N", help=f"{what}, or none for no limit; default: the installation's")
        parser.add_argument(
            "--expires-in", metavar="30d", help=f"lifetime: a number and m, h, d or w; default: {_NEVER}"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        bindings = _bindings(options["bind"])
        expires_at = _end(options["expires_in"] or "") if options["expires_in"] not in (None, _NEVER) else None
        sources = [name.strip() for name in (options["may_load"] or "").split(",") if name.strip()]
        limits = OwnLimits(*(_limit(option, options[option[2:].replace("-", "_")]) for option in _LIMITS))
        with one_line_failures():
            issued = issue_access_token(
                name=options["name"],
                endpoint_names=options["endpoint"],
                bound_arguments=bindings,
                expires_at=expires_at,
                may_purge=options["may_purge"],
                may_load=options["may_load"] is not None,
                load_sources=sources,
                default_project=options["default_project"],
                may_issue=options["may_issue"],
                allowed_origins=options["allow_origin"],
                no_endpoints=options["no_endpoints"],
                limits=limits,
            )
            out_of_reach = endpoints_out_of_reach(issued.access_token)
        token = issued.access_token
        bound = f" with {words_of_bonds(token)}" if bindings else ""
        until = f" until {expires_at:%Y-%m-%d %H:%M} UTC" if expires_at else ""
        rights = words_of_further_rights(token)
        self.stderr.write(f"Access token {token} may call {words_of_reach(token)}{bound}{rights}{until}.")
        if options["expires_in"] is None:
            self.stderr.write("It never expires; --expires-in 90d would end it after 90 days.")
        for endpoint, name in out_of_reach:
            self.stderr.write(f"Warning: {endpoint} has no parameter @{name}, so this access token cannot call it.")
        self.stderr.write("Its secret, shown only this once:")
        self.stdout.write(issued.secret)


def _limit(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return parse_limit(text) or NO_LIMIT
    except ValueError as error:
        raise _usage(f"{option} {error}") from error


def _end(lifetime: str) -> datetime:
    match = _DURATION.fullmatch(lifetime)
    if not match or int(match[1]) == 0:
        raise _usage(
            f"--expires-in must be {_NEVER}, or a number and one of m, h, d, w, such as 30d; not {lifetime!r}."
        )
    try:
        return timezone.now() + timedelta(**{_UNITS[match[2]]: int(match[1])})
    except OverflowError as error:
        raise _usage(f"--expires-in {lifetime} ends after the year 9999; leave it out for no end.") from error


def _bindings(pairs: list[str]) -> dict[str, str]:
    bindings: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals and value):
            raise _usage(f"--bind must be NAME=VALUE, such as project=acme; not {pair!r}.")
        if name in bindings:
            raise _usage(f"--bind names {name} twice.")
        bindings[name] = value
    return bindings


def _usage(message: str) -> CommandError:
    return CommandError(message, returncode=USAGE_EXIT_CODE)
