"""`?format=csv`: the format by its short name, for browsers; before Accept, behind an endpoint's own parameter."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pyarrow.parquet
import pytest

from endpoints.access.access_tokens import issue_access_token
from endpoints.api import negotiation
from endpoints.defining.saving import save_endpoint
from endpoints.models import Endpoint
from endpoints.results.outcomes import ResultFormat
from endpoints.sql.parameters import DeclaredParameter
from tests.conftest import ApiClient

pytestmark = pytest.mark.django_db
NAME = "errors.by-path"
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
FORMATS = ("json", "csv", "ndjson", "parquet", "arrow")


@pytest.fixture(autouse=True)
def endpoint(db: None) -> Endpoint:
    return save_endpoint(Endpoint(name=NAME, sql="SELECT n, @word AS word FROM generate_series(1, 3) AS n"), [])


def details(answer: Any) -> dict[str, Any]:
    assert answer.status_code == 400, answer.content
    assert answer.json()["error"]["code"] == "invalid_parameters"
    (detail,) = answer.json()["error"]["details"]
    return dict(detail)


@pytest.mark.parametrize("name", FORMATS)
def test_gives_the_bytes_that_accept_gives_as_a_file(api: ApiClient, name: str) -> None:
    accepted = api.query(NAME, {"word": "a"}, accept=ResultFormat[name.upper()].value)
    named = api.query(NAME, {"word": "a", "format": name}, accept=BROWSER)
    assert (named.status_code, named.content) == (200, accepted.content)
    for header in ("Content-Type", "ETag", "X-Result-Rows", "Vary"):
        assert named[header] == accepted[header]
    assert named["Content-Disposition"] == f'attachment; filename="{NAME}.{name}"'
    assert "Content-Disposition" not in accepted
    assert "X-Ignored-Arguments" not in named


@pytest.mark.parametrize("accept", ["application/json", "image/png", "*/*;q=0", "text/csv;q=0"])
@pytest.mark.parametrize("written", ["csv", "CSV", " Csv "])
def test_wins_over_accept(api: ApiClient, accept: str, written: str) -> None:
    answer = api.query(NAME, {"format": written}, accept=accept)
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert answer.content == b"n,word\r\n1,\r\n2,\r\n3,\r\n"


def test_comes_from_a_body_too_and_the_query_string_wins(api: ApiClient) -> None:
    path, body = f"/api/endpoints/query/{NAME}", json.dumps({"format": "csv"})
    sent = api.post(path, body, content_type="application/json")
    assert sent["Content-Disposition"].endswith('.csv"')
    both = api.post(f"{path}?format=ndjson", body, content_type="application/json")
    assert both["Content-Disposition"].endswith('.ndjson"')


@pytest.mark.parametrize("query", ["xml", "text/csv", "cs", "7", "csv%0D%0AX-Evil:%201", "%C3%AF", "csv&format=json"])
def test_what_names_no_format_is_ignored_like_any_name_without_a_parameter(api: ApiClient, query: str) -> None:
    answer = api.get(f"/api/endpoints/query/{NAME}?word=a&format={query}")
    assert (answer.status_code, answer["Content-Type"]) == (200, "application/json; charset=utf-8")
    assert answer["X-Ignored-Arguments"] == "format"
    assert "Content-Disposition" not in answer
    refused = api.get(f"/api/endpoints/query/{NAME}?word=a&format={query}", headers={"Accept": "image/png"})
    assert refused.status_code == 406


def test_a_format_whose_library_is_missing_says_what_is_missing(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    offered = tuple(ResultFormat[name.upper()] for name in FORMATS[:3])
    monkeypatch.setattr(negotiation, "OFFERED", offered)
    detail = details(api.query(NAME, {"format": "parquet"}))
    assert detail["reason"] == "needs the extra [arrow], which this service lacks"
    assert detail["allowed_values"] == [*FORMATS[:3]]


@pytest.mark.parametrize("sent", ["", " "])
def test_an_empty_one_is_absent(api: ApiClient, sent: str) -> None:
    answer = api.query(NAME, {"format": sent}, accept="text/csv")
    assert answer["Content-Type"].startswith("text/csv")
    assert "Content-Disposition" not in answer
    assert api.query(NAME, {"format": sent}, accept="image/png").status_code == 406


# --- An endpoint's own parameter --------------------------------------------------------------------------------------
@pytest.mark.parametrize("declared", [True, False], ids=["declared", "named by the SQL alone"])
def test_an_endpoints_own_parameter_of_that_name_comes_first(api: ApiClient, *, declared: bool) -> None:
    parameters = [DeclaredParameter("format", allowed_values=("short", "csv"))] if declared else []
    save_endpoint(Endpoint(name="own.format", sql="SELECT @format AS format"), parameters)
    answer = api.query("own.format", {"format": "csv"})
    assert answer.json() == {"result": [{"format": "csv"}]}
    assert "Content-Disposition" not in answer
    as_csv = api.query("own.format", {"format": "short"}, accept="text/csv")
    assert as_csv.content == b"format\r\nshort\r\n"
    assert api.query("own.format", {"format": "csv"}, accept="image/png").status_code == 406


def test_an_access_token_bound_to_it_gets_what_it_is_bound_to() -> None:
    save_endpoint(Endpoint(name="own.format", sql="SELECT @format AS format"), [DeclaredParameter("format")])
    bound = ApiClient(issue_access_token(name="bound", bound_arguments={"format": "short"}).secret)
    assert bound.query("own.format").json() == {"result": [{"format": "short"}]}
    assert bound.query("own.format", {"format": "csv"}).status_code == 403
    assert bound.query(NAME, {"format": "csv"}).status_code == 404, "it lacks the parameter"


# --- What every call keeps to -----------------------------------------------------------------------------------------
def test_who_may_not_call_is_told_nothing_of_formats() -> None:
    limited = ApiClient(issue_access_token(name="limited", endpoint_names=["logs.all"]).secret)
    answer = limited.query(NAME, {"format": "xml"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "endpoint_not_found")


@pytest.mark.parametrize("name", FORMATS[:3])
def test_tenant_bound_arguments_and_redaction_hold(insert_rows: Callable[..., None], name: str) -> None:
    row = {"timestamp": "2026-11-23T00:00:00Z", "event_message": "from 192.0.2.7"}
    insert_rows("edge_logs", [{**row, "project": "acme", "id": "ours"}, {**row, "project": "globex", "id": "theirs"}])
    bound = ApiClient(issue_access_token(name="bound", bound_arguments={"project": "acme"}).secret)
    answer = bound.query("logs.all", {"format": name}, svc_endpoint_redact_pii="true")
    assert answer["X-Result-Rows"] == "1"
    assert b"ours" in answer.content
    assert not [word for word in (b"theirs", b"192.0.2.7") if word in answer.content]
    assert bound.query("logs.all", {"format": name, "project": "globex"}).status_code == 403


def test_a_sandbox_query_and_a_stream_are_files_too(api: ApiClient, log_database: Any) -> None:
    sql = "select count(*) as n from edge_logs"
    answer = api.query("logs.all", {"project": "acme", "sql": sql, "format": "parquet"})
    assert pyarrow.parquet.read_table(io.BytesIO(answer.content)).to_pylist() == [{"n": 0}]
    save_endpoint(Endpoint(name="streamed", sql="SELECT n FROM generate_series(1, 9) AS n", stream_rows=100), [])
    stream = api.query("streamed", {"format": "ndjson", "formt": "csv"})
    assert stream["Content-Disposition"] == 'attachment; filename="streamed.ndjson"'
    assert stream["X-Ignored-Arguments"] == "formt"
    assert b'{"end":{"rows":9' in b"".join(stream)


def test_the_next_page_has_the_same_format(api: ApiClient) -> None:
    sql = "SELECT n FROM generate_series(1, 3) AS n"
    save_endpoint(Endpoint(name="paged", sql=sql, page_order="n"), [])
    first = api.query("paged", {"page_size": 2, "format": "CSV"})
    assert first.content == b"n\r\n1\r\n2\r\n"
    address = first["Link"].partition(">")[0].removeprefix("<")
    assert address.startswith("?format=csv&")
    second = api.get(f"/api/endpoints/query/paged{address}")
    assert (second.content, second["Content-Disposition"]) == (b"n\r\n3\r\n", 'attachment; filename="paged.csv"')


def test_a_tail_is_json_alone(api: ApiClient) -> None:
    sent = {"project": "acme", "lql": "s:event_message", "tail": "true", "format": "csv"}
    assert api.query("logs.all", sent).status_code == 406


def test_a_cached_result_is_not_of_another_format(api: ApiClient) -> None:
    save_endpoint(Endpoint(name="cached", sql="SELECT 7 AS n", cache_seconds=60), [])
    answers = [api.query("cached", {"format": name}) for name in ("csv", "json", "csv", "ndjson")]
    assert [each["X-Cache"] for each in answers] == ["miss", "miss", "hit", "miss"]
    plain = api.query("cached")
    assert (plain["X-Cache"], "Content-Disposition" in plain) == ("hit", False), "one entry with the file"
    assert plain.content == answers[1].content
