"""A CTE's own conditions are a wall too: no failing condition of a reader tells of rows that the CTE leaves out.

Rows of another area and of before the time window stand in the same project. Each attack asks whether a row's text
begins as guessed, by failing or by counting; right and wrong guesses about hidden rows must have the same outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from endpoints.access.access_tokens import issue_access_token
from endpoints.calling.prepared_queries import sandbox_session
from endpoints.defining.saving import save_endpoint
from endpoints.log_database.execution import StatementFailed, run_statement
from endpoints.log_database.publishing import drop_schemas, published_schemas, sandbox_schema
from endpoints.models import Endpoint
from endpoints.results.outcomes import Statement
from endpoints.sql.parameters import DeclaredParameter, ParameterType
from tests.conftest import ApiClient

pytestmark = [pytest.mark.django_db, pytest.mark.sql]

NOW = datetime(2025, 6, 2, 12, tzinfo=UTC)
ARGUMENTS = {"project": "acme", "area": "north", "since": "2025-06-01T00:00:00+00:00"}
# Dearer than any attack: PostgreSQL then tries the attack first, where nothing keeps it from doing so.
AREA = "upper(lower(upper(lower(upper(lower(metadata -> 0 ->> 'area')))))) = upper(@area)"
CTES = {
    "newest first": f"select * from edge_logs where project = @project and {AREA} order by timestamp desc",
    "in no order": f"select * from edge_logs where project = @project and {AREA}",
    "in a subquery": f"select * from (select * from edge_logs where {AREA} offset 0) as x",
    "in one of two branches": (
        f"select id, event_message from edge_logs where {AREA} union all"
        f" select id, event_message from auth_logs where {AREA}"
    ),
    "in branches in brackets": (
        f"(select id, event_message from edge_logs where {AREA} union all select id, event_message from auth_logs"
        " where false)"
    ),
    "through a join": (f"select e.* from edge_logs as e join (values (1), (2)) as v (n) on v.n = 1 and {AREA}"),
    "with an expensive window": f"select * from edge_logs where {AREA} and timestamp::text > @since::text",
    "as a semijoin": (
        "select * from edge_logs as e where exists (select from edge_logs as f where f.id = e.id"
        " and f.metadata -> 0 ->> 'area' = @area)"
    ),
}
# {} is a guess at the beginning of event_message.
ATTACKS = [
    "select count(*) from a where case when event_message like '{}%' then 1 / (length(event_message) - 7) end = 1",
    "select count(*) from a where case when starts_with(event_message, '{}') then event_message::int end = 1",
    "select id from a where case when event_message ~ '^{}' then event_message::jsonb end is not null",
    "select id from a where case when event_message like '{}%' then 'x' ~ (event_message || '(') end",
    "select count(*) from a where (case when event_message >= '{}' then '0' else '1' end)::int / 0 = 1",
    "select id from a where case when event_message like '{}%' then 'xy' like left(event_message, 0) || 'x\\' end",
    "select count(*) from a as x join a as y on case when x.event_message like '{}%' then x.event_message::int end = 1",
    "select max(n) from (select case when event_message like '{}%' then event_message::int end as n from a) as b",
    "select count(*) from a where (select case when event_message like '{}%' then event_message::int end) = 1",
    "select (select count(*) from a where case when event_message like '{}%' then event_message::int end = 1)",
    "select y from a, lateral (select case when event_message like '{}%' then 1 / (length(event_message) - 7) end) y",
    "select count(*) from (select event_message as m from a union all select event_message from a) as b"
    " where case when m like '{}%' then m::int end = 1",
    "select event_message from a group by event_message"
    " having case when event_message like '{}%' then event_message::int end = 1",
]
HIDDEN, GUESSES = "garnet7", ("g", "q")

Save = Callable[..., Endpoint]


@pytest.fixture
def stored(log_database: Any) -> Iterator[Save]:
    """Save an endpoint whose CTE `a` is this query; its schemas go with the test."""
    saved: list[Endpoint] = []

    def save(cte: str, *, tenant: bool = True) -> Endpoint:
        endpoint = Endpoint(
            name=f"test.hidden-{len(saved)}",
            sql=f"with a as ({cte}) select @project, @area, @since, count(*) from a",
            tenant_parameter="project" if tenant else "",
            sandboxing=True,
        )
        saved.append(endpoint)
        return save_endpoint(
            endpoint,
            [
                DeclaredParameter("project", required=True),
                DeclaredParameter("area", required=True),
                DeclaredParameter("since", type=ParameterType.TIMESTAMP),
            ],
        )

    yield save
    ids = {endpoint.pk for endpoint in saved}
    drop_schemas(schema.name for schema in published_schemas() if schema.endpoint_id in ids)


@pytest.fixture
def rows(insert_rows: Any) -> None:
    """Two visible rows, which no guess matches, and a hidden one in another area, in each of two tables."""
    for table in ("edge_logs", "auth_logs"):
        insert_rows(table, [row("shown", "north"), row("shown", "north"), row(HIDDEN, "south")])


def row(message: str, area: str, moment: datetime = NOW) -> dict[str, Any]:
    return {"project": "acme", "timestamp": moment, "event_message": message, "metadata": [{"area": area}]}


def outcome(endpoint: Endpoint, sql: str) -> object:
    """Return everything that a consumer of this text could see: rows, or what failed."""
    session = sandbox_session(endpoint, sandbox_schema(endpoint), ARGUMENTS)
    try:
        return list(run_statement(Statement(sql), session, max_rows=100).rows)
    except StatementFailed as failure:
        return failure.sqlstate, failure.primary_message


@pytest.mark.parametrize("tenant", [True, False], ids=["tenant", "every project"])
@pytest.mark.parametrize("cte", CTES.values(), ids=CTES)
def test_no_guess_about_a_hidden_row_has_an_outcome_of_its_own(
    stored: Save, rows: None, cte: str, tenant: bool
) -> None:
    endpoint = stored(cte, tenant=tenant)
    seen = [[outcome(endpoint, attack.format(guess)) for guess in GUESSES] for attack in ATTACKS]
    assert [attack for attack, (right, wrong) in zip(ATTACKS, seen, strict=True) if right != wrong] == []
    assert HIDDEN not in repr(seen)


@pytest.mark.parametrize("attack", [attack for attack in ATTACKS if ">=" not in attack])
def test_each_attack_tells_of_rows_that_are_shown(stored: Save, insert_rows: Any, attack: str) -> None:
    endpoint = stored(CTES["newest first"])
    insert_rows("edge_logs", [row(HIDDEN, "north")])
    right, wrong = (outcome(endpoint, attack.format(guess)) for guess in GUESSES)
    assert right != wrong


def test_rows_before_the_time_window_stay_hidden_without_a_barrier(stored: Save, insert_rows: Any) -> None:
    insert_rows("edge_logs", [row("shown", "north"), row(HIDDEN, "north", datetime(2025, 5, 1, tzinfo=UTC))])
    endpoint = stored("select * from edge_logs where project = @project and timestamp > coalesce(@since, '-infinity')")
    for attack in ATTACKS:
        right, wrong = (outcome(endpoint, attack.format(guess)) for guess in GUESSES)
        assert right == wrong, attack


def test_an_access_token_bound_to_an_area_learns_nothing_of_another(stored: Save, rows: None) -> None:
    endpoint = stored(CTES["newest first"])
    caller = ApiClient(issue_access_token(name="north", bound_arguments={"project": "acme", "area": "north"}).secret)
    sql = "select count(*) from a where case when event_message like '{}%' then event_message::int end = 1"
    right, wrong = (caller.query(endpoint.name, {"sql": sql.format(guess)}) for guess in GUESSES)
    assert (right.status_code, wrong.status_code) == (200, 200)
    assert right.json() == wrong.json() == {"result": [{"count": 0}]}
