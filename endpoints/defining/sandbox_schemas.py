"""Drop what is left of sandbox schemas: those of older versions, of deleted endpoints, of drafts."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import partial
from typing import Final
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from endpoints.access.change_marker import changing
from endpoints.defining.schedules import remove_warming_schedules
from endpoints.definition import MAX_STATEMENT_TIMEOUT_SECONDS
from endpoints.log_database.publishing import PublishedSchema, drop_schemas, published_schemas
from endpoints.models import Endpoint

# A call that has read the older version's row runs for at most the longest timeout, once more after a lost connection.
KEPT_AFTER_SAVE: Final = timedelta(seconds=2 * MAX_STATEMENT_TIMEOUT_SECONDS)


def drop_old_sandbox_schemas() -> int:
    """Drop the schemas that no call can still want and return how many; repeatable. Raises psycopg.Error."""
    schemas = published_schemas()
    # Read after the schemas: a version saved in between is newer than every schema seen here.
    current: dict[UUID | None, tuple[int | None, datetime]] = {
        pk: (version if sandboxing else None, updated_at)
        for pk, version, sandboxing, updated_at in Endpoint.objects.values_list(
            "pk", "version", "sandboxing", "updated_at"
        )
    }
    now = timezone.now()
    return drop_schemas(
        schema.name
        for schema in schemas
        if not _is_wanted(schema, *current.get(schema.endpoint_id, (None, schema.published_at)), now=now)
    )


def _is_wanted(schema: PublishedSchema, version: int | None, saved_at: datetime, *, now: datetime) -> bool:
    """Tell whether a schema is that of the current version, or was until a moment ago, or may be about to be."""
    return schema.version == version or now - max(saved_at, schema.published_at) < KEPT_AFTER_SAVE


def delete_endpoints(endpoints: Iterable[Endpoint]) -> None:
    """Delete endpoints with their parameters, and, once that is committed, their sandbox schemas."""
    with changing(), transaction.atomic():
        for endpoint in endpoints:
            remove_warming_schedules([endpoint.pk])
            transaction.on_commit(partial(_drop_schemas_of, endpoint.pk.hex), robust=True)
            endpoint.delete()


def _drop_schemas_of(endpoint_hex: str) -> None:
    drop_schemas(schema.name for schema in published_schemas() if schema.name.startswith(f"sandbox_{endpoint_hex}_"))
