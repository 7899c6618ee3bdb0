"""Rows of one moment: every way of reading shows the rows of one load in one order, the last loaded first."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from endpoints.exploring.downloads import explore_download
from endpoints.exploring.exploring import Exploration, Mark, explore_rows
from endpoints.exploring.tailing import explore_tail
from logsources.loading import OnBadLine, load_rows
from logsources.models import LogSource
from tests.conftest import ApiClient
from tests.logsources.otlp.requests import as_json, record, request

pytestmark = pytest.mark.django_db
NAMES = [f"{number:02}" for number in range(20)]
NEWEST_FIRST = NAMES[::-1]
ACME = {"project": "acme"}


def moment() -> datetime:
    """Now, when the test runs: the suite may take longer than a tail looks back."""
    return datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=5)


def rows(**fields: object) -> list[dict[str, Any]]:
    return [{"project": "acme", "event_message": name, **fields} for name in NAMES]


def lines(sent: Iterable[object]) -> list[bytes]:
    return [json.dumps(one).encode() for one in sent]


def in_an_array(shipper: Client) -> None:
    send(shipper, json.dumps(rows()).encode())


def in_lines(shipper: Client) -> None:
    send(shipper, b"\n".join(lines(rows())))


def in_lines_with_one_moment(shipper: Client) -> None:
    send(shipper, b"\n".join(lines(rows(timestamp=moment().isoformat()))))


def by_otlp(shipper: Client) -> None:
    nanoseconds = str(int(moment().timestamp()) * 10**9)
    records = [record(name, timeUnixNano=nanoseconds) for name in NAMES]
    send(shipper, as_json(request(*records)), "/v1/logs?source=edge_logs")


def from_a_file(shipper: Client) -> None:
    load_file(lines(rows()))


def from_a_file_with_one_moment(shipper: Client) -> None:
    load_file(lines(rows(timestamp=moment().isoformat())), batch_rows=3)


def send(shipper: Client, body: bytes, url: str = "/api/logs?source=edge_logs") -> None:
    response = shipper.post(url, body, content_type="application/json")
    assert response.status_code == 200, response.content


def load_file(sent: Sequence[bytes], **options: Any) -> None:
    source = LogSource.objects.get(name="edge_logs")
    assert load_rows(source, sent, on_bad_line=OnBadLine.ABORT, **options).loaded == len(sent)


WAYS_IN = [in_an_array, in_lines, in_lines_with_one_moment, by_otlp, from_a_file, from_a_file_with_one_moment]


# --- Ways out ---------------------------------------------------------------------------------------------------------
def shown(response: Any) -> list[str]:
    assert response.status_code == 200, response.content
    return messages(response.content)


def messages(body: bytes) -> list[str]:
    return [row["event_message"] for row in json.loads(body)["result"]]


def walked(api: ApiClient) -> list[str]:
    found: list[str] = []
    token: str | None = ""
    while token is not None:
        page = api.query("logs.all", {**ACME, "page_size": "7", "page_token": token})
        found += shown(page)
        token = page.json()["next"]
    return found


def tail(api: ApiClient, token: str = "") -> Any:
    return api.query("logs.all", {**ACME, "lql": "s:event_message", "tail": "true", "page_token": token})


def exploration(project: str | None = "acme", lql: str = "") -> Exploration:
    now = datetime.now(UTC)
    return Exploration("edge_logs", project, now - timedelta(hours=2), now + timedelta(minutes=1), lql)


def explored(project: str | None = "acme", lql: str = "", mark: Mark | None = None) -> list[str]:
    return messages(explore_rows(exploration(project, lql), mark=mark, run_id="of-a-test").body)


def explored_live(project: str | None = "acme") -> list[str]:
    return messages(explore_tail(exploration(project), page_token="", whose="a test").body)


def downloaded() -> list[str]:
    file = explore_download(exploration(), "ndjson", rows=1000, run_id="of-a-test", now=datetime.now(UTC))
    return [json.loads(line)["event_message"] for line in file.run.body.splitlines()]


def sandboxed(api: ApiClient, sql: str) -> list[str]:
    return shown(api.query("logs.all", {**ACME, "sql": sql}))


@pytest.mark.parametrize("load", WAYS_IN, ids=lambda load: load.__name__)
def test_every_way_shows_the_last_loaded_row_first(
    api: ApiClient, shipper: Client, settings: Any, load: Callable[[Client], None]
) -> None:
    settings.ENDPOINTS_TAIL_LATE_SECONDS = 600.0
    token = str(tail(api).json()["next"])
    load(shipper)
    found = {
        "the stored query": shown(api.query("logs.all", ACME)),
        "LQL": shown(api.query("logs.all", {**ACME, "lql": "s:event_message"})),
        "LQL, every column": shown(api.query("logs.all", {**ACME, "lql": "t:>2000-01-01"})),
        "a sandbox table": sandboxed(api, "select event_message from edge_logs"),
        "pages": walked(api),
        "the first page of a tail": shown(tail(api)),
        "a further page of a tail": shown(tail(api, token)),
        "the explorer": explored(),
        "the explorer, every project": explored(None),
        "the explorer, chosen columns": explored(lql="s:event_message"),
        "the explorer, live": explored_live(),
        "the explorer, live, every project": explored_live(None),
        "a download": downloaded(),
    }
    assert {way: order for way, order in found.items() if order != NEWEST_FIRST} == {}


def test_a_limit_keeps_the_newest_by_time_and_then_by_id(api: ApiClient, shipper: Client) -> None:
    in_lines_with_one_moment(shipper)
    older = (moment() - timedelta(minutes=1)).isoformat()
    send(shipper, json.dumps({**ACME, "event_message": "older", "timestamp": older, "id": "z"}).encode())
    kept = NEWEST_FIRST[:5]
    newest = "from edge_logs order by timestamp desc, id desc limit 5"
    assert sandboxed(api, "select event_message from edge_logs limit 5") == kept
    assert sandboxed(api, f"select event_message {newest}") == kept
    assert shown(api.query("logs.all", {**ACME, "page_size": "5"})) == kept


def test_the_explorer_goes_on_behind_a_mark_among_rows_of_one_moment(shipper: Client) -> None:
    in_lines_with_one_moment(shipper)
    row = json.loads(explore_rows(exploration(), mark=None, run_id="of-a-test").body)["result"][7]
    mark = Mark(datetime.fromisoformat(row["timestamp"]), row["id"], 1)
    assert explored(mark=mark) == NEWEST_FIRST[7:]
