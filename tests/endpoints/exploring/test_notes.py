"""Notes on a query: what the text and the rows show, what is right and gets none, and nothing of other projects."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from endpoints.errors import DatabaseUnavailable, InvalidLQL
from endpoints.exploring import notes as module
from endpoints.exploring.exploring import Exploration, explore_rows
from endpoints.exploring.notes import explore_notes

pytestmark = pytest.mark.django_db
RUN = "a-run-of-a-test"
NOON = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0) - timedelta(days=1)
DAY = Exploration("edge_logs", "acme", NOON - timedelta(hours=12), NOON + timedelta(hours=12))


@pytest.fixture
def rows(insert_rows: Any) -> None:
    metadata = [
        {"level": "error", "latency": 12, "code": "500", "response": [{"status_code": 500}], "tags": ["a"]},
        {"level": "warning", "latency": 3.5, "code": "200", "cached": True},
        {"level": "info", "latency": 7, "user": None, "x-real-ip": "a", "a.b": [{"c d": 5}]},
    ]
    insert_rows(
        "edge_logs",
        [
            {"timestamp": NOON + timedelta(minutes=n), "project": project, "id": f"{project}{n}"}
            | {"event_message": ("timeout", "refused", "ok")[n], "metadata": [one | {f"only_{project}": 1}]}
            for n, one in enumerate(metadata)
            for project in ("acme", "globex")
        ],
    )


def notes(lql: str, **changes: Any) -> list[str]:
    return list(explore_notes(replace(DAY, lql=lql, **changes), run_id=RUN))


SAMPLE = "none of the newest 3 rows of this range"


@pytest.mark.parametrize(
    ("lql", "told"),
    [
        ("m.levle:error", f"m.levle: {SAMPLE} has this field. Did you mean m.level?"),
        ("-m.levle:error", f"m.levle: {SAMPLE} has this field. Did you mean m.level?"),
        ("s:m.respnse.status_code", f"m.respnse.status_code: {SAMPLE} has this field."
                                    " Did you mean m.response.status_code?"),
        ("zzz.yyy:1", f"m.zzz.yyy: {SAMPLE} has this field."),
        ("status_code:500", f"m.status_code: {SAMPLE} has this field. Did you mean m.response.status_code?"),
        ("status:>=500", f"m.status: {SAMPLE} has this field. Did you mean m.response.status_code?"),
        ("m.response.status_code >= 500", "`m.response.status_code >= 500` is looked for in the message; a filter is"
                                          " `m.response.status_code:>=500`."),
        ("c:avg(m.latncy)", f"m.latncy: {SAMPLE} has this field. Did you mean m.latency?"),
        ("c:avg(m.level)", f"c:avg(m.level): {SAMPLE} has a number there."),
        ("m.level:>5", "m.level:>5: m.level is a text that is no number in the sampled rows, so this never matches."),
        ("m.level:5", "m.level:5: m.level is a text that is no number in the sampled rows, so this never matches."),
        ("m.latency:slow", "m.latency:slow: m.latency is a number in the sampled rows, so it never equals a text."),
        ('m.latency:>"5"', "m.latency is a number, and in quotes \"5\" is a text, which is never more or less than a"
                           " number. Write m.latency:>5."),
        ('m."x-real-pi":a', f'm."x-real-pi": {SAMPLE} has this field. Did you mean m."x-real-ip"?'),
        ('m."a.b"."c d":x', 'm."a.b"."c d":x: m."a.b"."c d" is a number in the sampled rows, so it never equals a'
                            " text."),
        ("m.response:500", "m.response has fields of its own: name one of them, because an object never equals a"
                           " value."),
    ],
)  # fmt: skip
def test_a_doubtful_field_is_told(rows: None, lql: str, told: str) -> None:
    assert notes(lql) == [told]


@pytest.mark.parametrize(
    "lql",
    [
        "", "timeout", "m.level:error", "-m.level:info", "m.latency:>5", "m.latency:1..5", "m.code:500", "m.code:>=500",
        'm.code:"500"', "m.response.status_code:>=500", "m.response.status_code:~^5", "m.tags:@>a", "m.cached:true",
        "m.response:NULL", "m.level:~err", "m.level:warning..emergency", "s:*", "s:m.level@l", "c:avg(m.latency)",
        "c:count(*)", "c:countd(m.level)", "id:acme1", "event_message:ok", "t:today", 'm.latency:"12"',
        'm."x-real-ip":a', 's:m."a.b"."c d"', 'c:avg(m."a.b"."c d")',
        "m.level:>=2026-11-25", 'm.latency:>"2026-11-25 12:00"', "m.level:>1795600800000", "m.latency:2026-11-25",
        '"OR"', "ok or", "this or that", "or", "c:avg(m.code)",
    ],
)  # fmt: skip
def test_what_is_right_gets_no_note(rows: None, lql: str) -> None:
    assert notes(lql) == []


@pytest.mark.parametrize(
    ("lql", "advice"),
    [
        ("m.level:error OR m.level:warning", 'm.level:~"^(error|warning)$"'),
        ("m.response.status_code:500 OR m.response.status_code:503", 'm.response.status_code:~"^(500|503)$"'),
        ("timeout OR refused", '~"timeout|refused"'),
        ("timeout || refused", '~"timeout|refused"'),
        ("m.level:error or m.level:warning", 'm.level:~"^(error|warning)$"'),
    ],
)
def test_or_is_shown_in_lql_and_the_advice_works(rows: None, lql: str, advice: str) -> None:
    (note,) = notes(lql)
    assert note.endswith(f"LQL has no OR. Write {advice} instead.")
    found = explore_rows(replace(DAY, lql=advice), mark=None, run_id=RUN)
    assert found.row_count == (1 if "status" in lql else 2)


@pytest.mark.parametrize(
    ("lql", "told"),
    [
        ("OR", "such as m.level"),
        ("m.level:error OR m.latency:>5", "such as m.level"),
        ("m.level:error AND m.latency:>5", "Leave it out"),
        ("NOT m.level:error", "A dash in front"),
        ("not m.level:error", "A dash in front"),
    ],
)
def test_other_words_of_sql_are_told(rows: None, lql: str, told: str) -> None:
    (note,) = notes(lql)
    assert told in note


def test_a_chart_that_does_not_count_is_told(rows: None) -> None:
    (note,) = notes("c:count(*) c:group_by(t::day)")
    assert note.startswith("The bars are per hour, as the time range asks: c:group_by(t::day) counts only where")
    assert notes("c:count(*) c:group_by(t::hour)") == []
    (note,) = notes("c:max(t)")
    assert note.startswith("c:max(timestamp) is a moment")


# --- Ways around the walls --------------------------------------------------------------------------------------------
def test_nothing_is_told_of_another_projects_fields(rows: None) -> None:
    (note,) = notes("m.only_globe:1")
    assert "globex" not in note
    (note,) = notes("m.only_globex:1")
    assert "has this field" in note
    assert notes("m.only_globex:1", project=None) == []


def test_a_sample_that_fails_tells_nothing(rows: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable(*arguments: object, **options: object) -> None:
        raise DatabaseUnavailable

    monkeypatch.setattr(module, "run_exploration", unavailable)
    assert notes("m.levle:error") == []
    assert len(notes("m.levle:error OR timeout")) == 1


def test_no_rows_tell_nothing(rows: None) -> None:
    assert notes("m.levle:error", end=NOON - timedelta(hours=1)) == []


def test_a_query_that_cannot_be_read_is_refused(rows: None) -> None:
    with pytest.raises(InvalidLQL):
        notes("m.level:")


def test_long_names_and_many_fields_stay_short(rows: None) -> None:
    found = notes(" ".join(f"m.x{number}{'y' * 300}:1" for number in range(20)))
    assert len(found) == module.MAX_NOTES
    assert all(len(note) < 300 for note in found)
