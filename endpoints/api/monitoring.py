"""What monitoring asks: does this process live, does everything that it needs answer, and the numbers in /metrics."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from math import isinf
from typing import Final

import psycopg
import redis
import structlog
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import OperationalError, connections
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django_redis import get_redis_connection
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from config.deadlines import answer_within
from endpoints.api.authentication import sent_credential
from endpoints.api.replies import error_response
from endpoints.auditing.call_log import audit_counts
from endpoints.cache import CacheUnavailable
from endpoints.cache.keys import TRIED_WRITE
from endpoints.cache.usage import UPPER_BOUNDS_SECONDS, Activity, LoadCounts, load_counts
from endpoints.calling.calls import call_activity, check_log_database, visible_endpoints
from endpoints.calling.purging import CacheReport, cache_reports
from endpoints.errors import DatabaseUnavailable, EndpointError, HTTPSRequired, Overloaded, RouteNotFound
from endpoints.log_database.servers import ServerState, log_servers
from endpoints.models import Alert

# --- Health -----------------------------------------------------------------------------------------------------------
# Health checks: does this process live, and does everything that it needs answer?
STATE_DATABASE_SECONDS = 0.5  # the log database has its own time limit, and probes wait for a second or two
OK, BUSY, UNAVAILABLE = "ok", "busy", "unavailable"

logger = structlog.get_logger(__name__)


@csrf_exempt
def livez(request: HttpRequest) -> HttpResponse:
    """200 as long as this process answers at all."""
    return JsonResponse({"status": "ok"}, headers={"Cache-Control": "no-store"})


@csrf_exempt
def readyz(request: HttpRequest) -> HttpResponse:
    """200 when both databases answer and Redis takes writes, else 503 with which does not; reasons go to the log.

    A process whose connections all run queries is `busy` and ready: taken out, its load would fall on the others.
    If the log database has several servers, `log_servers` lists them without their names, in the order of
    LOGS_GATE_URL; the process is ready as long as one of them answers.
    """
    checks = {
        "database": _state("database", _check_state_database),
        "log_database": _state("log_database", check_log_database),
        "redis": _state("redis", _check_redis),
    }
    ready = all(state in (OK, BUSY) for state in checks.values())
    body: dict[str, object] = {"status": OK if ready else UNAVAILABLE, "checks": checks}
    if servers := log_servers().reports():
        body["log_servers"] = [
            {"role": server.role, "state": server.state, "lag_seconds": server.lag_seconds} for server in servers
        ]
    return JsonResponse(body, status=200 if ready else 503, headers={"Cache-Control": "no-store"})


def _state(name: str, check: Callable[[], None]) -> str:
    try:
        check()
    except Overloaded:
        return BUSY
    except (DatabaseError, EndpointError, psycopg.Error, redis.RedisError, OSError) as error:
        logger.warning("not_ready", check=name, reason=f"{type(error).__name__}: {error}")
        reason = error.reason if isinstance(error, DatabaseUnavailable) else ""
        return f"{UNAVAILABLE}: {reason}" if reason else UNAVAILABLE
    return OK


def _check_state_database() -> None:
    with answer_within(STATE_DATABASE_SECONDS), connections["default"].cursor() as cursor:
        cursor.execute("SELECT 1")


def _check_redis() -> None:
    get_redis_connection("default").execute_command(*TRIED_WRITE)


# --- Metrics ----------------------------------------------------------------------------------------------------------
_HEADERS_OF_PROXIES: Final = (
    "HTTP_FORWARDED", "HTTP_VIA", "HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_HOST", "HTTP_X_FORWARDED_PROTO",
    "HTTP_X_REAL_IP",
)  # fmt: skip
_Networks = tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]
_LOOPBACK: Final[_Networks] = tuple(map(ipaddress.ip_network, ("127.0.0.0/8", "::1/128")))
# RFC 1918 and 4193. Not `is_private`, which also has addresses that are only reserved.
_PRIVATE: Final[_Networks] = (
    *_LOOPBACK,
    *map(ipaddress.ip_network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")),
)


@csrf_exempt
def metrics(request: HttpRequest) -> HttpResponse:
    """Return the metrics to clients that send ENDPOINTS_METRICS_TOKEN, or to loopback if ENDPOINTS_METRICS_LOOPBACK.

    Scrapers speak plain HTTP to the service's own port, so the settings exempt this address from the redirect to HTTPS;
    from beyond the private network, or through a proxy, plain HTTP is refused here instead.
    """
    if settings.SECURE_SSL_REDIRECT and not request.is_secure() and not _comes_straight_from(request, _PRIVATE):
        return error_response(request, HTTPSRequired() if sent_credential(request.META) else RouteNotFound())
    if not _may_read(request):
        return error_response(request, RouteNotFound())
    registry = CollectorRegistry()
    registry.register(_CacheCollector())
    try:
        text = generate_latest(registry)
    except OperationalError:
        return error_response(request, DatabaseUnavailable())
    return HttpResponse(text, content_type=CONTENT_TYPE_LATEST, headers={"Cache-Control": "no-store"})


def _may_read(request: HttpRequest) -> bool:
    expected = settings.ENDPOINTS_METRICS_TOKEN
    if expected:
        scheme, _, credentials = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(credentials.strip().encode(), expected.encode())
    return settings.ENDPOINTS_METRICS_LOOPBACK and _comes_straight_from(request, _LOOPBACK)


def _comes_straight_from(request: HttpRequest, networks: _Networks) -> bool:
    # A proxy on the same machine is loopback too, and only some proxies announce themselves.
    if any(name in request.META for name in _HEADERS_OF_PROXIES):
        return False
    try:
        address = ipaddress.ip_address(request.META.get("REMOTE_ADDR", ""))
    except ValueError:
        return False
    address = getattr(address, "ipv4_mapped", None) or address  # as a server that listens on [::] has it
    return any(address in network for network in networks)


class _CacheCollector(Collector):
    """Reads Redis at each scrape; without it reports the log database's servers and `endpoints_redis_up` 0."""

    def describe(self) -> list[Metric]:
        """Return nothing before the first scrape: registering must not ask Redis and the database."""
        return []

    def collect(self) -> Iterator[Metric]:
        yield from _log_servers()
        try:
            endpoints = visible_endpoints(None)
            reports, activities = cache_reports(endpoints), call_activity(endpoints)
            loads, audited = load_counts(), audit_counts()
        except CacheUnavailable:
            yield GaugeMetricFamily("endpoints_redis_up", "Whether Redis answers.", value=0)
            return
        yield GaugeMetricFamily("endpoints_redis_up", "Whether Redis answers.", value=1)
        yield from _families(reports)
        yield _durations(reports, activities)
        yield from _loads(loads)
        yield _audited(audited)
        yield _alerts()


def _audited(counts: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily("endpoints_audited_calls", "Calls by their part in the audit log.", labels=("result",))
    for result, number in counts.items():
        family.add_metric((result,), number)
    return family


def _alerts() -> Metric:
    family = GaugeMetricFamily("endpoints_alert_firing", "Whether an alert that is on fires.", labels=("alert",))
    for name, is_firing in Alert.objects.filter(enabled=True).values_list("name", "is_firing"):
        family.add_metric((name,), float(is_firing))
    return family


def _log_servers() -> Iterator[Metric]:
    """Yield nothing if the log database has one server."""
    reports = log_servers().reports()
    if not reports:
        return
    labels = ("server", "role")
    serving = GaugeMetricFamily("endpoints_log_server_serves", "Whether a server takes calls.", labels=labels)
    lag = GaugeMetricFamily("endpoints_log_server_lag_seconds", "Lag of a standby, if known.", labels=labels)
    for report in reports:
        names = (report.name, report.role.value)
        serving.add_metric(names, float(report.state is ServerState.SERVES))
        if report.lag_seconds is not None:
            lag.add_metric(names, report.lag_seconds)
    yield from (serving, lag)


def _families(reports: list[CacheReport]) -> Iterator[Metric]:
    by_endpoint = ("endpoint",)
    calls = CounterMetricFamily("endpoints_calls", "Calls by their use of the cache.", labels=("endpoint", "cache"))
    warmed = CounterMetricFamily("endpoints_warmed", "Results renewed ahead of time.", labels=by_endpoint)
    runs = CounterMetricFamily("endpoints_warm_runs", "Warm runs.", labels=by_endpoint)
    failures = CounterMetricFamily(
        "endpoints_warm_failures", "Results not renewed because of a failure.", labels=by_endpoint
    )
    last = GaugeMetricFamily("endpoints_last_warm_timestamp_seconds", "Last warm run, Unix time.", labels=by_endpoint)
    live = GaugeMetricFamily("endpoints_cached_results", "Results in the cache.", labels=by_endpoint)
    for report in reports:
        name, statistics = report.endpoint_name, report.statistics
        calls.add_metric((name, "hit"), statistics.hits)
        calls.add_metric((name, "stale"), statistics.stale)
        calls.add_metric((name, "miss"), statistics.misses)
        calls.add_metric((name, "bypass"), statistics.bypass)
        warmed.add_metric((name,), statistics.warmed)
        runs.add_metric((name,), statistics.warm_runs)
        failures.add_metric((name,), statistics.warm_failures)
        if statistics.last_warm_at:
            last.add_metric((name,), statistics.last_warm_at)
        live.add_metric((name,), report.live_entries)
    yield from (calls, warmed, runs, failures, last, live)


def _loads(by_source: dict[str, LoadCounts]) -> Iterator[Metric]:
    """Yield how loads went; without a source are those that were refused before it was known."""
    requests = CounterMetricFamily("endpoints_load_requests", "Loads by their status.", labels=("source", "status"))
    rows = CounterMetricFamily("endpoints_loaded_rows", "Rows that loads have stored.", labels=("source",))
    size = CounterMetricFamily("endpoints_load_bytes", "Bytes of their bodies, as sent.", labels=("source",))
    durations = HistogramMetricFamily("endpoints_load_duration_seconds", "How long loads took.", labels=("source",))
    for source, counts in by_source.items():
        for status, count in counts.requests.items():
            requests.add_metric((source, status), count)
        rows.add_metric((source,), counts.rows)
        size.add_metric((source,), counts.bytes)
        totals = accumulate(counts.durations.get(bound, 0) for bound in UPPER_BOUNDS_SECONDS)
        names = ["+Inf" if isinf(bound) else str(bound) for bound in UPPER_BOUNDS_SECONDS]
        buckets = [(name, float(total)) for name, total in zip(names, totals, strict=True)]
        durations.add_metric((source,), buckets, counts.seconds)
    yield from (requests, rows, size, durations)


def _durations(reports: list[CacheReport], activities: list[Activity]) -> Metric:
    family = GaugeMetricFamily(
        "endpoints_call_duration_seconds",
        "How long calls of the last hour took, without refused ones (4xx).",
        labels=("endpoint", "quantile"),
    )
    for report, activity in zip(reports, activities, strict=True):
        for share in (0.5, 0.95):
            milliseconds = activity.durations.quantile_ms(share)
            if milliseconds is not None:
                family.add_metric((report.endpoint_name, str(share)), milliseconds / 1000)
    return family
