"""Calls of different projects at the same time, over one pool: nobody ever sees a row of somebody else.

ENDPOINTS_INTERLEAVED_CALLS sets how many; the long form is 10,000.
"""

from __future__ import annotations

import json
import os
import threading
from datetime import UTC, datetime
from random import Random

import pytest
from django.db import connection

from endpoints.access.secrets import NO_LIMIT, Caller, OwnLimits
from endpoints.calling.calls import run_endpoint
from endpoints.calling.query_requests import Call
from endpoints.errors import EndpointError, InvalidSQL, Overloaded, SandboxViolation

pytestmark = pytest.mark.django_db
CALLS = int(os.environ.get("ENDPOINTS_INTERLEAVED_CALLS", "1000"))
PROJECTS = [f"project-{number}" for number in range(8)]
ROWS_OF_EACH = 5
UNLIMITED = OwnLimits(calls_a_minute=NO_LIMIT, calls_at_once=NO_LIMIT, sandbox_queries_at_once=NO_LIMIT)
# What each query shows of a row is the row's project, in one column or the other.
QUERIES = [
    "",
    "select event_message from edge_logs",
    "select metadata->0->>'project_ref' as event_message from function_logs",
    "select e.event_message from edge_logs e join function_logs f on f.metadata->0->>'project_ref' = e.event_message",
    "select @project as event_message from edge_logs",
    "select event_message from edge_logs where event_message = @project order by random()",
]
FAILING = ["select event_message::int from edge_logs", "select 1 from pg_class", "select nothing from edge_logs"]


@pytest.fixture
def rows(insert_rows) -> None:
    now = datetime.now(UTC)
    for project in PROJECTS:
        row = {"timestamp": now, "event_message": project, "metadata": [{"project_ref": project}]}
        insert_rows("edge_logs", [{**row, "project": project}] * ROWS_OF_EACH)
        insert_rows("function_logs", [row] * ROWS_OF_EACH)


def one_call(project: str, random: Random) -> tuple[set[str], int]:
    """Return whose rows a random call of this project has shown, and how many calls were answered with rows."""
    caller = Caller(
        name=project, prefix="0", bound_arguments={"project": project}, limits=OwnLimits(NO_LIMIT, NO_LIMIT, NO_LIMIT)
    )
    named = {"project": project} if random.random() < 0.5 else {}
    failing = random.random() < 0.15
    call = Call(named, sandbox_sql=random.choice(FAILING if failing else QUERIES))
    try:
        result = json.loads(run_endpoint("logs.all", call=call, caller=caller).outcome.body)["result"]
    except Overloaded:
        return set(), 0
    except (InvalidSQL, SandboxViolation) as refusal:
        assert failing
        return {other for other in PROJECTS if other in json.dumps(refusal.body(""))}, 0
    assert not failing
    assert result
    return {row["event_message"] for row in result}, 1


def test_nobody_sees_a_row_of_another_project(rows) -> None:
    faults: list[object] = []
    answered = [0] * len(PROJECTS)

    def work(number: int) -> None:
        random, project = Random(number), PROJECTS[number]
        try:
            for _ in range(CALLS // len(PROJECTS)):
                shown, answers = one_call(project, random)
                answered[number] += answers
                if not shown <= {project}:
                    faults.append((project, shown))
        except (EndpointError, AssertionError) as fault:
            faults.append(repr(fault))
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(PROJECTS))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert sum(answered) > CALLS * 0.6
