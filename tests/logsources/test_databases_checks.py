from __future__ import annotations

import pytest
from django.core import checks
from django.db import connections

from logsources.databases import check_log_database

BOTH = ["default", "logs"]


@pytest.fixture
def place(settings, monkeypatch):
    """Change where the three URLs point to."""

    def change(*, gate=None, logs=None, default=None):
        settings.LOGS_GATE = {**settings.LOGS_GATE, **(gate or {})}
        for alias, values in (("logs", logs), ("default", default)):
            for name, value in (values or {}).items():
                monkeypatch.setitem(connections[alias].settings_dict, name, value)

    return change


def ids():
    return [message.id for message in check_log_database(databases=BOTH)]


def test_finds_no_fault_in_the_test_servers() -> None:
    assert ids() == []


def test_is_one_of_the_database_checks(place) -> None:
    place(gate={"user": connections["logs"].settings_dict["USER"]})
    assert "logsources.E002" in {message.id for message in checks.run_checks(databases=BOTH)}


@pytest.mark.parametrize("databases", [None, [], ["default"]])
def test_runs_for_the_log_database_alone(place, databases) -> None:
    place(gate={"user": ""})
    assert check_log_database(databases=databases) == []


def test_gate_must_have_a_name(place) -> None:
    place(gate={"user": ""})
    assert ids() == ["logsources.E001"]


def test_gate_must_not_be_the_owner(place) -> None:
    place(gate={"user": "somebody"}, logs={"USER": "somebody"})
    assert ids() == ["logsources.E002"]


def test_warns_of_a_gate_on_another_server(place) -> None:
    place(gate={"host": "logs.example.com"})
    assert ids() == ["logsources.W001"]


def test_default_port_is_a_port(place) -> None:
    place(gate={"port": ""}, logs={"PORT": "5432"})
    assert ids() == []


def test_warns_of_one_database_for_both(place) -> None:
    place(default=connections["logs"].settings_dict)
    assert ids() == ["logsources.W002"]
