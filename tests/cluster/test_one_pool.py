"""Calls of several projects on the same connections of a cluster: nothing that one call leaves serves another."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from endpoints.defining.saving import save_endpoint
from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter, ParameterType
from tests.conftest import ApiClient

pytestmark = pytest.mark.django_db
PROJECTS = [f"project-{number}" for number in range(12)]  # of several shards
SQL = """
WITH mine AS (SELECT id, project, event_message FROM edge_logs WHERE project = @project AND timestamp > @since)
SELECT id, project FROM mine ORDER BY id LIMIT 10"""
TEXTS = (
    {},
    {"sql": "SELECT id, project FROM mine ORDER BY id"},
    {"sql": "SELECT id, max(project) AS project FROM mine WHERE event_message LIKE 'x%' GROUP BY 1 ORDER BY 1"},
    {"lql": "f:mine s:id s:project"},
)


@pytest.fixture
def endpoint(insert_rows: Callable[..., None]) -> Endpoint:
    now = datetime.now(UTC)
    for project in PROJECTS:
        rows = [
            {"id": f"{project}.{n}", "project": project, "timestamp": now, "event_message": f"x {n}"} for n in range(3)
        ]
        insert_rows("rest_logs", rows)
        insert_rows("edge_logs", rows)
    made = Endpoint(name="mine", sql=SQL, sandboxing=True, cache_seconds=0, tenant_parameter="project")
    return save_endpoint(
        made,
        [
            DeclaredParameter("project", ParameterType.TEXT, required=True),
            DeclaredParameter("since", ParameterType.TIMESTAMP, default="2020-01-01"),
        ],
    )


def test_each_call_gets_the_rows_of_its_own_project(endpoint: Endpoint, api: ApiClient) -> None:
    chance = random.Random(1)
    for number in range(240):
        project, text = chance.choice(PROJECTS), TEXTS[number % len(TEXTS)]
        response = api.query("mine", {"project": project, **text})
        assert response.status_code == 200, response.content
        rows = response.json()["result"]
        assert sorted(row["id"] for row in rows) == [f"{project}.{n}" for n in range(3)], (project, text)
        assert {row["project"] for row in rows} == {project}
