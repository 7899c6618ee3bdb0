"""The memory of an installation: its passwords, the addresses of its servers, and the URLs made from both."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from config.embedded.places import EmbeddedServerError

SERVICE_DATABASE = "service"
LOGS_DATABASE = "logs"
SUPERUSER = "postgres"
SERVICE_OWNER = "service_owner"
LOGS_OWNER = "logs_owner"
LOGS_GATE = "logs_gate"


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
        variables = {
            "DATABASE_URL": self.database_url,
            "LOGS_DATABASE_URL": self.logs_database_url,
            "LOGS_GATE_URL": self.logs_gate_url,
            "REDIS_URL": self.redis_url,
        }
        return {name: url for name, url in variables.items() if url is not None}


@dataclass(frozen=True, slots=True)
class Secrets:
    """One random password per login, kept in secrets.json."""

    superuser: str = field(repr=False)
    service_owner: str = field(repr=False)
    logs_owner: str = field(repr=False)
    logs_gate: str = field(repr=False)
    redis: str = field(repr=False)

    @classmethod
    def random(cls) -> Secrets:
        # Hexadecimal: needs no quoting in a URL, in redis.conf or in a shell.
        return cls(**{item.name: secrets.token_hex(24) for item in fields(cls)})


@dataclass(frozen=True, slots=True)
class Listening:
    """The addresses of an installation's servers, now or when they last ran."""

    postgres_socket_folder: str | None = None
    redis_port: int | None = None
    databases_prepared: bool = False
    standby_socket_folders: tuple[str, ...] = ()


def load_secrets(root: Path) -> Secrets | None:
    """Return the passwords of an installation, or None before its first start."""
    values = _read_json(root / "secrets.json")
    return None if values is None else Secrets(**values)


def draw_secrets(root: Path) -> Secrets:
    """Create new random passwords for an installation and keep them."""
    drawn = Secrets.random()
    write_private_json(root / "secrets.json", {item.name: getattr(drawn, item.name) for item in fields(drawn)})
    return drawn


def load_listening(root: Path) -> Listening:
    """Return the record of an installation's servers; it is empty before the first start."""
    values = _read_json(root / "servers.json") or {}
    return Listening(**{**values, "standby_socket_folders": tuple(values.get("standby_socket_folders", ()))})


def record_listening(root: Path, listening: Listening, **changes: str | int | bool | tuple[str, ...]) -> Listening:
    """Write the record to servers.json if it changed, and return it."""
    changed = replace(listening, **changes)  # type: ignore[arg-type]  # mypy cannot match ** values to fields
    if changed != listening:
        write_private_json(root / "servers.json", {item.name: getattr(changed, item.name) for item in fields(changed)})
    return changed


def write_private_json(path: Path, values: Mapping[str, object]) -> None:
    """Replace a file by these values in one step; only its owner can read it."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    partial.unlink(missing_ok=True)
    with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump(values, file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def urls(secrets: Secrets, listening: Listening) -> Servers:
    """Return the URLs of the servers whose addresses are recorded."""
    servers = Servers()
    if listening.postgres_socket_folder is not None:
        servers = database_urls(secrets, host=listening.postgres_socket_folder, port=5432)
        gate_url = with_standbys(str(servers.logs_gate_url), listening.standby_socket_folders)
        servers = replace(servers, logs_gate_url=gate_url)
    if listening.redis_port is not None:
        redis_url = f"redis://:{secrets.redis}@127.0.0.1:{listening.redis_port}/0"
        servers = replace(servers, redis_url=redis_url)
    return servers


def database_urls(secrets: Secrets, *, host: str, port: int) -> Servers:
    """Return the URLs of both databases on one server: a host name, an address or a socket folder."""

    def url(login: str, password: str, database: str) -> str:
        if host.startswith("/"):
            # libpq and django-environ read the query form alike, and it keeps upper case in the folder.
            return f"postgresql://{login}:{password}@/{database}?host={quote(host)}&port={port}"
        return f"postgresql://{login}:{password}@{host}:{port}/{database}"

    return Servers(
        database_url=url(SERVICE_OWNER, secrets.service_owner, SERVICE_DATABASE),
        logs_database_url=url(LOGS_OWNER, secrets.logs_owner, LOGS_DATABASE),
        logs_gate_url=url(LOGS_GATE, secrets.logs_gate, LOGS_DATABASE),
        superuser_url=url(SUPERUSER, secrets.superuser, LOGS_DATABASE),
    )


def with_standbys(url: str, socket_folders: Sequence[str]) -> str:
    """Return the URL of a primary's socket, changed to name its standbys first; without any it stays as it is.

    Whoever connects gets the first standby that answers, and the primary if none does (libpq, prefer-standby).
    """
    if not socket_folders:
        return url
    start, parameter, primary = url.partition("?host=")
    hosts = ",".join(map(quote, socket_folders))
    return f"{start}{parameter}{hosts},{primary}&target_session_attrs=prefer-standby"


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise EmbeddedServerError(f"{path} is damaged; remove {path.parent} to start again.") from error
    return dict(values)
