"""The forms in which settings are written: switches, rates, roles of groups, start-up options of gate sessions."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

# --- Environment ------------------------------------------------------------------------------------------------------
# Switches of the environment: a word that is neither yes nor no is an error, not silently a no.
_YES = frozenset({"true", "1", "yes", "on"})
_NO = frozenset({"false", "0", "no", "off"})


def switch(name: str, *, default: bool) -> bool:
    """Return whether a setting is on; unset or empty means the default. Raises ImproperlyConfigured."""
    word = os.environ.get(name, "").strip().lower()
    if not word:
        return default
    if word not in _YES | _NO:
        raise ImproperlyConfigured(f"{name} must be true or false, not {word!r}.")
    return word in _YES


# --- Extras -----------------------------------------------------------------------------------------------------------
def check_spans() -> None:
    """Raise ImproperlyConfigured unless the packages of the extra `otel` are installed."""
    try:
        for name in ("sdk.trace", "exporter.otlp.proto.http.trace_exporter", "instrumentation.wsgi"):
            import_module(f"opentelemetry.{name}")
    except ImportError as error:
        raise ImproperlyConfigured(
            "ENDPOINTS_SPANS needs packages that are not installed here: install those of requirements.lock."
        ) from error


# --- Single sign-on ---------------------------------------------------------------------------------------------------
SUPERUSER: Final = "superuser"
ROLE_NAMES: Final = ("viewer", "editor", "owner", SUPERUSER)  # each may do what the one before may, and more
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


def read_roles(text: str, *, setting: str) -> dict[str, str]:
    """Return role by group, from `group=role` separated by commas; the last `=` of a pair counts.

    Raises ImproperlyConfigured for a pair without a group, for a role that does not exist, and for a group named twice.
    """
    roles: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        group, _, role = (part.strip() for part in pair.rpartition("="))
        if not group or role not in ROLE_NAMES:
            raise ImproperlyConfigured(
                f"{setting} must be pairs such as log-owners=owner, separated by commas, with a role out of "
                f"{', '.join(ROLE_NAMES)}; not {pair!r}."
            )
        if group in roles:
            raise ImproperlyConfigured(f"{setting} names the group {group} twice: a group has one role.")
        roles[group] = role
    return roles


def check_single_sign_on(issuer: str, required: Mapping[str, object], *, scopes: str, session_seconds: int) -> None:
    """Raise ImproperlyConfigured unless people can log in by this issuer: its address, the other settings, the extra.

    Only a provider on this machine may speak plain HTTP: whoever can change its answers chooses who is a superuser.
    """
    address = urlsplit(issuer)
    if address.scheme != "https" and not (address.scheme == "http" and address.hostname in _LOOPBACK):
        raise ImproperlyConfigured(f"OIDC_ISSUER must begin with https://, as the provider shows it; not {issuer!r}.")
    if not address.hostname or address.query or address.fragment:
        raise ImproperlyConfigured(f"OIDC_ISSUER must be an address without ? and #; not {issuer!r}.")
    missing = [name for name, value in required.items() if not value]
    if missing:
        raise ImproperlyConfigured(f"OIDC_ISSUER also needs {', '.join(missing)}: docs/sso.md says what they are.")
    if "openid" not in scopes.split():
        raise ImproperlyConfigured(f"OIDC_SCOPES must have openid among its words; not {scopes!r}.")
    if session_seconds < 60:
        raise ImproperlyConfigured("OIDC_SESSION_SECONDS must be at least 60.")
    if find_spec("mozilla_django_oidc") is None:  # not imported here: it reads these settings
        raise ImproperlyConfigured(
            "OIDC_ISSUER needs packages that are not installed here: install those of requirements.lock."
        )


# --- Rates ------------------------------------------------------------------------------------------------------------
# Rates and limits in the form used by settings, forms and commands: ``600/minute``, ``6``, ``none``.
_RATE: Final = re.compile(r"([1-9][0-9]{0,8})/(second|minute|hour|day)", re.ASCII)
_LIMIT: Final = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
NO_LIMIT: Final = "none"
_SECONDS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}


class Rate(NamedTuple):
    """A limit of so many calls in a window of so many seconds."""

    calls: int
    seconds: int

    def __str__(self) -> str:
        (unit,) = (name for name, seconds in _SECONDS.items() if seconds == self.seconds)
        return f"{self.calls}/{unit}"


def read_rate(text: str, *, setting: str) -> Rate | None:
    """Return the rate in a setting, None if it is empty. Raises ImproperlyConfigured for anything else."""
    if not text:
        return None
    match = _RATE.fullmatch(text)
    if match is None:
        raise ImproperlyConfigured(
            f"{setting} must be a number with /second, /minute, /hour or /day, such as 600/minute; not {text!r}."
        )
    return Rate(calls=int(match[1]), seconds=_SECONDS[match[2]])


def read_limit(text: str, *, setting: str) -> int | None:
    """Return the number in a limit, None for ``none``. Raises ImproperlyConfigured for anything else."""
    try:
        return parse_limit(text)
    except ValueError as error:
        raise ImproperlyConfigured(f"{setting} {error}") from error


def parse_limit(text: str) -> int | None:
    """Return the number in a limit, None for ``none``; the message of a ValueError says what would be right."""
    if text == NO_LIMIT:
        return None
    if _LIMIT.fullmatch(text) is None:
        raise ValueError(f"must be a number of at least 1, or {NO_LIMIT}; not {text!r}.")
    return int(text)


# --- Gate options -----------------------------------------------------------------------------------------------------
GATE_OPTIONS: Final[Mapping[str, str]] = {
    "TimeZone": "UTC",
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "bytea_output": "hex",
    "default_transaction_read_only": "on",
    # What a killed process ran would run to its timeout, and counts nowhere once the leases of the process are over.
    "client_connection_check_interval": "2s",
}
_WORD: Final = re.compile(r"(?:\\.|[^\s\\])+", re.DOTALL)  # "Connection Strings", options: a backslash keeps a space


def with_gate_options(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the gate's connection parameters with the service's own options after those of the URL.

    Raises ImproperlyConfigured if the URL contradicts one of the service's own options or cannot be read.
    """
    given = str(parameters.get("options") or "")
    own = {name.lower(): value for name, value in GATE_OPTIONS.items()}
    for name, value in option_settings(given):
        wanted = own.get(name.lower())
        if wanted is not None and value.lower() != wanted.lower():
            raise ImproperlyConfigured(
                f"LOGS_GATE_URL: options= sets {name} to {value!r}, but the service needs {wanted!r}. Leave it out."
            )
    # If an option comes twice, PostgreSQL takes the last.
    ours = " ".join(f"-c {name}={value}" for name, value in GATE_OPTIONS.items())
    return {**parameters, "options": f"{given} {ours}".strip()}


# --- Several servers --------------------------------------------------------------------------------------------------
DEFAULT_PORT: Final = "5432"
PREFER_STANDBY: Final = "prefer-standby"
_SEVERAL_SERVERS: Final = (PREFER_STANDBY, "primary", "read-write")


def each_server(parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the connection parameters of each host, in order (manual, "Specifying Multiple Hosts").

    With one host, or none, these are the parameters themselves.
    """
    lists = {name: str(parameters[name]).split(",") for name in ("host", "hostaddr", "port") if parameters.get(name)}
    count = max([len(lists.get(name, ())) for name in ("host", "hostaddr")], default=1)
    if count <= 1:
        return [dict(parameters)]
    return [
        {**parameters, **{name: values[index] if len(values) > 1 else values[0] for name, values in lists.items()}}
        for index in range(count)
    ]


def on_primary(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return connection parameters that reach the primary, if they name several hosts."""
    return {**parameters, "target_session_attrs": "primary"} if len(each_server(parameters)) > 1 else dict(parameters)


def check_servers(parameters: Mapping[str, Any], *, setting: str, may_prefer: bool) -> None:
    """Raise ImproperlyConfigured if a URL names several hosts and does not say which of them is meant.

    Only the gate `may_prefer` standbys: everything else works on the primary.
    """
    allowed = _SEVERAL_SERVERS if may_prefer else _SEVERAL_SERVERS[1:]
    hosts, ports = (str(parameters.get(name) or "").count(",") for name in ("host", "port"))
    if ports not in (0, hosts):
        raise ImproperlyConfigured(f"{setting}: name one port, or as many ports as hosts.")
    if hosts and parameters.get("target_session_attrs") not in allowed:
        raise ImproperlyConfigured(
            f"{setting} names several hosts: add target_session_attrs={allowed[0]}, or another one of"
            f" {', '.join(allowed)}."
        )


def option_settings(options: str) -> Iterator[tuple[str, str]]:
    """Yield name and value of each setting: `-c name=value`, `-cname=value` or `--name=value` (postgres, "-c")."""
    words = iter(_WORD.findall(options))
    for word in words:
        if word.startswith("--"):
            text = word[2:]
        elif word.startswith("-c"):
            text = word[2:] or next(words, "")
        else:
            raise _unreadable(word)
        name, equals, value = re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL).partition("=")
        if not equals or not name:
            raise _unreadable(word)
        yield name.replace("-", "_"), value


def _unreadable(word: str) -> ImproperlyConfigured:
    return ImproperlyConfigured(
        f"LOGS_GATE_URL: options= cannot be read at {word!r}; write settings as -c name=value, such as "
        "options=-c%20work_mem%3D8MB."
    )
