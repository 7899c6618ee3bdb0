"""Remove cached results, and report what the cache contains and has done for each endpoint."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import structlog

from endpoints import cache
from endpoints.access.secrets import Caller
from endpoints.cache import CacheUnavailable, EndpointStatistics, connection, usage
from endpoints.calling.calls import find_endpoint, waiting_place
from endpoints.errors import CacheNotReachable, PurgeNotAllowed
from endpoints.models import Endpoint

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Purged:
    """How many results of an endpoint were thrown away."""

    endpoint_name: str
    results: int


@dataclass(frozen=True, slots=True)
class CacheReport:
    """What the cache contains for an endpoint at this moment, and what it has done since Redis was last emptied."""

    endpoint_name: str
    statistics: EndpointStatistics
    live_entries: int


def purge_cache(reference: str, *, caller: Caller | None = None) -> Purged:
    """Remove the cached results of an endpoint, also those that are being made; `caller` None is the operator.

    Raises EndpointNotFound, PurgeNotAllowed if the access token may not purge, Overloaded before anything is removed
    if too many purge at once, and CacheNotReachable: then nothing is known to be gone.
    """
    endpoint = find_endpoint(reference, caller=caller)
    if caller is not None and not caller.may_purge:
        raise PurgeNotAllowed
    with nullcontext() if caller is None else waiting_place(caller.prefix):
        try:
            results = cache.purge(endpoint.pk.hex)
        except CacheUnavailable as error:
            raise CacheNotReachable from error
        cache.RECENT.clear()
        connection.wait_until_expired()
    logger.info("cache_purged", endpoint=endpoint.name, results=results)
    return Purged(endpoint.name, results)


def cache_reports(endpoints: Sequence[Endpoint]) -> list[CacheReport]:
    """Return what Redis knows about each endpoint. Raises CacheUnavailable."""
    usage.FLUSHER.settle()
    statistics = usage.statistics([endpoint.pk.hex for endpoint in endpoints])
    return [
        CacheReport(endpoint.name, statistics[endpoint.pk.hex], cache.live_entries(endpoint.pk.hex))
        for endpoint in endpoints
    ]
