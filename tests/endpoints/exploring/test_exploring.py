"""Exploring a log source: rows in pages, histogram, tenants, places of mistakes, and the endpoint it becomes."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from endpoints.calling.query_requests import Call
from endpoints.defining.drafts import DraftFailed, DraftRun, check_draft, explain_draft
from endpoints.errors import InvalidLQL
from endpoints.exploring import exploring
from endpoints.exploring.exploring import (
    PAGE_ROWS,
    Exploration,
    InvalidExploration,
    Mark,
    explore_histogram,
    explore_rows,
    source_draft,
    source_sql,
)
from endpoints.lql import Period
from logsources import services as log_services

pytestmark = [pytest.mark.django_db, pytest.mark.sql]
RUN = "a-run-of-a-test"
NOON = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0) - timedelta(days=1)
DAY = Exploration("edge_logs", "acme", NOON - timedelta(hours=12), NOON + timedelta(hours=12))


@pytest.fixture
def rows(insert_rows: Any) -> None:
    insert_rows(
        "edge_logs",
        [
            {"timestamp": NOON + timedelta(minutes=30 * n), "project": project, "id": f"{project}{n}"}
            | {"event_message": f"from 203.0.113.{n}", "metadata": [{"n": n, "level": "error" if n else "info"}]}
            for n in range(4)
            for project in ("acme", "globex")
        ],
    )


def result(run: DraftRun) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run.body)["result"]
    return found


def ids(exploration: Exploration, mark: Mark | None = None) -> list[str]:
    return [row["id"] for row in result(explore_rows(exploration, mark=mark, run_id=RUN))]


def test_rows_of_one_project_newest_first(rows: None) -> None:
    first, *_ = found = result(explore_rows(DAY, mark=None, run_id=RUN))
    assert [row["id"] for row in found] == ["acme3", "acme2", "acme1", "acme0"]
    assert list(first) == ["timestamp", "id", "event_message", "metadata"]


def test_rows_of_every_project_name_it(rows: None) -> None:
    found = result(explore_rows(replace(DAY, project=None), mark=None, run_id=RUN))
    assert {row["project"] for row in found} == {"acme", "globex"}
    assert len(found) == 8


def test_one_project_is_what_postgresql_shows_and_not_only_a_filter(rows: None) -> None:
    run = explore_rows(DAY, mark=None, run_id=RUN)
    assert run.statement.role == "sandbox_reader"
    assert source_draft("edge_logs", every_project=False).tenant_parameter == "project"


def test_the_range_holds_its_start_and_not_its_end(rows: None) -> None:
    half_hour = replace(DAY, start=NOON, end=NOON + timedelta(minutes=30))
    assert ids(half_hour) == ["acme0"]


def test_lql_filters_and_selects(rows: None) -> None:
    assert ids(replace(DAY, lql="m.level:info")) == ["acme0"]
    (row,) = result(explore_rows(replace(DAY, lql="m.n:2 s:m.n@n"), mark=None, run_id=RUN))
    assert set(row) == {"timestamp", "id", "n", *(f"_severity_{number}" for number in range(4))}
    assert ids(replace(DAY, lql="c:count(*) m.n:>1")) == ["acme3", "acme2"]


def test_chosen_columns_come_with_the_rows_severity_if_there_is_room(rows: None) -> None:
    row, *_ = result(explore_rows(replace(DAY, lql="s:m.n@n"), mark=None, run_id=RUN))
    assert (row["_severity_0"], row["_severity_2"]) == ("error", None)
    many = " ".join(f"s:m.a{number}" for number in range(48))
    row, *_ = result(explore_rows(replace(DAY, lql=many), mark=None, run_id=RUN))
    assert len(row) == 50


def test_a_mistake_in_the_chart_is_told_at_its_place(rows: None) -> None:
    with pytest.raises(InvalidLQL) as refused:
        explore_histogram(replace(DAY, lql="m.a:1 c:max(id)"), run_id=RUN)
    assert refused.value.details[0]["column"] == 7


def test_redaction_is_that_of_a_consumer(rows: None) -> None:
    (row,) = result(explore_rows(replace(DAY, lql="m.n:2", redact=True), mark=None, run_id=RUN))
    assert row["event_message"] == "from REDACTED"


@pytest.mark.parametrize("project", ["acme", None])
@pytest.mark.parametrize("apart", [timedelta(0), timedelta(seconds=1), timedelta(minutes=9), timedelta(hours=3)])
def test_pages_lose_no_row_of_the_same_moment(insert_rows: Any, apart: timedelta, project: str | None) -> None:
    moments = [NOON - n // 90 * apart for n in range(270)]
    insert_rows(
        "edge_logs",
        [{"timestamp": moment, "project": "acme", "id": f"{n:04}"} for n, moment in enumerate(moments)],
    )
    seen: list[str] = []
    mark: Mark | None = None
    pages = 0
    while True:
        run = explore_rows(replace(DAY, project=project), mark=mark, run_id=RUN)
        new = [row["id"] for row in result(run) if row["id"] not in seen]
        seen += new
        pages += 1
        if not run.truncated:
            break
        assert len(new) >= PAGE_ROWS
        mark = Mark(moments[int(seen[-1])], seen[-1], 1)
    assert len(seen) == 270
    assert [moments[int(one)] for one in seen] == sorted(moments, reverse=True)
    assert pages == 3


@pytest.mark.parametrize("project", ["acme", None])
def test_pages_go_on_within_one_moment_however_many_rows_it_has(
    insert_rows: Any, monkeypatch: pytest.MonkeyPatch, project: str | None
) -> None:
    """More than a page may have, some ids in two projects, and a row before them."""
    monkeypatch.setattr(exploring, "MAX_PAGE_ROWS", 120)
    same = [{"timestamp": NOON, "project": "acme", "id": f"{n:04}"} for n in range(330)]
    others = [{"timestamp": NOON, "project": "globex", "id": f"{n:04}"} for n in range(90, 110)]
    earlier = {"timestamp": NOON - timedelta(hours=1), "project": "acme", "id": "earlier"}
    insert_rows("edge_logs", [*same, *others, earlier])
    seen: list[tuple[str, str]] = []
    mark: Mark | None = None
    for _ in range(6):
        run = explore_rows(replace(DAY, project=project), mark=mark, run_id=RUN)
        found = [(row["id"], row.get("project", "acme")) for row in result(run)]
        new = [one for one in found if one not in seen]
        assert new
        seen += new
        if not run.truncated:
            break
        last = seen[-1][0]
        mark = Mark(NOON, last, sum(row_id == last for row_id, _ in seen))
    assert len(seen) == len(set(seen)) == (331 if project else 351)
    in_order = [row_id for row_id, _ in seen[:-1]]
    assert in_order == sorted(in_order, reverse=True)
    assert seen[-1][0] == "earlier"


def test_a_histogram_counts_what_the_rows_are(rows: None) -> None:
    histogram = explore_histogram(replace(DAY, lql="m.level:error"), run_id=RUN)
    assert histogram.period is Period.HOUR
    assert {bar.start: bar.value for bar in histogram.bars if bar.value != "0"} == {
        NOON: "1",
        NOON + timedelta(hours=1): "2",
    }
    assert len(histogram.bars) == 24


def test_a_chart_of_the_query_takes_the_place_of_the_count(rows: None) -> None:
    histogram = explore_histogram(replace(DAY, lql="c:max(m.n) s:m.n"), run_id=RUN)
    assert {bar.start: bar.value for bar in histogram.bars if bar.value is not None} == {
        NOON: "1",
        NOON + timedelta(hours=1): "3",
    }


def test_bars_have_every_digit(insert_rows: Any) -> None:
    digits = ["9007199254740993", "-0.0004", "123456789012345678901234567890.5", "-" + 40 * "9"]
    insert_rows(
        "edge_logs",
        [
            {
                "timestamp": NOON + timedelta(hours=n),
                "project": "acme",
                "id": str(n),
                "metadata": orjson.Fragment(f'[{{"n": {one}}}]'),
            }
            for n, one in enumerate(digits)
        ],
    )
    histogram = explore_histogram(replace(DAY, lql="c:max(m.n)"), run_id=RUN)
    assert [bar.value for bar in histogram.bars if bar.value is not None] == digits


def test_the_latest_moment_is_no_bar(rows: None) -> None:
    histogram = explore_histogram(replace(DAY, lql="c:max(timestamp)"), run_id=RUN)
    assert {bar.value for bar in histogram.bars} == {None}


@pytest.mark.parametrize(
    ("lql", "column"),
    [
        ("m.a:1 c:min(m.n)", 9),
        ("m.a:1 f:auth_logs", 7),
        ("c:count(*) id.x:1", 12),
    ],
)
def test_mistakes_are_told_at_their_place_in_what_was_typed(rows: None, lql: str, column: int) -> None:
    with pytest.raises(InvalidLQL) as refused:
        explore_rows(replace(DAY, lql=lql), mark=None, run_id=RUN)
    assert refused.value.details[0]["column"] == column


def test_a_pattern_that_postgresql_cannot_read_is_told_at_its_place_too(rows: None) -> None:
    with pytest.raises(DraftFailed) as failed:
        explore_rows(replace(DAY, lql='m.path:~"(" m.a:1'), mark=None, run_id=RUN)
    assert isinstance(failed.value.error, InvalidLQL)
    assert failed.value.error.details[0]["column"] == 1


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"source": "no_logs"}, "source"),
        ({"source": 'edge_logs" as t; --'}, "source"),
        ({"end": DAY.start}, "range"),
        ({"start": NOON - timedelta(days=500)}, "range"),
    ],
)
def test_refuses_what_cannot_be_looked_up(changes: dict[str, Any], field: str) -> None:
    for explore in (
        lambda one: explore_rows(one, mark=None, run_id=RUN),
        lambda one: explore_histogram(one, run_id=RUN),
    ):
        with pytest.raises(InvalidExploration) as refused:
            explore(replace(DAY, **changes))
        assert refused.value.field == field


@pytest.mark.parametrize("every_project", [False, True])
def test_the_endpoint_it_becomes_is_sound(every_project: bool) -> None:
    draft = replace(source_draft("edge_logs", every_project=every_project), name="test.explored")
    report = check_draft(draft)
    assert report.problems == ()
    assert [table.name for table in report.sandbox_tables] == ["edge_logs"]


def test_a_source_with_the_name_of_a_reserved_word(rows: None) -> None:
    log_services.create_source(name="order", holds="orders", project_location="row field")
    try:
        assert 'from logs."order" as t' in source_sql("order", every_project=False)
        assert ids(replace(DAY, source="order")) == []
    finally:
        log_services.drop_source(log_services.LogSource.objects.get(name="order"))


def test_partitions_outside_the_range_are_not_read(rows: None) -> None:
    log_services.roll_partitions()
    arguments = {
        "project": "acme",
        "iso_timestamp_start": DAY.start.isoformat(),
        "iso_timestamp_end": DAY.end.isoformat(),
    }
    call = Call(arguments, sandbox_lql="m.level:error")
    plan = explain_draft(source_draft("edge_logs", every_project=False), call=call, run_id=RUN)
    (table,) = plan.tree.tables
    assert table.pruned
    assert len(table.touched) <= 2
