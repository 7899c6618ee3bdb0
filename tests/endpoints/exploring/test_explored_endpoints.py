"""What is saved from an exploration is sound, and gives the rows that were explored."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from endpoints.calling.query_requests import Call
from endpoints.defining.drafts import check_draft, run_draft
from endpoints.errors import InvalidLQL
from endpoints.exploring.explored_endpoints import explored_draft
from endpoints.exploring.exploring import Exploration, InvalidExploration, explore_rows, source_sql

pytestmark = pytest.mark.django_db
RUN = "a-run-of-a-test"
NOON = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0) - timedelta(days=1)
DAY = Exploration("edge_logs", "acme", NOON - timedelta(hours=12), NOON + timedelta(hours=12))
ARGUMENTS = {
    "project": "acme",
    "iso_timestamp_start": DAY.start.isoformat(),
    "iso_timestamp_end": DAY.end.isoformat(),
}


@pytest.fixture
def rows(insert_rows: Any) -> None:
    metadata = [
        {"level": "info", "latency": 4.5, "cached": True, "request": [{"path": "/it's", "method": "GET"}]},
        {"level": "error", "latency": -930, "user": {"plan": "p\\ro"}, "tags": ["eu-west", "@x"]},
        {"level": "critical", "latency": "12", "request": {"path": "/rest/v1/@project", "method": "POST"}},
    ]
    insert_rows(
        "edge_logs",
        [
            {"timestamp": NOON + timedelta(minutes=30 * n), "project": project, "id": f"{project}{n}"}
            | {"event_message": f"GET {n}00 it's 100% @done", "metadata": [one]}
            for n, one in enumerate(metadata)
            for project in ("acme", "globex")
        ],
    )


@pytest.mark.parametrize("every_project", [False, True])
@pytest.mark.parametrize(
    ("lql", "found"),
    [
        ("", 3),
        ("m.level:error", 1),
        ("m.level:error..critical", 2),
        ('m.request.path:"/it\'s"', 1),
        ('m.request.path:~"^/(rest|auth)/"', 1),
        ('m.user.plan:"p\\\\ro"', 1),
        ("m.latency:>=12 -m.cached:true", 1),
        ("m.latency:-930..4.5", 2),
        ("m.user.plan:NULL", 2),
        ("m.tags:@>~^@x", 1),
        ('"it\'s 100% @done" -"GET 100"', 2),
        ("id:>h", 0),
        (f"t:{NOON:%Y-%m-%dT%H:%M:%S}..{NOON:%Y-%m-%d}T12:30:00", 2),
        ("s:m.request.path@path s:timestamp s:id m.level:info", 1),
        ("f:edge_logs s:id", 3),
    ],
)
def test_the_endpoint_gives_what_was_explored(rows: None, lql: str, found: int, every_project: bool) -> None:
    draft = replace(explored_draft("edge_logs", every_project=every_project, lql=lql), name="test.explored")
    report = check_draft(draft)
    assert report.problems == ()
    assert report.sandbox_tables == ()  # its CTE has the rows that the LQL leaves out
    opened = check_draft(replace(draft, sandboxing=True))
    assert (opened.problems, [table.name for table in opened.sandbox_tables]) == ((), ["edge_logs"])
    arguments = {name: value for name, value in ARGUMENTS.items() if name != "project" or not every_project}
    saved = json.loads(run_draft(draft, call=Call(arguments), run_id=RUN).body)["result"]
    exploration = replace(DAY, lql=lql, project=None if every_project else "acme")
    explored = json.loads(explore_rows(exploration, mark=None, run_id=RUN).body)["result"]
    assert len(saved) == found * (2 if every_project else 1)
    # The explorer adds what tells rows apart.
    key = sorted(saved[0]) if saved else []
    assert sorted(json.dumps([row[name] for name in key]) for row in saved) == sorted(
        json.dumps([row[name] for name in key]) for row in explored
    )


def test_a_chart_becomes_an_endpoint_of_buckets(rows: None) -> None:
    draft = explored_draft("edge_logs", every_project=False, lql="m.level:error c:count(*) c:group_by(t::hour)")
    (bucket,) = json.loads(run_draft(draft, call=Call(ARGUMENTS), run_id=RUN).body)["result"]
    assert (datetime.fromisoformat(bucket["timestamp"]), bucket["count"]) == (NOON, 1)


@pytest.mark.parametrize("lql", ["", " ", "t:last@1h", "t:now", "-t:today"])
def test_a_range_that_moves_with_the_clock_is_left_to_the_parameters(lql: str) -> None:
    assert explored_draft("edge_logs", every_project=False, lql=lql).sql == source_sql("edge_logs", every_project=False)


def test_no_value_is_taken_for_a_parameter(rows: None) -> None:
    draft = explored_draft("edge_logs", every_project=False, lql='"@done" -"@lql_1" -m.user.plan:"@lql_2"')
    assert [one.name for one in draft.parameters] == ["project", "iso_timestamp_start", "iso_timestamp_end"]
    assert len(json.loads(run_draft(draft, call=Call(ARGUMENTS), run_id=RUN).body)["result"]) == 3


def test_refuses_what_cannot_be_explored() -> None:
    with pytest.raises(InvalidExploration):
        explored_draft("no_logs", every_project=False, lql="")
    for lql in ("m.a:1 c:min(m.b)", "f:auth_logs", "c:max(id)"):
        with pytest.raises(InvalidLQL):
            explored_draft("edge_logs", every_project=False, lql=lql)
