"""The metrics by name: type, help, and the labels of each sample, over an installation with one log server."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from django.core.wsgi import get_wsgi_application
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from endpoints.cache.usage.flushing import FLUSHER
from endpoints.models import Alert
from tests.recorded.asking import Client as Asking
from tests.recorded.installation import HOST, METRICS_TOKEN
from tests.recorded.recordings import assert_recorded
from tests.recorded.requests import Request, recorded_requests

pytestmark = pytest.mark.django_db
CALLED = ("cached: a miss", "cached: a hit", "load one", "load bad rows")


def test_metrics_have_the_recorded_names_and_labels(secrets: Mapping[str, str]) -> None:
    Alert.objects.create(name="recorded", threshold=1, webhook_url="https://127.0.0.1/refused")
    requests: dict[str, Request] = {request.name: request for request in recorded_requests()}
    asking = Asking(get_wsgi_application(), secrets)
    for name in CALLED:
        asking.ask(requests[name])
    FLUSHER.settle()
    scraper = Client(headers={"Authorization": f"Bearer {METRICS_TOKEN}", "Host": HOST})
    answer = scraper.get("/metrics")
    lines = [f"Content-Type: {answer['Content-Type']}"]
    for family in text_string_to_metric_families(answer.content.decode()):
        lines.append(f"{family.type} {family.name}: {family.documentation}")
        samples = {f"{sample.name}{{{', '.join(sorted(sample.labels))}}}" for sample in family.samples}
        lines += [f"  {sample}" for sample in sorted(samples)]
    assert_recorded("metrics.txt", lines)
