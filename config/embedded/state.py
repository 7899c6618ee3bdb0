"""The memory of an installation: its passwords, the addresses of its servers, and the URLs made from both."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from config.embedded.postgres_server import SUPERUSER, EmbeddedServerError, PostgresServer

SERVICE_DATABASE = "service"
LOGS_DATABASE = "logs"
SERVICE_OWNER = "service_owner"
LOGS_OWNER = "logs_owner"
LOGS_GATE = "logs_gate"
# Hexadecimal: needs no quoting in a URL, in Redis' configuration or in a shell.
_password = partial(secrets.token_hex, 24)


@dataclass(frozen=True, slots=True)
class Servers:
    """The URLs of a pair of databases and a Redis; None for an unknown server. Never shown by repr().

    With standbys the gate's URL names every PostgreSQL, standbys first; the others name the primary alone.
    """

    database_url: str | None = field(default=None, repr=False)
    logs_database_url: str | None = field(default=None, repr=False)
    logs_gate_url: str | None = field(default=None, repr=False)
    redis_url: str | None = field(default=None, repr=False)
    superuser_url: str | None = field(default=None, repr=False)

    def environment(self) -> dict[str, str]:
        """Return the variables that the service reads, for the known servers; never the superuser's."""
        return {name.upper(): url for name, url in asdict(self).items() if url is not None and name != "superuser_url"}


@dataclass(frozen=True, slots=True)
class Secrets:
    """What is drawn once for an installation: a password per login, and what the demo shows its user."""

    superuser: str = field(repr=False, default_factory=_password)
    service_owner: str = field(repr=False, default_factory=_password)
    logs_owner: str = field(repr=False, default_factory=_password)
    logs_gate: str = field(repr=False, default_factory=_password)
    redis: str = field(repr=False, default_factory=_password)
    secret_key: str = field(repr=False, default_factory=_password)
    admin_password: str = field(repr=False, default_factory=partial(secrets.token_urlsafe, 12))
    access_token: str = field(repr=False, default="")


@dataclass(frozen=True, slots=True)
class Listening:
    """What runs of an installation, or ran last."""

    databases_prepared: bool = False
    redis_port: int | None = None
    standbys: int = 0


def load_secrets(root: Path) -> Secrets | None:
    """Return the passwords of an installation, or None before its first start."""
    values = _read(root / "secrets.json", Secrets)
    return None if values is None else Secrets(**values)


def load_listening(root: Path) -> Listening:
    """Return the record of an installation's servers; it is empty before the first start."""
    return Listening(**(_read(root / "servers.json", Listening) or {}))


def keep(root: Path, values: Secrets | Listening) -> None:
    """Replace the file of these values in one step; only its owner can read it."""
    path = root / ("secrets.json" if isinstance(values, Secrets) else "servers.json")
    partial_file = path.with_name(f"{path.name}.{os.getpid()}.partial")
    partial_file.unlink(missing_ok=True)
    with open(os.open(partial_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump(asdict(values), file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    partial_file.replace(path)


def standbys(root: Path, count: int) -> list[PostgresServer]:
    return [PostgresServer(root, f"standby{number}") for number in range(1, count + 1)]


def urls(root: Path, secrets: Secrets, listening: Listening) -> Servers:
    """Return the URLs of the servers that were started."""
    servers = Servers()
    if listening.databases_prepared:
        followers = [str(each.sockets) for each in standbys(root, listening.standbys)]
        servers = database_urls(secrets, host=str(PostgresServer(root).sockets), port=5432, followers=followers)
    if listening.redis_port is not None:
        servers = replace(servers, redis_url=f"redis://:{secrets.redis}@127.0.0.1:{listening.redis_port}/0")
    return servers


def database_urls(secrets: Secrets, *, host: str, port: int, followers: Sequence[str] = ()) -> Servers:
    """Return the URLs of both databases on one server: a host name, an address or a socket folder.

    With standbys the gate gets the first one that answers, and the primary if none does (libpq, prefer-standby).
    """

    def url(login: str, password: str, database: str, hosts: Sequence[str] = (host,), preference: str = "") -> str:
        if not host.startswith("/"):
            return f"postgresql://{login}:{password}@{host}:{port}/{database}"
        # libpq and django-environ read the query form alike, and it keeps upper case in the folder.
        return f"postgresql://{login}:{password}@/{database}?host={','.join(map(quote, hosts))}&port={port}{preference}"

    of_gate = ((*followers, host), "&target_session_attrs=prefer-standby" if followers else "")
    return Servers(
        database_url=url(SERVICE_OWNER, secrets.service_owner, SERVICE_DATABASE),
        logs_database_url=url(LOGS_OWNER, secrets.logs_owner, LOGS_DATABASE),
        logs_gate_url=url(LOGS_GATE, secrets.logs_gate, LOGS_DATABASE, *of_gate),
        superuser_url=url(SUPERUSER, secrets.superuser, LOGS_DATABASE),
    )


def _read(path: Path, kind: type[Secrets | Listening]) -> dict[str, Any] | None:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return {each.name: values[each.name] for each in fields(kind) if each.name in values}
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise EmbeddedServerError(f"{path} is damaged; remove {path.parent} to start again.") from error
