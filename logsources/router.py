"""Chooses the database of an operation."""

from __future__ import annotations

from django.db.models import Model

from logsources.connections import LOGS_ALIAS


class LogDatabaseRouter:
    """All models are in the default database; the log database takes only migrations that name it.

    A migration for the log database says so with `hints={"target_db": "logs"}`: it runs under
    `migrate --database logs` and is skipped on the default database; all others run the other way round.
    """

    def db_for_read(self, model: type[Model], **hints: object) -> str | None:
        return None

    def db_for_write(self, model: type[Model], **hints: object) -> str | None:
        return None

    def allow_migrate(self, db: str, app_label: str, model_name: str | None = None, **hints: object) -> bool:
        target = hints.get("target_db", "default")
        if target == "default":
            return db != LOGS_ALIAS
        return db == target
