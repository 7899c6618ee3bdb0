"""/metrics tells how loads went, by log source."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from endpoints.cache.usage import loads
from tests.endpoints.api.loads import row, send
from tests.endpoints.cache.own_redis import OwnRedis
from tests.live.calls import until
from tests.logsources.otlp.requests import as_json, record, request

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def metrics_for_all(settings: Any) -> None:
    settings.ENDPOINTS_METRICS_LOOPBACK = True


def figures() -> dict[tuple[str, ...], float]:
    loads.flush()
    text = Client().get("/metrics").content.decode()
    return {
        (sample.name, *(text for _, text in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if "_load" in family.name
    }


def test_counts_requests_rows_bytes_and_durations(shipper: Client, log_database: psycopg.Connection[Any]) -> None:
    body = json.dumps([row(1), row(2)]).encode()
    send(shipper, body)
    send(shipper, body)
    send(shipper, b"no rows")
    send(shipper, as_json(request(record())), "/v1/logs?source=auth_logs")
    send(shipper, body, "/logs?source=unknown")
    send(Client(), body)
    found = figures()
    assert found["endpoints_load_requests_total", "edge_logs", "2xx"] == 2
    assert found["endpoints_load_requests_total", "edge_logs", "4xx"] == 1
    assert found["endpoints_load_requests_total", "auth_logs", "2xx"] == 1
    assert found["endpoints_load_requests_total", "", "4xx"] == 2
    assert found["endpoints_loaded_rows_total", "edge_logs"] == 2
    assert found["endpoints_loaded_rows_total", "auth_logs"] == 1
    assert found["endpoints_load_bytes_total", "edge_logs"] == 2 * len(body) + len(b"no rows")
    assert found["endpoints_load_duration_seconds_count", "edge_logs"] == 3
    assert found["endpoints_load_duration_seconds_sum", "edge_logs"] > 0
    assert found["endpoints_load_duration_seconds_bucket", "+Inf", "edge_logs"] == 3


def test_buckets_contain_those_below() -> None:
    for seconds in (0.001, 0.3, 0.3, 99.0):
        loads.note_load("edge_logs", status=200, rows=1, sent_bytes=1, seconds=seconds)
    found = figures()
    buckets = {name[1]: value for name, value in found.items() if name[0] == "endpoints_load_duration_seconds_bucket"}
    assert (buckets["0.01"], buckets["0.25"], buckets["0.5"], buckets["30.0"], buckets["+Inf"]) == (1, 1, 3, 3, 4)


def test_counts_wait_while_redis_is_away(own_redis: OwnRedis) -> None:
    own_redis.kill()
    loads.note_load("edge_logs", status=503, rows=0, sent_bytes=1, seconds=0.1)
    loads.flush()
    own_redis.start()
    # Redis is left alone for a moment after it did not answer.
    until(lambda: figures().get(("endpoints_load_requests_total", "edge_logs", "5xx")) == 1, seconds=20)
