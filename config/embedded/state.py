"""The memory of an installation: its passwords, the addresses of its servers, and the URLs made from both."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile
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
    """What is drawn once for an installation, a password per login among it, and what runs of it, or ran last."""

    superuser: str = field(repr=False, default_factory=_password)
    service_owner: str = field(repr=False, default_factory=_password)
    logs_owner: str = field(repr=False, default_factory=_password)
    logs_gate: str = field(repr=False, default_factory=_password)
    redis: str = field(repr=False, default_factory=_password)
    secret_key: str = field(repr=False, default_factory=_password)
    admin_password: str = field(repr=False, default_factory=partial(secrets.token_urlsafe, 12))
    access_token: str = field(repr=False, default="")  # the demo's, once it has issued it
    redis_port: int | None = None
    standbys: int = 0


def load_secrets(root: Path) -> Secrets | None:
    """Return what is known of an installation, or None before its first start."""
    path = root / "secrets.json"
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return Secrets(**{name: kept[name] for name in Secrets.__slots__ if name in kept})
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise EmbeddedServerError(f"{path} is damaged; remove {root} to start again.") from error


def keep(root: Path, kept: Secrets) -> None:
    """Replace the file in one step; only its owner can read it."""
    with NamedTemporaryFile("w", dir=root, delete=False) as file:
        json.dump(asdict(kept), file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    Path(file.name).replace(root / "secrets.json")


def standbys(root: Path, count: int) -> list[PostgresServer]:
    return [PostgresServer(root, f"standby{number}") for number in range(1, count + 1)]


def known_urls(root: Path) -> Servers | None:
    """Return the URLs of an installation without starting or touching anything; None before its first start."""
    known = load_secrets(root)
    return None if known is None else urls(root, known)


def urls(root: Path, known: Secrets, *, postgres: bool = True, redis: bool = True) -> Servers:
    primary = PostgresServer(root)
    servers = Servers()
    if postgres and primary.data.exists():
        followers = [str(each.sockets) for each in standbys(root, known.standbys)]
        servers = database_urls(known, host=str(primary.sockets), port=5432, followers=followers)
    if redis and known.redis_port is not None:
        servers = replace(servers, redis_url=f"redis://:{known.redis}@127.0.0.1:{known.redis_port}/0")
    return servers


def database_urls(secrets: Secrets, *, host: str, port: int, followers: Sequence[str] = ()) -> Servers:
    """Return the URLs of both databases on one server: a host name, an address or a socket folder.

    With standbys the gate gets the first one that answers, and the primary if none does (libpq, prefer-standby).
    """

    def url(login: str, password: str, database: str, *hosts: str) -> str:
        # libpq and django-environ read the query form alike, and it keeps upper case in a socket's folder.
        return f"postgresql://{login}:{password}@/{database}?host={','.join(map(quote, hosts))}&port={port}"

    preference = "&target_session_attrs=prefer-standby" if followers else ""
    return Servers(
        database_url=url(SERVICE_OWNER, secrets.service_owner, SERVICE_DATABASE, host),
        logs_database_url=url(LOGS_OWNER, secrets.logs_owner, LOGS_DATABASE, host),
        logs_gate_url=url(LOGS_GATE, secrets.logs_gate, LOGS_DATABASE, *followers, host) + preference,
        superuser_url=url(SUPERUSER, secrets.superuser, LOGS_DATABASE, host),
    )
