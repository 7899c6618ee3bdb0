"""Made-up rows: deterministic, in the producers' shape, loadable, with nobody's real address in them."""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from logsources.generation import SOURCE_NAMES, generate_rows, share_rows
from logsources.rows import read_row

UNTIL = datetime(2025, 6, 9, 12, tzinfo=UTC)
PROJECT_PATHS = {
    "function_edge_logs": "project_ref",
    "function_logs": "project_ref",
    "realtime_logs": "project",
    "storage_logs": "project",
}
DOCUMENTATION_NETWORKS = [
    ipaddress.ip_network(network) for network in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32")
]


def rows_of(
    source_name: str, *, count: int = 300, seed: str = "s", projects: tuple[str, ...] = ("acme", "globex")
) -> list[Any]:
    rows = generate_rows(source_name, count=count, until=UNTIL, days=7, projects=projects, seed=seed)
    return [orjson.loads(row) for row in rows]


@pytest.mark.parametrize("source_name", SOURCE_NAMES)
def test_the_same_seed_makes_the_same_rows(source_name: str) -> None:
    assert rows_of(source_name) == rows_of(source_name)
    assert rows_of(source_name) != rows_of(source_name, seed="other")


@pytest.mark.parametrize("source_name", SOURCE_NAMES)
def test_every_row_is_one_that_loads(source_name: str) -> None:
    project_path = PROJECT_PATHS.get(source_name)
    for raw in rows_of(source_name):
        row = read_row(raw, project_path=project_path, now=UNTIL)
        assert row.id == raw["id"]
        assert len(orjson.loads(row.metadata_json)) == 1
        assert row.project in {"acme", "globex"}
        assert set(raw) == {"id", "timestamp", "event_message", "metadata"} | (set() if project_path else {"project"})


@pytest.mark.parametrize("source_name", SOURCE_NAMES)
def test_rows_ascend_through_the_days_that_were_asked_for(source_name: str) -> None:
    moments = [datetime.fromisoformat(row["timestamp"]) for row in rows_of(source_name)]
    assert moments == sorted(moments)
    assert UNTIL - timedelta(days=7) < moments[0] < UNTIL - timedelta(days=6)
    assert UNTIL - timedelta(days=1) < moments[-1] <= UNTIL


def test_afternoons_are_busier_than_nights() -> None:
    hours = Counter(datetime.fromisoformat(row["timestamp"]).hour for row in rows_of("edge_logs", count=3000))
    assert sum(hours[hour] for hour in (14, 15, 16)) > 3 * sum(hours[hour] for hour in (2, 3, 4))


@pytest.mark.parametrize("source_name", SOURCE_NAMES)
def test_addresses_and_domains_are_for_documentation(source_name: str) -> None:
    text = orjson.dumps(rows_of(source_name)).decode()
    v4 = re.findall(r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.])", text)
    v6 = re.findall(
        r"(?<![0-9a-f:])[0-9a-f]{1,4}(?:::?[0-9a-f]{1,4}){2,7}(?![0-9a-f:.-])", re.sub(r"\d\d:\d\d:\d\d", "", text)
    )
    for address in map(ipaddress.ip_address, [*v4, *v6]):
        assert any(address in network for network in DOCUMENTATION_NETWORKS), address
    for domain in re.findall(r"(?:https?://|@)([a-z][a-z0-9.-]*\.[a-z]+)", text):
        assert re.search(r"(^|\.)example(\.(com|org|net))?$", domain), domain


def test_edge_rows_ask_every_area_of_the_api_and_some_ask_two() -> None:
    paths = [row["metadata"]["request"]["path"] for row in rows_of("edge_logs", count=1000)]
    areas = [sum(area in path for area in ("/rest", "/storage", "/auth", "/realtime")) for path in paths]
    for area in ("/rest/v1", "/storage/v1", "/auth/v1", "/realtime/v1", "/functions/v1"):
        assert any(path.startswith(area) for path in paths), area
    assert {0, 1, 2} <= set(areas)


def test_edge_rows_are_mostly_successes_and_about_2_kb_long() -> None:
    rows = rows_of("edge_logs", count=1000)
    codes = Counter(row["metadata"]["response"]["status_code"] for row in rows)
    assert 700 < codes[200] < 950
    assert any(code > 499 for code in codes)
    assert 1500 < len(orjson.dumps(rows)) / len(rows) < 2500


def test_the_request_url_names_the_project() -> None:
    for row in rows_of("edge_logs"):
        assert row["metadata"]["request"]["url"].startswith(f"https://{row['project']}.example.com/")
        assert row["event_message"].count(row["metadata"]["request"]["url"]) == 1


def test_the_first_project_has_most_rows() -> None:
    counts = Counter(row["project"] for row in rows_of("rest_logs", count=1000, projects=("a", "b", "c")))
    assert counts["a"] > counts["b"] > counts["c"] > 0


@pytest.mark.parametrize("total", [0, 1, 7, 100, 20_000])
def test_shares_out_exactly_the_rows_that_were_asked_for(total: int) -> None:
    counts = share_rows(total, SOURCE_NAMES)
    assert sum(counts.values()) == total
    assert max(counts, key=lambda name: counts[name]) == "edge_logs"
    assert share_rows(total, ["rest_logs"]) == {"rest_logs": total}


def test_database_rows_have_lines_of_pg_cron() -> None:
    parsed = [(row["event_message"], row["metadata"]["parsed"]) for row in rows_of("database_logs")]
    scheduled = [message for message, fields in parsed if fields["backend_type"] == "pg_cron launcher"]
    assert len(scheduled) > 5
    assert all(message.startswith("cron job ") for message in scheduled)
