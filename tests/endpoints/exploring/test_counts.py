"""Top values and severities: what is counted, how much of it, and that no wall is weaker than for rows."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from endpoints.defining.drafts import cancel_draft_run
from endpoints.errors import CallCancelled, InvalidLQL, QueryTimeout
from endpoints.exploring import counts
from endpoints.exploring.counts import FieldCounts, explore_severities, explore_top_values
from endpoints.exploring.exploring import Exploration, InvalidExploration, explore_histogram

pytestmark = [pytest.mark.django_db, pytest.mark.sql]
RUN = "a-run-of-a-test"
NOON = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0) - timedelta(days=1)
DAY = Exploration("edge_logs", "acme", NOON - timedelta(hours=12), NOON + timedelta(hours=12))
# Back references have PostgreSQL try every way of cutting a message up.
SLOW = r'~"(.+)(.+)(.+)\1\2\3$"'
METADATA: list[dict[str, Any]] = [
    {"level": "error", "n": 1, "ok": True, "tags": ["a", "b"], "response": [{"status_code": 500}]},
    {"level": "ERROR", "n": 12345678901234567890, "ok": False, "tags": ["a"], "mail": "a@example.com"},
    {"level": "warn", "n": "1", "tags": [], "mail": "b@example.com"},
    {"n": None, "response": {"status_code": "503"}},
    {"parsed": [{"error_severity": "LOG"}], "response": {"status_code": 404}},
    {"status": 404},
    {"level": "verbose", "status": 500},
    {"status": "204"},
    {"x-real-ip": "192", "log.level": "warn", "log": [{"level": "other"}]},
]


@pytest.fixture
def rows(insert_rows: Any) -> None:
    insert_rows(
        "edge_logs",
        [
            {"timestamp": NOON + timedelta(minutes=n), "project": project, "id": f"{project}{n}"}
            | {"event_message": f"from 203.0.113.{n}", "metadata": [metadata | {"of": project}]}
            for n, metadata in enumerate(METADATA)
            for project in ("acme", "globex")
        ],
    )


def values(exploration: Exploration, path: str) -> list[tuple[str, str, int]]:
    return [(value.kind, value.text, rows) for value, rows in top(exploration, path).values]


def top(exploration: Exploration, path: str) -> FieldCounts:
    return explore_top_values(exploration, path, run_id=RUN)


def test_values_are_counted_most_frequent_first(rows: None) -> None:
    assert values(DAY, "metadata.response.status_code")[0] == ("null", "NULL", 6)
    assert set(values(DAY, "metadata.response.status_code")[1:]) == {
        ("number", "500", 1),
        ("text", "503", 1),
        ("number", "404", 1),
    }
    assert set(values(replace(DAY, project=None), "project")) == {("text", "acme", 9), ("text", "globex", 9)}


def test_values_keep_their_type_and_digits(rows: None) -> None:
    found = values(DAY, "n")
    assert {("number", "1", 1), ("text", "1", 1), ("number", "12345678901234567890", 1)} < set(found)
    assert {kind for kind, _, _ in values(DAY, "metadata.ok")} == {"boolean", "null"}


def test_each_element_of_an_array_counts(rows: None) -> None:
    assert set(values(replace(DAY, lql="m.tags:@>a"), "metadata.tags")) == {
        ("text", "a", 2),
        ("text", "b", 1),
    }


@pytest.mark.parametrize(
    ("path", "text"),
    [('m."x-real-ip"', "192"), ('metadata."log.level"', "warn"), ("m.log.level", "other"), ('"log".level', None)],
)
def test_fields_of_any_name_are_counted(rows: None, path: str, text: str | None) -> None:
    if text is None:
        with pytest.raises(InvalidExploration):
            top(DAY, path)
    else:
        assert values(DAY, path) == [("null", "NULL", 8), ("text", text, 1)]


def test_filters_count_and_columns_do_not(rows: None) -> None:
    found = values(replace(DAY, lql="m.level:error s:id c:count(*)"), "metadata.level")
    assert found == [("text", "error", 1)]


def test_only_the_newest_rows_are_counted(rows: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "COUNTED_ROWS", 3)
    found = top(DAY, "event_message")
    assert found.is_part
    assert {value.text for value, _ in found.values} == {f"from 203.0.113.{n}" for n in (6, 7, 8)}


def test_few_of_many_values_come_back(rows: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "MOST_VALUES", 2)
    found = top(DAY, "id")
    assert (len(found.values), found.counted, found.different, found.is_part) == (2, 9, 9, False)


# --- Ways around the walls --------------------------------------------------------------------------------------------
def test_another_projects_values_are_not_counted(rows: None) -> None:
    assert values(DAY, "metadata.of") == [("text", "acme", 9)]
    # The column is not there for who sees one project: the name is a path inside metadata.
    assert values(DAY, "project") == [("null", "NULL", 9)]
    assert values(replace(DAY, lql="-m.of:acme", project="initech"), "metadata.of") == []


def test_values_are_redacted_and_then_equal(rows: None) -> None:
    assert values(replace(DAY, redact=True), "event_message") == [("text", "from REDACTED", 9)]
    assert ("text", "REDACTED", 2) in values(replace(DAY, redact=True), "metadata.mail")
    assert not any("@" in text for _, text, _ in values(replace(DAY, redact=True), "mail"))


@pytest.mark.parametrize(
    "path",
    [
        "",
        "*",
        "a b",
        'a"b',
        "a;b",
        "a.",
        ".a",
        "a..b",
        "a[*]",
        "$.a",
        "a'::text",
        "é",
        "a" * 501,
        "pg_user()",
        "a@b",
        'm."a',
        "s:a",
        'm."a" b',
    ],
)
def test_a_path_that_lql_cannot_name_is_refused(rows: None, path: str) -> None:
    with pytest.raises(InvalidExploration) as refused:
        top(DAY, path)
    assert refused.value.field == "path"


@pytest.mark.parametrize("path", ["id.secret", "timestamp.x"])
def test_a_path_without_a_meaning_is_refused(rows: None, path: str) -> None:
    with pytest.raises(InvalidLQL):
        top(DAY, path)


@pytest.mark.parametrize("lql", ["f:auth_logs", "f:pg_user", "m.level:"])
def test_the_query_reads_no_other_table(rows: None, lql: str) -> None:
    with pytest.raises(InvalidLQL):
        top(replace(DAY, lql=lql), "id")
    with pytest.raises(InvalidLQL):
        explore_severities(replace(DAY, lql=lql), run_id=RUN)


def test_a_long_query_is_cancelled(insert_rows: Any) -> None:
    insert_rows("edge_logs", [{"timestamp": NOON, "project": "acme", "event_message": "ab" * 400}])
    deadline = time.monotonic() + 20

    def cancel() -> None:
        while not cancel_draft_run(RUN) and time.monotonic() < deadline:
            time.sleep(0.02)

    canceller = threading.Thread(target=cancel)
    canceller.start()
    with pytest.raises(CallCancelled):
        top(replace(DAY, lql=SLOW), "id")
    canceller.join()


def test_a_long_query_ends_by_itself(insert_rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "COUNTING_SECONDS", 1)
    insert_rows("edge_logs", [{"timestamp": NOON, "project": "acme", "event_message": "ab" * 400}])
    with pytest.raises(QueryTimeout):
        top(replace(DAY, lql=SLOW), "id")


# --- Severities -------------------------------------------------------------------------------------------------------
def severities(exploration: Exploration) -> dict[str, int]:
    counted = explore_severities(exploration, run_id=RUN).counts
    assert counted is not None
    return {severity: sum(of_bars) for severity, of_bars in counted.items()}


def test_the_level_counts_and_else_the_status(rows: None) -> None:
    # error, ERROR and 503; warn and 404; LOG and 204; verbose, which is none, and nothing at all.
    assert severities(DAY) == {"error": 3, "warning": 2, "info": 2, "debug": 0, "other": 2}
    assert severities(replace(DAY, lql="m.level:warn")) == {
        "error": 0, "warning": 1, "info": 0, "debug": 0, "other": 0,
    }  # fmt: skip


@pytest.mark.parametrize("length", [timedelta(minutes=2), timedelta(hours=2), timedelta(days=20), timedelta(days=399)])
def test_every_bar_has_its_severities(rows: None, length: timedelta) -> None:
    range_ = replace(DAY, start=NOON - timedelta(seconds=30), end=NOON - timedelta(seconds=30) + length)
    histogram = explore_histogram(range_, run_id=RUN)
    counted = explore_severities(range_, run_id=RUN).counts
    assert counted is not None
    assert [sum(of_bar) for of_bar in zip(*counted.values(), strict=True)] == [
        int(bar.value or 0) for bar in histogram.bars
    ]


def test_too_many_rows_are_not_counted(rows: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "MAX_SEVERITY_ROWS", 8)
    assert explore_severities(DAY, run_id=RUN).counts is None
    monkeypatch.setattr(counts, "MAX_SEVERITY_ROWS", 9)
    assert explore_severities(DAY, run_id=RUN).counts is not None


def test_severities_of_one_project(rows: None) -> None:
    assert sum(severities(replace(DAY, project=None)).values()) == 2 * sum(severities(DAY).values())
