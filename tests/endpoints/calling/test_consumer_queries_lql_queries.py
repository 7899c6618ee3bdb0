"""LQL through the service: one sandbox table, the endpoint's rules, refusals with their place in the text."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta

import pytest

from config import logs
from endpoints.calling.calls import run_endpoint
from endpoints.calling.query_requests import Call
from endpoints.defining.saving import save_endpoint
from endpoints.errors import InvalidLQL, InvalidParameters, RequestTooLarge, SandboxDisabled
from endpoints.log_database.publishing import drop_schemas, sandbox_schema
from endpoints.models import Endpoint
from tests.moments import now

Ask = Callable[..., list[dict[str, object]]]


@pytest.fixture
def ask(insert_rows) -> Ask:
    rows = [
        {"id": "new", "project": "acme", "timestamp": now(), "event_message": "GET | 500", "metadata": [{"n": 5}]},
        {"id": "old", "project": "acme", "timestamp": now() - timedelta(days=2), "metadata": [{"n": "x"}]},
        {"id": "other", "project": "globex", "timestamp": now(), "event_message": "GET | 500"},
    ]
    insert_rows("edge_logs", rows)
    insert_rows("auth_logs", [{"id": "auth", "project": "acme", "timestamp": now()}])

    def ask(lql: str, endpoint: str = "logs.all", **arguments: str) -> list[dict[str, object]]:
        call = Call({"project": "acme", **arguments}, sandbox_lql=lql)
        rows: list[dict[str, object]] = json.loads(run_endpoint(endpoint, call=call).outcome.body)["result"]
        return rows

    return ask


def ids(rows: list[dict[str, object]]) -> list[object]:
    return [row["id"] for row in rows]


def test_reads_the_default_sandbox_table_newest_first(ask: Ask) -> None:
    assert ids(ask("-none")) == ["new", "old"]
    assert list(ask("-none")[0]) == ["timestamp", "id", "event_message", "metadata"]


@pytest.mark.parametrize(("chart_column", "name"), [("aggregate", "max"), ("count", "count")])
def test_a_chart_names_its_values_as_the_endpoint_says(ask: Ask, chart_column: str, name: str) -> None:
    stored = Endpoint.objects.get(name="logs.all")
    parameters = [one.declared() for one in stored.parameters.all()]
    fields = ("sql", "tenant_parameter", "sandboxing", "default_sandbox_table")
    own = Endpoint(name="test.charts", **{field: getattr(stored, field) for field in fields})
    own.lql_chart_column = chart_column
    saved = save_endpoint(own, parameters)
    try:
        (bucket,) = ask("id:new c:max(m.n) c:group_by(t::day)", endpoint="test.charts")
        assert (list(bucket), bucket[name]) == (["timestamp", name], 5)
    finally:
        drop_schemas([sandbox_schema(saved)])


def test_reads_the_table_it_names(ask: Ask) -> None:
    assert ids(ask("f:auth_logs")) == ["auth"]


def test_sees_only_the_rows_of_the_call(ask: Ask) -> None:
    assert ids(ask("500")) == ["new"]
    assert ids(ask("500", project="globex")) == ["other"]
    assert ids(ask("-none", iso_timestamp_end=(now() - timedelta(days=1)).isoformat())) == ["old"]


def test_counts_relative_times_from_the_call(ask: Ask) -> None:
    assert ids(ask("t:last@1day")) in (["new"], [])  # [] in the second in which the row was made
    assert ids(ask("-t:last@1day")) == ["new", "old"][-len(ask("-t:last@1day")) :]


def test_a_value_that_is_no_number_fails_nothing(ask: Ask) -> None:
    assert ids(ask("m.n:>=5")) == ["new"]
    assert ids(ask("-m.n:>=5")) == ["old"]


def test_lists_the_tables_where_none_is_chosen(ask: Ask) -> None:
    with pytest.raises(InvalidLQL, match=r"dates.*chart_counts"):
        ask("t:today", endpoint="usage.api-counts", interval="daily")
    assert ask("f:chart_counts c:count(*)", endpoint="usage.api-counts", interval="daily", project=".") == []


def test_names_the_tables_for_one_that_is_not_there(ask: Ask) -> None:
    with pytest.raises(InvalidLQL) as refusal:
        ask("m.level:error\n f:edge_log")
    detail = refusal.value.details[0]
    assert (detail["line"], detail["column"]) == (2, 2)
    assert "edge_logs" in refusal.value.message


def test_says_which_pattern_is_no_regular_expression(ask: Ask) -> None:
    with pytest.raises(InvalidLQL, match="regular expression") as refusal:
        ask('m.n:~"^5" m.host:~"a(b"')
    assert (refusal.value.details[0]["column"], refusal.value.details[0]["found"]) == (11, "a(b")


def test_an_invalid_pattern_is_told_over_an_empty_table_too(ask: Ask) -> None:
    with pytest.raises(InvalidLQL, match="regular expression"):
        ask('f:pooler_logs ~"("')


def test_blames_the_argument_for_a_pattern_of_its_own(ask: Ask) -> None:
    with pytest.raises(InvalidParameters):
        ask("f:chart_counts", endpoint="usage.api-counts", interval="daily", project="(")


def test_the_canonical_form_stands_in_the_log_context(ask: Ask) -> None:
    ask("  metadata.level:error   timestamp:last@2hours ")
    assert logs.bound()["lql"] == "m.level:error t:last@2hour"


def test_a_text_over_the_limit_is_too_large(ask: Ask, settings) -> None:
    settings.ENDPOINTS_SANDBOX_MAX_SQL_BYTES = 20
    assert ask('id:"' + "a" * 14 + '"') == []
    with pytest.raises(RequestTooLarge):
        ask('id:"' + "a" * 16 + '"')


def test_an_endpoint_without_sandboxing_takes_none(ask: Ask) -> None:
    Endpoint.objects.filter(name="logs.all").update(sandboxing=False)
    with pytest.raises(SandboxDisabled):
        ask("error")


def test_a_lost_schema_is_published_again(ask: Ask) -> None:
    drop_schemas([sandbox_schema(Endpoint.objects.get(name="logs.all"))])
    assert ids(ask("500")) == ["new"]


def test_a_result_over_its_byte_budget_is_refused(ask: Ask, settings) -> None:
    settings.ENDPOINTS_SANDBOX_MAX_BYTES = 10
    with pytest.raises(InvalidLQL, match="larger than"):
        ask("500")
