"""A text whose fields no row has, and LQL that means something else: the result says so, only where it shows."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from django.core.management import call_command

from endpoints.calling import field_samples
from endpoints.calling.calls import run_endpoint
from endpoints.calling.query_requests import Call
from endpoints.calling.result_notes import MAX_NOTES, MAX_PATH_CHARACTERS
from endpoints.errors import DatabaseUnavailable, EndpointError, Overloaded, QueryTimeout
from tests.files import PROJECT

pytestmark = pytest.mark.django_db
NOW = datetime.now(UTC)
FROM = "from edge_logs t cross join unnest(metadata) as m cross join unnest(m.request) as request"


@pytest.fixture(autouse=True)
def rows(insert_rows: Any) -> None:
    call_command("import_endpoints", str(PROJECT / "fixtures" / "compat"), verbosity=0)
    metadata = [{"request": [{"method": "GET", "path": "/"}], "level": "info", "tenantId": "1", "note": None}]
    insert_rows("edge_logs", [{"project": "default", "timestamp": NOW, "metadata": metadata}] * 2)
    insert_rows("edge_logs", [{"project": "other", "timestamp": NOW, "metadata": [{"methd": 1, "request": [{}]}]}])


def outcome(sql: str, project: str = "default") -> Any:
    return run_endpoint("logs.all", call=Call({"project": project}, sandbox_sql=sql)).outcome


def noted(sql: str, project: str = "default") -> list[str]:
    """Return the paths that the notes name."""
    notes = outcome(sql, project).notes
    assert all(note.endswith(": no sampled row has this field") for note in notes)
    return [note.partition(":")[0] for note in notes]


@pytest.mark.parametrize(
    ("sql", "paths"),
    [
        (f"select request.methd, request.path {FROM}", ["metadata.request.methd"]),
        (f"select upper(request.methd) as a, cast(m.status as int64) as b {FROM}",
         ["metadata.request.methd", "metadata.status"]),
        (f"select m.response.status {FROM}", ["metadata.response.status"]),
        (f"select m.response.status, m.response as whole {FROM}", ["metadata.response"]),
        (f"select id {FROM} where request.methd = 'GET'", ["metadata.request.methd"]),
        ("select r.path from edge_logs cross join unnest(metadata) m cross join unnest(m.reqest) r",
         ["metadata.reqest"]),
        ("select metadata[0].request[0].methd from edge_logs", ["metadata[0].request[0].methd"]),
        (f"select statuses {FROM}", ["metadata.statuses"]),
        (f"with w as (select request.methd as a, request.path as b {FROM}) select a, b from w",
         ["metadata.request.methd"]),
        (f"with w as (select m.request as r {FROM}) select r.methd from w", ["metadata.request.methd"]),
        (f"with w as (select metadata {FROM}) select m.methd from w, unnest(metadata) m", ["metadata.methd"]),
        (f"with w as (select request.methd {FROM}) select * from w", ["metadata.request.methd"]),
        (f"select request.methd as x {FROM} union all select m.levl {FROM}",
         ["metadata.request.methd", "metadata.levl"]),
        (f"select m.methd, count(*) as n {FROM} group by m.methd", ["metadata.methd"]),
        (f"select max(m.methd) as n {FROM}", ["metadata.methd"]),
        (f"select m.`it's; x: \u00e9` as x {FROM}", ["metadata.it%27s%3B%20x%3A%20%C3%A9"]),
    ],
)  # fmt: skip
def test_names_the_fields_that_no_row_has(sql: str, paths: list[str]) -> None:
    assert noted(sql) == paths


@pytest.mark.parametrize(
    "sql",
    [
        f"select request.method, m.level, id {FROM}",
        f"select m.note {FROM}",  # NULL in every row, and there
        f"select m.TenantID, m.LEVEL {FROM} where m.level = 'error'",  # no row, and every field is there
        f"select id {FROM} where id = 'nothing'",
        f"select null as x, m.level {FROM}",
        f"select coalesce(m.methd, m.level) as x {FROM}",  # not NULL
        f"select count(*) as n {FROM} where m.methd = 1",  # shows no sign of it
        "select id from edge_logs limit 0",
        "select struct(1 as a).b as x",
    ],
)
def test_says_nothing_without_a_sign_of_it(sql: str) -> None:
    assert noted(sql) == []


def test_results_without_a_sign_cost_no_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **named: object) -> None:
        raise AssertionError("sampled")

    monkeypatch.setattr(field_samples, "run_statement", refuse)
    assert noted(f"select request.method, m.level {FROM}") == []


def test_rows_of_another_project_tell_nothing() -> None:
    assert noted(f"select m.methd {FROM}") == ["metadata.methd"]
    assert noted(f"select m.methd {FROM}", project="other") == []


def test_without_rows_nothing_is_known() -> None:
    assert noted(f"select m.methd {FROM}", project="nobody") == []


def test_notes_are_bounded() -> None:
    fields = ", ".join(f"m.x{number} as y{number}" for number in range(30))
    assert noted(f"select {fields} {FROM}") == [f"metadata.x{number}" for number in range(MAX_NOTES)]
    (path,) = noted(f"select m.{'x' * 5_000} as y {FROM}")
    assert path == f"metadata.{'x' * MAX_PATH_CHARACTERS}"[:MAX_PATH_CHARACTERS] + "..."
    assert outcome(f"select m.`{'é' * 5_000}` as y {FROM}").notes[0].isascii()


@pytest.mark.parametrize("failure", [QueryTimeout(1), DatabaseUnavailable(), Overloaded()])
def test_a_failed_sample_spoils_no_result(failure: EndpointError, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **named: object) -> None:
        raise failure

    monkeypatch.setattr(field_samples, "run_statement", fail)
    result = outcome(f"select m.methd {FROM}")
    assert json.loads(result.body) == {"result": [{"methd": None}, {"methd": None}]}
    assert result.notes == ()


# --- LQL --------------------------------------------------------------------------------------------------------------
ABSENT = "no sampled row has this field"


@pytest.fixture
def lql_rows(insert_rows: Any) -> None:
    metadata = [{"request": [{"method": "GET"}], "response": [{"status_code": 500}], "level": "info", "x-real-ip": 1}]
    metadata[0]["n"] = None
    rows = [{"project": "acme", "timestamp": NOW, "metadata": metadata, "event_message": "GET host=db_1 OR x"}] * 2
    insert_rows("edge_logs", rows)
    insert_rows("edge_logs", [{"project": "globex", "timestamp": NOW, "metadata": [{"deep": [{"secret": 1}]}]}])


def lql_outcome(lql: str, project: str = "acme") -> Any:
    return run_endpoint("logs.all", call=Call({"project": project}, sandbox_lql=lql)).outcome


NOTED = [
    ("status_code:500", f"metadata.status_code: {ABSENT}, did you mean m.response.status_code?"),
    ("status:>=500", f"metadata.status: {ABSENT}, did you mean m.response.status_code?"),
    ("m.respnse.status_code:1..2",
     f"metadata.respnse.status_code: {ABSENT}, did you mean m.response.status_code?"),
    ("METHOD:GET", f"metadata.METHOD: {ABSENT}"),
    ("m.levl:info", f"metadata.levl: {ABSENT}, did you mean m.level?"),
    ('m."x-real-pi":1', f"metadata.x-real-pi: {ABSENT}, did you mean m.\"x-real-ip\"?"),
    ("zzz.yyy:1", f"metadata.zzz.yyy: {ABSENT}"),
    ("secret:1", f"metadata.secret: {ABSENT}"),  # which only rows of others have
    ("s:id s:status_code", f"metadata.status_code: {ABSENT}, did you mean m.response.status_code?"),
    ("c:avg(m.status_code)", f"metadata.status_code: {ABSENT}, did you mean m.response.status_code?"),
    ('m."größe":1', f"metadata.gr%C3%B6%C3%9Fe: {ABSENT}"),
    ('m.level:"error" OR m.level:"warn"',
     '`OR` is looked for as a word of the message: LQL has no OR. Write m.level:~"^(error|warn)$" instead'),
    ("m.level:info OR m.level:info",
     '`OR` is looked for as a word of the message: LQL has no OR. Write m.level:~"^(info|info)$" instead'),
    ("m.response.status_code >= 400",
     "`m.response.status_code >= 400` is looked for in the message; a filter is `m.response.status_code:>=400`"),
    ('"a\nö" OR "b"',
     '`OR` is looked for as a word of the message: LQL has no OR. Write ~"a%0A%C3%B6|b" instead'),
    ("select * from edge_logs",
     "This reads as SQL, which is sent as sql: LQL looks for its words in the message"),
    (f"t:>{NOW.date()}", f"`t:>{NOW.date()}` begins after that day; with it, write `t:>={NOW.date()}`"),
]  # fmt: skip
NOT_NOTED = (
    "", "m.level:info", "m.level:error", "m.response.status_code:>=600", "s:id s:m.level", "s:m.n", "c:count(*)",
    "nothing", "host=db_2", "host=db_1", "id:none", "c:avg(m.response.status_code)", "-m.status_code:500",
    "t:<2020-01-01", "t:yesterday", "t:>=2100-01-01", "s:*", "m.status_code:NULL", "x or host",
)  # fmt: skip


def test_lql_that_finds_nothing_says_what_would_be_right(lql_rows: None) -> None:
    assert [(lql, *lql_outcome(lql).notes) for lql, _ in NOTED] == NOTED


def test_lql_that_is_right_gets_no_note(lql_rows: None) -> None:
    assert [lql for lql in NOT_NOTED if lql_outcome(lql).notes] == []
