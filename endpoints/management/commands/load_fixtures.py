"""Register the shipped log sources and endpoints; what an operator has changed since stays as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from endpoints.models import Endpoint
from endpoints.services import save_endpoint
from endpoints.sql.parameters import DeclaredParameter, ParameterType
from logsources.models import LogSource
from logsources.services import create_source, roll_partitions


class Command(BaseCommand):
    help = (
        "Register the log sources and endpoints of a folder (log_sources.json, endpoints.json and the SQL files it "
        "names), make their tables and partitions. Those that exist already are left alone. "
        "Example: manage.py load_fixtures"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "folder", nargs="?", type=Path, default=settings.FIXTURE_DIRS[0], help="default: the shipped fixtures"
        )

    def handle(self, *args: Any, folder: Path, **options: Any) -> None:
        try:
            for source in _read(folder / "log_sources.json"):
                self._create_source(source)
            roll_partitions()
            for endpoint in _read(folder / "endpoints.json"):
                self._create_endpoint(folder, endpoint)
        except ValidationError as error:
            raise CommandError("; ".join(error.messages)) from error

    def _create_source(self, fields: dict[str, Any]) -> None:
        if LogSource.objects.filter(name=fields["name"]).exists():
            self.stdout.write(f"log source {fields['name']}: exists")
            return
        create_source(**fields)
        self.stdout.write(f"log source {fields['name']}: created")

    def _create_endpoint(self, folder: Path, fields: dict[str, Any]) -> None:
        name = fields["name"]
        if Endpoint.objects.filter(name=name).exists():
            self.stdout.write(f"endpoint {name}: exists")
            return
        sql = (folder / fields.pop("sql_file")).read_text(encoding="utf-8")
        parameters = [_declared(parameter) for parameter in fields.pop("parameters", ())]
        endpoint = save_endpoint(Endpoint(**fields, sql=sql), parameters)
        self.stdout.write(f"endpoint {name}: created as version {endpoint.version}")


def _declared(fields: dict[str, Any]) -> DeclaredParameter:
    return DeclaredParameter(
        **{
            **fields,
            "type": ParameterType(fields["type"]),
            "allowed_values": tuple(fields.get("allowed_values", ())),
        }
    )


def _read(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    document: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return document
