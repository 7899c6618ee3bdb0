"""Keep an endpoint's results warm: run again, ahead of time, what was requested within the caching period."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from time import perf_counter
from typing import Final

import structlog
from django.conf import settings

from config import logs
from endpoints import cache
from endpoints.cache import AskedFor, CacheUnavailable, usage
from endpoints.calling.cached_results import cache_policy, renew_entry
from endpoints.definition import Version
from endpoints.errors import EndpointError
from endpoints.models import Endpoint

logger = structlog.get_logger(__name__)

FRESH_ENOUGH: Final = 0.5  # of the warming interval: an entry as young as that was renewed by another process just now


@dataclass(frozen=True, slots=True)
class WarmRun:
    """What one run did, in numbers of argument sets; `skipped_because` says why it did not run."""

    warmed: int = 0
    fresh_enough: int = 0
    failed: int = 0
    backing_off: int = 0
    left_over: int = 0  # beyond the budget
    seconds: float = 0.0
    skipped_because: str = ""
    last_error: str = ""  # code of the last failure

    def in_words(self) -> str:
        """Return the run as a sentence."""
        if self.skipped_because:
            return f"Skipped: {self.skipped_because}."
        parts = [
            f"{number} {word}"
            for number, word in (
                (self.warmed, "renewed"),
                (self.fresh_enough, "still fresh"),
                (self.failed, f"failed ({self.last_error.replace('_', ' ')})"),
                (self.backing_off, "left alone after failures"),
                (self.left_over, "left for the next run"),
            )
            if number
        ]
        return f"Results: {', '.join(parts)}." if parts else "Nobody asked for a result within the caching period."


def warm_endpoint(endpoint_id: uuid.UUID) -> WarmRun:
    """Renew what is worth it, within the budget; at most one run per endpoint, at most N over all endpoints.

    A failing argument set is logged, counted and left alone for a while; its old entry stays. Never raises for failures
    of a query, Redis or the log database.
    """
    row = Endpoint.objects.filter(pk=endpoint_id, version__gt=0).first()
    if row is None or not row.warm_every_seconds:
        return WarmRun(skipped_because="the endpoint is not warmed")
    endpoint = row.as_version()
    logs.begin(endpoint=endpoint.name, endpoint_version=endpoint.version)
    lease_seconds = settings.ENDPOINTS_WARM_SECONDS + cache_policy(endpoint).lease_seconds
    try:
        warmer = cache.acquire(f"lqe:warmer:{endpoint.pk.hex}", seconds=lease_seconds)
        if warmer is None:
            return WarmRun(skipped_because="another run of this endpoint is in progress")
        try:
            place = cache.slot(settings.ENDPOINTS_WARM_CONCURRENCY, seconds=lease_seconds)
            if place is None:
                return WarmRun(skipped_because="the largest allowed number of endpoints is being warmed")
            with place:
                run = _Run(endpoint).run()
        finally:
            cache.finish(warmer)
    except CacheUnavailable:
        return WarmRun(skipped_because="Redis does not answer")
    logger.info("cache_warmed", warmed=run.warmed, failed=run.failed, left_over=run.left_over, seconds=run.seconds)
    return run


class _Run:
    """One run over an endpoint's argument sets, most used first."""

    def __init__(self, endpoint: Version) -> None:
        self._endpoint = endpoint
        self._warmed = self._fresh_enough = self._failed = self._backing_off = self._left_over = 0
        self._database_seconds = 0.0
        self._last_error = ""

    def run(self) -> WarmRun:
        """Warm until nothing is left or the budget is spent, and note what was done."""
        started = perf_counter()
        asked_for = usage.worth_warming(
            self._endpoint.pk.hex,
            self._endpoint.version,
            asked_within_seconds=self._endpoint.cache_seconds,
            limit=settings.ENDPOINTS_WARM_RESULTS,
            now=cache.clock(),
        )
        for asked in asked_for:
            if self._database_seconds >= settings.ENDPOINTS_WARM_SECONDS:
                self._left_over += 1
            else:
                self._warm(asked)
        run = WarmRun(
            warmed=self._warmed,
            fresh_enough=self._fresh_enough,
            failed=self._failed,
            backing_off=self._backing_off,
            left_over=self._left_over,
            seconds=perf_counter() - started,
            last_error=self._last_error,
        )
        usage.note_warm_run(
            self._endpoint.pk.hex,
            warmed=run.warmed,
            failures=run.failed,
            seconds=run.seconds,
            last_error=self._last_error,
        )
        return run

    def _warm(self, asked: AskedFor) -> None:
        endpoint = self._endpoint
        if usage.is_backing_off(asked.key):
            self._backing_off += 1
            return
        entry = cache.fetch(asked.key, cache_policy(endpoint))
        if entry is not None and entry.age_seconds < endpoint.warm_every_seconds * FRESH_ENOUGH:
            self._fresh_enough += 1
            return
        started = perf_counter()
        try:
            renewed = renew_entry(endpoint, asked.key, asked.request)
        except EndpointError as error:
            self._failed += 1
            self._last_error = error.code
            usage.note_failure(asked.key, base_seconds=endpoint.warm_every_seconds)
            logger.warning("warming_failed", code=error.code)
        else:
            self._warmed += renewed is not None
            self._fresh_enough += renewed is None
            usage.note_success(asked.key)
        self._database_seconds += perf_counter() - started
