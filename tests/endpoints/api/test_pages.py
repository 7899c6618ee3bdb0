"""Pages over HTTP: walked to the end by token and by Link, refused in words, and closed to what others may see."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs

import orjson
import psycopg
import pytest

from config.setting_values import Rate
from endpoints.access.access_tokens import issue_access_token
from endpoints.defining.saving import save_endpoint
from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter, ParameterType
from tests.conftest import ApiClient, iso

pytestmark = pytest.mark.usefixtures("log_database")
MOMENT = datetime(2025, 6, 2, 8, 15, 2, 120450, tzinfo=UTC)
ACME = {"project": "acme"}
PATH = "/api/endpoints/query/logs.all"


@pytest.fixture
def stored(insert_rows: Callable[..., None]) -> list[str]:
    """Ids of the 250 rows of acme, the newest first; five at a time have the same microsecond."""
    rows = [
        {"id": f"{number:03}", "timestamp": MOMENT + timedelta(microseconds=number // 5), "project": project}
        for number in range(250)
        for project in ("acme", "globex")
    ]
    insert_rows("edge_logs", rows)
    return [f"{number:03}" for number in reversed(range(250))]


def page(api: ApiClient, arguments: Mapping[str, Any], endpoint: str = "logs.all", **headers: str) -> Any:
    """Return the JSON of one page."""
    response = api.query(endpoint, arguments, **headers)
    assert response.status_code == 200, response.content
    return response.json()


def walk(
    api: ApiClient, arguments: Mapping[str, Any], endpoint: str = "logs.all", token: str | None = "", **headers: str
) -> Iterator[Any]:
    """Yield the rows of each page, from that of the token on, until there is no next one."""
    while token is not None:
        body = page(api, {**arguments, "page_token": token}, endpoint, **headers)
        token = body["next"]
        yield body["result"]


def refusal(response: Any) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


@pytest.mark.parametrize("size", [1, 7, 100, 125, 249, 250, 251, 1000])
def test_a_walk_returns_every_row_once_in_order(api: ApiClient, stored: list[str], size: int) -> None:
    pages = list(walk(api, {**ACME, "page_size": size}))
    assert [row["id"] for page in pages for row in page] == stored
    assert all(len(page) == size for page in pages[:-1])
    assert all(list(row) == ["id", "timestamp", "event_message", "metadata"] for page in pages for row in page)


def test_without_page_size_nothing_changes(api: ApiClient, stored: list[str]) -> None:
    response = api.query("logs.all", ACME)
    # Rows of one microsecond come in any order, as ever.
    assert {row["id"] for row in response.json()["result"]} == set(stored[:100])
    assert list(response.json()) == ["result"]
    assert "Link" not in response
    assert api.query("logs.all", {**ACME, "page_size": "", "page_token": ""}).content == response.content


def test_a_page_has_next_beside_its_rows_and_as_a_link_and_the_last_one_null(api: ApiClient, stored: list[str]) -> None:
    arguments = {**ACME, "iso_timestamp_start": "2025-06-02T10:15:02+02:00", "page_size": 200}
    first = api.query("logs.all", arguments)
    assert re.fullmatch(rb'\{"result":\[.*\],"next":"[A-Za-z0-9_-]+"\}', first.content, re.DOTALL)
    assert first["X-Result-Rows"] == "200"
    assert "X-Result-Truncated" not in first
    (target,) = re.fullmatch(r'<\?(.*)>; rel="next"', first["Link"]).groups()  # type: ignore[union-attr]
    assert parse_qs(target) == {
        "project": ["acme"],
        "iso_timestamp_start": ["2025-06-02T10:15:02+02:00"],
        "page_token": [first.json()["next"]],
    }
    last = api.get(f"{PATH}?{target}")
    assert last.status_code == 200
    assert [row["id"] for row in last.json()["result"]] == stored[200:]
    assert last.content.endswith(b'],"next":null}')
    assert "Link" not in last


@pytest.mark.parametrize("accept", ["text/csv", "application/x-ndjson"])
def test_other_formats_are_walked_by_their_links(api: ApiClient, stored: list[str], accept: str) -> None:
    response = api.query("logs.all", {**ACME, "page_size": 99}, Accept=accept)
    bodies = [response.content.decode()]
    while "Link" in response:
        response = api.get(PATH + response["Link"].split(">")[0].removeprefix("<"), headers={"Accept": accept})
        assert response.status_code == 200
        bodies.append(response.content.decode())
    if accept == "text/csv":
        ids = [row["id"] for body in bodies for row in csv.DictReader(io.StringIO(body, newline=""))]
    else:
        ids = [orjson.loads(line)["id"] for body in bodies for line in body.splitlines()]
    assert ids == stored
    assert len(bodies) == 3


def test_a_body_may_ask_for_pages_and_its_arguments_are_in_the_link(api: ApiClient, stored: list[str]) -> None:
    first = api.post(PATH, {"project": "acme", "page_size": 240}, content_type="application/json")
    target = first["Link"].split(">")[0].removeprefix("<")
    token = first.json()["next"]
    for answer in (
        api.get(PATH + target),
        api.post(PATH, {"project": "acme", "page_token": token}, content_type="application/json"),
        api.post(PATH, {"project": "acme", "page_size": "10", "page_token": token}),
    ):
        assert [row["id"] for row in answer.json()["result"]] == stored[240:]


def test_another_page_size_may_follow(api: ApiClient, stored: list[str]) -> None:
    token = page(api, {**ACME, "page_size": 100})["next"]
    rows = page(api, {**ACME, "page_size": 3, "page_token": token})["result"]
    assert [row["id"] for row in rows] == stored[100:103]


def test_rows_loaded_before_the_page_are_no_part_of_it(
    api: ApiClient, stored: list[str], insert_rows: Callable[..., None]
) -> None:
    token = page(api, {**ACME, "page_size": 100})["next"]
    insert_rows("edge_logs", [{"id": "new", "timestamp": MOMENT + timedelta(days=1), "project": "acme"}])
    rows = [row["id"] for rows in walk(api, {**ACME, "page_size": 100}, token=token) for row in rows]
    assert rows == stored[100:]
    assert page(api, {**ACME, "page_size": 1})["result"][0]["id"] == "new"


# --- Other endpoints --------------------------------------------------------------------------------------------------
VALUES = """
SELECT moment, amount, ratio, day, label, token
FROM (VALUES
  ('2025-06-02 08:15:02.000001+00'::timestamptz, 0.10::numeric, 0.1::float8, '2025-06-02'::date, 'ä"\\', 1),
  ('2025-06-02 08:15:02.000001+00', 0.1000000000000000000001, 'NaN', 'infinity', E'\\n', 2),
  ('2025-06-02 08:15:02.000002+00', 1e30, 1e-300, NULL, '', 3),
  ('-infinity', 'NaN', 'Infinity', '0044-03-15 BC', NULL, 4),
  (NULL, NULL, NULL, '-infinity', '日本', 5),
  (NULL, -1, 0.30000000000000004, '2025-06-03', '10.1.2.3', 6)
) AS v (moment, amount, ratio, day, label, token)
WHERE @least::int IS NULL OR token >= @least
"""
LEAST = DeclaredParameter("least", ParameterType.INTEGER)


def saved(order: str, **settings: Any) -> Endpoint:
    return save_endpoint(Endpoint(**{"name": "test.pages", "sql": VALUES, "page_order": order, **settings}), [LEAST])


@pytest.mark.parametrize(
    "order",
    [
        "moment, amount",
        "moment desc, amount desc",
        "moment desc nulls last, amount asc nulls first",
        "amount",
        "ratio desc, token",
        "day, token",
        "day desc",
        "label nulls first",
        "label desc, token desc",
        "token",
    ],
)
@pytest.mark.parametrize("timestamps_as", ["iso", "unix_microseconds"])
def test_every_type_and_null_is_walked_in_postgresqls_order(
    api: ApiClient, log_database: psycopg.Connection[Any], order: str, timestamps_as: str
) -> None:
    saved(order, timestamps_as=timestamps_as)
    with psycopg.RawCursor(log_database) as cursor:
        cursor.execute(f"SELECT token FROM ({VALUES.replace('@least', 'NULL')}) AS v ORDER BY {order}")
        expected = [token for (token,) in cursor]
    for size in (1, 2, 4):
        pages = walk(api, {"page_size": size}, "test.pages")
        assert [row["token"] for rows in pages for row in rows] == expected


def test_pages_are_cached_like_every_result(api: ApiClient) -> None:
    saved("token", cache_seconds=600)
    first = api.query("test.pages", {"page_size": 2})
    for size, state in ((2, "hit"), (3, "miss"), (2, "hit")):
        again = api.query("test.pages", {"page_size": size})
        assert again["X-Cache"] == state
    assert (again.content, again["Link"], again["ETag"]) == (first.content, first["Link"], first["ETag"])
    token = first.json()["next"]
    states = [api.query("test.pages", {"page_token": token})["X-Cache"] for _ in range(2)]
    assert states == ["miss", "hit"]
    assert api.query("test.pages", {"page_size": 2}, If_None_Match=first["ETag"]).status_code == 304


def test_the_same_page_has_the_same_bytes(api: ApiClient) -> None:
    saved("token")
    assert api.query("test.pages", {"page_size": 2}).content == api.query("test.pages", {"page_size": 2}).content


# --- Refusals ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("size", ["0", "-1", "1001", "ten", "1.5", "1e2", "99999999999999999999"])
def test_a_page_size_outside_the_endpoints_limit_is_refused(api: ApiClient, size: str) -> None:
    response = api.query("logs.all", {**ACME, "page_size": size})
    assert refusal(response) == (400, "invalid_parameters")
    (detail,) = response.json()["error"]["details"]
    assert detail["name"] == "page_size"


def test_the_largest_page_is_max_rows(api: ApiClient) -> None:
    saved("token", max_rows=3)
    assert [len(rows) for rows in walk(api, {"page_size": 3}, "test.pages")] == [3, 3]
    response = api.query("test.pages", {"page_size": 4})
    assert response.json()["error"]["details"] == [
        {"name": "page_size", "reason": "is above the maximum", "maximum": "3"}
    ]


@pytest.mark.parametrize("arguments", [{"page_size": 10}, {"page_token": "x"}, {"page_size": "ten"}])
def test_an_endpoint_without_an_order_says_that_it_has_no_pages(api: ApiClient, arguments: dict[str, Any]) -> None:
    saved("")
    response = api.query("test.pages", arguments)
    assert refusal(response) == (400, "pages_not_available")
    assert "declares no order" in response.json()["error"]["message"]


@pytest.mark.parametrize("language", ["sql", "lql"])
def test_a_sandbox_query_has_no_pages(api: ApiClient, language: str) -> None:
    text = {"sql": "select id from edge_logs", "lql": "s:id"}[language]
    response = api.query("logs.all", {**ACME, language: text, "page_size": 10})
    assert refusal(response) == (400, "pages_not_available")
    assert f"`{language}`" in response.json()["error"]["message"]


def test_a_parameter_of_that_name_keeps_its_meaning_without_pages(api: ApiClient) -> None:
    sql = "SELECT @page_size AS size"
    save_endpoint(Endpoint(name="test.own", sql=sql), [DeclaredParameter("page_size")])
    assert api.query("test.own", {"page_size": "XL"}).json() == {"result": [{"size": "XL"}]}


def test_a_name_sent_twice_is_refused(api: ApiClient) -> None:
    response = api.get(f"{PATH}?project=acme&page_size=1&page_size=2")
    assert refusal(response) == (400, "invalid_request")


def test_an_order_that_does_not_tell_two_rows_apart_fails_instead_of_losing_one(
    api: ApiClient, insert_rows: Callable[..., None]
) -> None:
    sql = "SELECT timestamp, id FROM logs.edge_logs WHERE @least::int IS NULL"
    saved("timestamp", sql=sql)
    insert_rows("edge_logs", [{"id": str(n), "timestamp": MOMENT, "project": "acme"} for n in range(4)])
    assert refusal(api.query("test.pages", {"page_size": 2})) == (500, "stored_query_failed")
    assert len(page(api, {"page_size": 4}, "test.pages")["result"]) == 4


# --- Attacks ----------------------------------------------------------------------------------------------------------
def token_of(api: ApiClient, arguments: Mapping[str, Any], **headers: str) -> str:
    token = page(api, {**arguments, "page_size": 10}, **headers)["next"]
    assert isinstance(token, str)
    return token


def test_a_token_of_other_arguments_is_refused(api: ApiClient, stored: list[str]) -> None:
    token = token_of(api, ACME)
    for arguments in ({"project": "globex"}, {**ACME, "iso_timestamp_start": iso(MOMENT)}, {**ACME, "page_size": 5}):
        response = api.query("logs.all", {**arguments, "page_token": token})
        expected = (200, None) if "page_size" in arguments else (400, "invalid_page_token")
        assert (response.status_code, response.json().get("error", {}).get("code")) == expected


def test_a_token_opens_nothing_for_another_tenant(api: ApiClient, stored: list[str]) -> None:
    """An access token that is bound to a project can neither use the page token of another one nor leave its own."""
    globex = ApiClient(issue_access_token(name="globex", bound_arguments={"project": "globex"}).secret)
    token = token_of(api, ACME)
    assert refusal(globex.query("logs.all", {"page_token": token})) == (400, "invalid_page_token")
    assert refusal(globex.query("logs.all", {**ACME, "page_token": token})) == (403, "argument_not_allowed")
    own = token_of(globex, {})
    rows = page(globex, {"page_token": own})["result"]
    assert len(rows) == 10
    assert refusal(api.query("logs.all", {**ACME, "page_token": own})) == (400, "invalid_page_token")


def test_a_bound_argument_is_not_told_in_the_link(stored: list[str]) -> None:
    globex = ApiClient(issue_access_token(name="globex", bound_arguments={"project": "globex"}).secret)
    response = globex.query("logs.all", {"page_size": 10})
    assert re.fullmatch(r'<\?page_token=[A-Za-z0-9_-]+>; rel="next"', response["Link"])


def test_pages_see_the_rows_of_the_tenant_alone(api: ApiClient, insert_rows: Callable[..., None]) -> None:
    """Row security holds in pages too, whatever the WHERE of the stored query says."""
    sql = "SELECT id, timestamp, project FROM logs.edge_logs WHERE project = @project OR true LIMIT 1"
    endpoint = Endpoint(name="test.tenant", sql=sql, tenant_parameter="project", page_order="timestamp, id")
    save_endpoint(endpoint, [DeclaredParameter("project", required=True)])
    rows = [{"id": f"{p}{n}", "timestamp": MOMENT, "project": p} for n in range(5) for p in ("acme", "globex")]
    insert_rows("edge_logs", rows)
    shown = [row for rows in walk(api, {**ACME, "page_size": 2}, "test.tenant") for row in rows]
    assert [row["id"] for row in shown] == [f"acme{n}" for n in range(5)]


def test_a_token_of_another_endpoint_or_version_is_refused(api: ApiClient) -> None:
    endpoint = saved("token")
    saved("token", name="test.twin")
    token = page(api, {"page_size": 2}, "test.pages")["next"]
    assert refusal(api.query("test.twin", {"page_token": token})) == (400, "invalid_page_token")
    assert api.query("test.pages", {"page_token": token}).status_code == 200
    save_endpoint(endpoint, [LEAST])
    assert refusal(api.query("test.pages", {"page_token": token})) == (400, "invalid_page_token")


def test_redaction_cannot_be_left_half_way_and_the_token_shows_nothing(api: ApiClient) -> None:
    """The page token is encrypted: the address that the last row is ordered by is nowhere in the answer."""
    saved("label nulls first")
    on = {"SVC_ENDPOINT_REDACT_PII": "true"}
    redacted = page(api, {"page_size": 5}, "test.pages", **on)
    plain = page(api, {"page_size": 5}, "test.pages")
    assert refusal(api.query("test.pages", {"page_token": redacted["next"]})) == (400, "invalid_page_token")
    assert refusal(api.query("test.pages", {"page_token": plain["next"]}, **on)) == (400, "invalid_page_token")
    shown = [row["label"] for rows in walk(api, {"page_size": 1}, "test.pages", **on) for row in rows]
    assert "REDACTED" in shown
    for rows in walk(api, {"page_size": 1}, "test.pages", **on):
        assert "10.1.2.3" not in str(rows)


def test_what_an_operator_redacts_stays_redacted_on_every_page(api: ApiClient) -> None:
    saved("token", redact_pii=True)
    rows = [row for rows in walk(api, {"page_size": 1}, "test.pages", SVC_ENDPOINT_REDACT_PII="false") for row in rows]
    assert rows[-1]["label"] == "REDACTED"


@pytest.mark.parametrize("token", ["xyz", "' OR true --", "../..", "A" * 20_000, '{"after":["2025-01-01","0"]}', "ünï"])
def test_made_up_tokens_are_refused(api: ApiClient, token: str) -> None:
    response = api.query("logs.all", {**ACME, "page_token": token})
    assert refusal(response) == (400, "invalid_page_token")
    assert token not in response.content.decode()


def test_a_page_over_its_bytes_is_refused(api: ApiClient, stored: list[str], settings: Any) -> None:
    settings.ENDPOINTS_MAX_RESULT_BYTES = 5_000
    assert refusal(api.query("logs.all", {**ACME, "page_size": 250})) == (400, "result_too_large")
    assert len(page(api, {**ACME, "page_size": 5})["result"]) == 5


def test_each_page_counts_as_a_call(stored: list[str], settings: Any) -> None:
    settings.ENDPOINTS_RATE_LIMIT = Rate(calls=2, seconds=60)
    few = ApiClient(issue_access_token(name="few").secret)
    token = token_of(few, ACME)
    assert few.query("logs.all", {**ACME, "page_token": token}).status_code == 200
    assert refusal(few.query("logs.all", {**ACME, "page_token": token})) == (429, "rate_limited")


def test_an_access_token_of_other_endpoints_gets_no_page(api: ApiClient, stored: list[str]) -> None:
    token = token_of(api, ACME)
    elsewhere = ApiClient(issue_access_token(name="elsewhere", endpoint_names=["usage.api-counts"]).secret)
    assert refusal(elsewhere.query("logs.all", {**ACME, "page_token": token})) == (404, "endpoint_not_found")
