"""Prometheus scrapes the service by the configurations of docs/production.md, where HTTPS is demanded."""

from __future__ import annotations

import json
import subprocess
import urllib.parse
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from tests.live.calls import until
from tests.live.installation import Installation, free_port
from tests.scraping import allowed_hosts_of_compose, allowed_hosts_on_debian, scrape_jobs

PROMETHEUS = "/usr/bin/prometheus"
TOKEN = "for-prometheus"

pytestmark = pytest.mark.needs("prometheus")


def value(port: int, metric: str) -> str | None:
    """Return the newest value of a metric that Prometheus has."""
    query = urllib.parse.urlencode({"query": metric})
    with (
        suppress(OSError),
        urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{query}", timeout=5) as answer,
    ):
        results = json.load(answer)["data"]["result"]
        return str(results[0]["value"][1]) if results else None
    return None


@pytest.mark.parametrize("number", [0, 1], ids=["debian", "compose"])
def test_prometheus_scrapes(installation: Installation, tmp_path: Path, number: int) -> None:
    job, hosts = scrape_jobs()[number], (allowed_hosts_on_debian(), allowed_hosts_of_compose())[number]
    with installation.another_web(
        workers=1, ALLOWED_HOSTS=hosts, HTTPS_ONLY="true", BEHIND_HTTPS_PROXY="true", ENDPOINTS_METRICS_TOKEN=TOKEN
    ) as (_, service_port):
        jobs = []
        for name in (TOKEN, "wrong"):
            (tmp_path / name).write_text(f"{name}\n", encoding="utf-8")
            # The names and ports of the page lead here; the request has them as its Host.
            here = {"job_name": name, "proxy_url": f"http://127.0.0.1:{service_port}"}
            jobs.append({**job, **here, "authorization": {"credentials_file": str(tmp_path / name)}})
        file = {"global": {"scrape_interval": "1s"}, "scrape_configs": jobs}
        (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(file), encoding="utf-8")
        port = free_port()
        options = [f"--web.listen-address=127.0.0.1:{port}", f"--storage.tsdb.path={tmp_path}/data"]
        with (tmp_path / "log").open("wb") as log:
            process = subprocess.Popen(
                [PROMETHEUS, f"--config.file={tmp_path}/prometheus.yml", *options], stdout=log, stderr=log
            )
            try:
                until(
                    lambda: value(port, f'up{{job="{TOKEN}"}}') == value(port, "endpoints_redis_up") == "1", seconds=60
                )
                until(lambda: value(port, 'up{job="wrong"}') == "0", seconds=60)
                assert value(port, 'endpoints_redis_up{job="wrong"}') is None
            finally:
                process.kill()
                process.wait()
