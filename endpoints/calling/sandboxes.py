"""The sandbox of a version: the schema with its tables, published when it is first used, behind the guarantees."""

from __future__ import annotations

from typing import Final

import structlog

from config.deadlines import answer_within
from endpoints.access.change_marker import changing
from endpoints.calling.prepared_queries import Sandbox
from endpoints.definition import PublishedTable, Version
from endpoints.errors import SandboxDisabled, StoredQueryFailed
from endpoints.guarantees import sandbox_refusal
from endpoints.log_database.publishing import PublishingError, publish_sandbox, sandbox_schema
from endpoints.models import Endpoint

logger = structlog.get_logger(__name__)

PUBLISHED_WITHIN_SECONDS: Final = 10.0  # a call waits for it, and it may wait for locks


def refuse_unguarded_sandbox() -> None:
    """Raise SandboxDisabled while the log database does not keep what the sandbox relies on."""
    refusal = sandbox_refusal()
    if refusal is not None:
        raise SandboxDisabled(refusal)


def sandbox_of(endpoint: Version) -> Sandbox:
    """Return the version's sandbox; one that has never been published is published now.

    Raises StoredQueryFailed where its CTEs cannot be published, and DatabaseUnavailable.
    """
    return Sandbox(sandbox_schema(endpoint), _tables(endpoint))


def publish(endpoint: Version) -> tuple[PublishedTable, ...]:
    """Make the schema of this version, which a log database that was restored or made anew does not have."""
    try:
        with answer_within(PUBLISHED_WITHIN_SECONDS):
            tables = publish_sandbox(endpoint)
    except PublishingError as error:
        logger.error("sandbox_not_published", reason=error.message)
        raise StoredQueryFailed from error
    logger.info("sandbox_published", tables=[table.name for table in tables])
    return tables


def _tables(endpoint: Version) -> tuple[PublishedTable, ...]:
    if endpoint.sandbox_tables:
        return endpoint.sandbox_tables
    published = publish(endpoint)
    row = Endpoint.objects.filter(pk=endpoint.pk, version=endpoint.version)
    with changing():  # the next call of every process reads the row anew
        row.update(sandbox_tables=[table.to_json() for table in published])
    return published
