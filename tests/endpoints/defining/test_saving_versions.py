"""Versions: what changed between two of them, and one put back through the checks of every save."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from django.core.exceptions import ValidationError

from endpoints.calling.calls import run_endpoint
from endpoints.calling.query_requests import Call
from endpoints.defining.differences import Change, Run
from endpoints.defining.saving import compare_versions, restore_version, save_endpoint
from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter, ParameterType
from logsources.databases import owner_connection

pytestmark = pytest.mark.django_db
PROJECT = DeclaredParameter("project", required=True)
LEVEL = DeclaredParameter("level", type=ParameterType.INTEGER, default="5")


@pytest.fixture
def endpoint(db: None) -> Endpoint:
    """Two versions."""
    saved = save_endpoint(
        Endpoint(
            name="test.versions", sql="SELECT @project AS project,\n  @level AS level", tenant_parameter="project"
        ),
        [PROJECT, LEVEL],
    )
    saved.sql, saved.max_rows, saved.tenant_parameter, saved.name = "SELECT 'b' AS other", 7, "", "test.renamed"
    return save_endpoint(saved, [])


def recorded(endpoint: Endpoint, version: int) -> Endpoint:
    record: Endpoint = endpoint.history.get(version=version)
    return record


def shown(before: object, after: object) -> dict[str, list[tuple[str, str]]]:
    difference = compare_versions(before, after)
    return {one.label: [(run.change.value, run.text) for run in one.runs] for one in difference.settings}


def test_tells_every_setting_and_parameter_that_changed(endpoint: Endpoint) -> None:
    told = shown(recorded(endpoint, 1), recorded(endpoint, 2))
    assert list(told) == [
        "name", "tenant parameter", "max rows", "parameter @project", "parameter @level", "result columns",
    ]  # fmt: skip
    assert told["max rows"] == [("removed", "1000"), ("added", "7")]
    assert told["parameter @project"] == [("removed", "text, required")]
    assert told["parameter @level"] == [("removed", "integer, default 5")]


def test_tells_the_sql_line_by_line(endpoint: Endpoint) -> None:
    lines = compare_versions(recorded(endpoint, 1), endpoint).sql
    assert [line.change for line in lines] == [Change.REMOVED, Change.REMOVED, Change.ADDED]
    assert lines[2].runs[0] == Run(Change.EQUAL, "SELECT ")


def test_a_new_order_of_parameters_is_a_change(endpoint: Endpoint) -> None:
    endpoint.sql = "SELECT @project AS project, @level AS level"
    save_endpoint(endpoint, [PROJECT, LEVEL])
    save_endpoint(endpoint, [LEVEL, PROJECT])
    told = shown(recorded(endpoint, 3), recorded(endpoint, 4))
    assert list(told) == ["order of parameters"]


def test_equal_versions_differ_in_nothing(endpoint: Endpoint) -> None:
    assert compare_versions(recorded(endpoint, 2), endpoint).is_empty


def test_restores_everything_but_the_name_as_a_new_version(endpoint: Endpoint) -> None:
    first = recorded(endpoint, 1)
    restored = restore_version(endpoint, first)
    assert (restored.version, restored.name, restored.history.count()) == (3, "test.renamed", 3)
    kept = Endpoint.objects.get(pk=endpoint.pk)
    told = compare_versions(first, kept)
    assert [one.label for one in told.settings] == ["name"]
    assert told.sql == ()
    assert (kept.declared_parameters, kept.result_columns) == (first.declared_parameters, first.result_columns)
    assert [parameter.declared() for parameter in kept.parameters.all()] == [PROJECT, LEVEL]
    assert run_endpoint("test.renamed", call=Call({"project": "a"})).outcome.row_count == 1
    assert recorded(endpoint, 3).history_change_reason == "restored from version 1"


def test_a_parameter_that_was_never_declared_is_restored_too(endpoint: Endpoint) -> None:
    endpoint.sql = "SELECT @free AS free"
    save_endpoint(endpoint, [])
    endpoint.sql = "SELECT 1 AS one"
    save_endpoint(endpoint, [])
    restored = restore_version(endpoint, recorded(endpoint, 3))
    assert restored.parameters_of_version == (DeclaredParameter("free"),)


def test_the_newest_version_cannot_be_restored(endpoint: Endpoint) -> None:
    with pytest.raises(ValidationError, match="Version 2 is the latest already"):
        restore_version(endpoint, recorded(endpoint, 2))


def test_a_version_of_another_endpoint_cannot_be_restored(endpoint: Endpoint) -> None:
    other = save_endpoint(Endpoint(name="test.other", sql="SELECT 1 AS one"), [])
    with pytest.raises(ValidationError, match="belongs to another endpoint"):
        restore_version(endpoint, recorded(other, 1))
    assert Endpoint.objects.get(pk=endpoint.pk).version == 2


@pytest.fixture
def passing_table(log_database: psycopg.Connection[object]) -> Iterator[str]:
    """A table that the reader may read, for as long as a test."""
    with owner_connection() as connection:
        connection.execute("CREATE TABLE logs.passing_table AS SELECT 1 AS one")
        connection.execute("GRANT SELECT ON logs.passing_table TO query_reader")
    yield "logs.passing_table"
    with owner_connection() as connection:
        connection.execute("DROP TABLE IF EXISTS logs.passing_table")


def test_sql_that_no_longer_prepares_is_refused_and_nothing_saved(passing_table: str) -> None:
    endpoint = save_endpoint(Endpoint(name="test.passing", sql=f"SELECT one FROM {passing_table}"), [])
    endpoint.sql = "SELECT 1 AS one"
    save_endpoint(endpoint, [])
    with owner_connection() as connection:
        connection.execute(f"DROP TABLE {passing_table}")
    with pytest.raises(ValidationError, match=r"relation .logs\.passing_table. does not exist"):
        restore_version(endpoint, recorded(endpoint, 1))
    kept = Endpoint.objects.get(pk=endpoint.pk)
    assert (kept.version, kept.sql, kept.history.count()) == (2, "SELECT 1 AS one", 2)
