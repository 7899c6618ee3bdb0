"""Register the shipped log sources and endpoints; those that an operator has changed stay as they are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, CommandParser

from endpoints.access.admin_roles import keep_roles
from endpoints.access.change_marker import changing
from endpoints.defining.saving import save_endpoint
from endpoints.management.failures import one_line, one_line_failures, redis_outages_told
from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter, ParameterType
from logsources.management.own_command import OwnCommand
from logsources.models import LogSource
from logsources.services import PartitionsNotRolled, SourceTableError, create_source, roll_partitions

SOURCES = "log_sources.json"
ENDPOINTS = "endpoints.json"

Fields = dict[str, Any]


class Command(OwnCommand):
    help = (
        f"Register the log sources and endpoints of a folder ({SOURCES}, {ENDPOINTS} and the SQL files it names) and "
        "create their tables and partitions. Those that already exist stay as they are. Also creates the roles of "
        "the admin, as sync_roles does."
    )
    examples = ("python manage.py load_fixtures",)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "folder", nargs="?", type=Path, default=settings.FIXTURE_DIRS[0], help="default: the shipped fixtures"
        )

    def handle(self, *args: Any, folder: Path, **options: Any) -> None:
        # Both files are read before anything is created from either.
        sources, endpoints = _read(folder / SOURCES), _read(folder / ENDPOINTS)
        if sources is None and endpoints is None:
            raise CommandError(f"{folder} contains no {SOURCES} and no {ENDPOINTS}.")
        with one_line_failures(), redis_outages_told(self.stderr):
            for change in keep_roles():
                self.stdout.write(str(change))
            self._load(folder / SOURCES, sources or [], self._create_source)
            try:
                roll_partitions()
            except PartitionsNotRolled as error:
                raise CommandError(str(error)) from error
            with changing():  # one change, which is waited for once
                self._load(folder / ENDPOINTS, endpoints or [], self._create_endpoint)

    def _load(self, path: Path, entries: list[Fields], create: Callable[[Path, Fields], str]) -> None:
        for number, fields in enumerate(entries, start=1):
            with _faults_located(path, number, fields):
                self.stdout.write(create(path.parent, dict(fields)))

    def _create_source(self, folder: Path, fields: Fields) -> str:
        name = fields["name"]
        if LogSource.objects.filter(name=name).exists():
            return f"log source {name}: exists"
        create_source(**fields)
        return f"log source {name}: created"

    def _create_endpoint(self, folder: Path, fields: Fields) -> str:
        name = fields["name"]
        if Endpoint.objects.filter(name=name).exists():
            return f"endpoint {name}: exists"
        sql = (folder / fields.pop("sql_file")).read_text(encoding="utf-8")
        parameters = [_declared(parameter) for parameter in fields.pop("parameters", ())]
        endpoint = save_endpoint(Endpoint(**fields, sql=sql), parameters)
        return f"endpoint {name}: created as version {endpoint.version}"


@contextmanager
def _faults_located(path: Path, number: int, fields: Fields) -> Iterator[None]:
    """Turn a fault in an entry into a CommandError that names the file and the entry."""
    entry = f"{path}, entry {number} ({fields.get('name', 'without a name')})"
    try:
        yield
    except ValidationError as error:
        raise CommandError(f"{entry}: {one_line(error)}") from error
    except KeyError as error:
        raise CommandError(f"{entry}: lacks {error.args[0]!r}.") from error
    # TypeError: a field that does not exist; Python's message names it.
    except (SourceTableError, OSError, TypeError, ValueError) as error:
        raise CommandError(f"{entry}: {' '.join(str(error).split())}") from error


def _declared(fields: Fields) -> DeclaredParameter:
    return DeclaredParameter(
        **{
            **fields,
            "type": ParameterType(fields["type"]),
            "allowed_values": tuple(fields.get("allowed_values", ())),
        }
    )


def _read(path: Path) -> list[Fields] | None:
    """Return the entries of a fixture file, or None if there is no file. Raises CommandError for a broken one."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise CommandError(f"{path}: {error}") from error
    if not isinstance(document, list) or not all(isinstance(entry, dict) for entry in document):
        raise CommandError(f"{path} must be a list of objects.")
    return document
