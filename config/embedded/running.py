"""Starting, sharing and stopping the private servers of one root folder.

Two flock files keep processes from disturbing each other; both locks vanish with their process, so even kill -9 leaves
nothing to clean up:

- start.lock, exclusive: held while servers are being created, started or stopped.
- in-use.lock, shared: held by every user of the servers. A user that leaves asks for it exclusively; only the last one
  gets it, and stops the servers.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from config.embedded.databases import prepare_databases
from config.embedded.places import EmbeddedServerError, find_place, make_root
from config.embedded.postgres_server import PostgresServer
from config.embedded.redis_server import RedisServer
from config.embedded.state import (
    Listening,
    Secrets,
    Servers,
    draw_secrets,
    load_listening,
    load_secrets,
    record_listening,
    urls,
)

logger = logging.getLogger(__name__)

NO_SETTINGS: Mapping[str, str] = {}


def local_folder(project: Path) -> Path:
    """Return the root folder of a checkout's servers: ENDPOINTS_LOCAL_DIR, or `.local` in it."""
    return Path(os.environ.get("ENDPOINTS_LOCAL_DIR") or project / ".local").absolute()


def known_urls(root: Path) -> Servers | None:
    """Return the URLs of an installation without starting or touching anything; None before its first start."""
    secrets = load_secrets(root)
    return None if secrets is None else urls(secrets, load_listening(root))


def ensure_running(
    root: Path, *, postgres: bool = True, redis: bool = True, settings: Mapping[str, str] = NO_SETTINGS
) -> Servers:
    """Create and start the servers that are not running yet, and return the URLs of the requested ones.

    `settings` are PostgreSQL's own, used when the cluster is created. Raises EmbeddedServerError.
    """
    root = make_root(root)
    try:
        with _locked(root / "start.lock", fcntl.LOCK_EX):
            secrets = load_secrets(root) or _first_secrets(root)
            listening = load_listening(root)
            if postgres:
                listening = _ensure_postgres(root, secrets, listening, settings=settings)
            if redis:
                listening = _ensure_redis(root, secrets, listening)
    except OSError as error:  # A full disk, a read-only folder.
        raise EmbeddedServerError(f"The servers in {root} cannot be started: {error}") from error
    return urls(
        secrets,
        Listening(
            postgres_socket_folder=listening.postgres_socket_folder if postgres else None,
            redis_port=listening.redis_port if redis else None,
        ),
    )


def stop(root: Path) -> None:
    """Stop both servers, even if they are in use; nothing is lost, and nothing happens if none runs."""
    root = root.resolve()
    secrets = load_secrets(root)
    if secrets is None:
        return
    with _locked(root / "start.lock", fcntl.LOCK_EX):
        place = find_place(root)
        PostgresServer(place).stop()
        RedisServer(place, secrets.redis).stop(load_listening(root).redis_port)


@contextmanager
def using(
    root: Path, *, postgres: bool = True, redis: bool = True, settings: Mapping[str, str] = NO_SETTINGS
) -> Iterator[Servers]:
    """Use the servers and start them if needed; the last user stops them on leaving.

    Raises EmbeddedServerError.
    """
    root = make_root(root)
    # This waits while the previous last user stops the servers.
    with _locked(root / "in-use.lock", fcntl.LOCK_SH) as lock:
        try:
            yield ensure_running(root, postgres=postgres, redis=redis, settings=settings)
        finally:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pass  # Somebody else still uses them, and will stop them.
            else:
                stop(root)


def _first_secrets(root: Path) -> Secrets:
    data = PostgresServer(find_place(root)).data
    if data.exists():
        raise EmbeddedServerError(
            f"{data} is there, but not its passwords ({root / 'secrets.json'}): put that file back, or remove the "
            "folder to start anew."
        )
    return draw_secrets(root)


def _prepare_databases(superuser_url: str, secrets: Secrets) -> None:
    import psycopg  # Slow to import, and known_urls() does not need it.

    try:
        prepare_databases(superuser_url, secrets)
    except psycopg.Error as error:
        raise EmbeddedServerError(f"The databases cannot be made: {error}") from error


def _ensure_postgres(root: Path, secrets: Secrets, listening: Listening, *, settings: Mapping[str, str]) -> Listening:
    place = find_place(root)
    server = PostgresServer(place)
    if server.process_id() is None:
        if place.folder != root:
            logger.warning("%s is closed to the account that runs PostgreSQL: its files are in %s.", root, place.folder)
        if not server.exists():
            server.initialise(secrets.superuser, settings=settings)
            listening = record_listening(root, listening, databases_prepared=False)
        listening = record_listening(root, listening, postgres_socket_folder=str(server.start()))
    if not listening.databases_prepared:
        superuser_url = urls(secrets, listening).superuser_url
        # Connect to the database that every cluster has; `logs` is about to be created.
        _prepare_databases(str(superuser_url).replace("@/logs?", "@/postgres?"), secrets)
        listening = record_listening(root, listening, databases_prepared=True)
    return listening


def _ensure_redis(root: Path, secrets: Secrets, listening: Listening) -> Listening:
    server = RedisServer(find_place(root), secrets.redis)
    if server.process_id(listening.redis_port) is not None:
        return listening
    return record_listening(root, listening, redis_port=server.start(listening.redis_port))


@contextmanager
def _locked(path: Path, operation: int) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, operation)
        yield descriptor
    finally:
        os.close(descriptor)
