"""The gate's start-up options: the service's own are always there, and nothing in the URL takes one away."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from psycopg import sql

from config.setting_values import GATE_OPTIONS, with_gate_options
from tests.config.test_settings import URLS, load_settings

OWN = (
    "-c TimeZone=UTC -c DateStyle=ISO -c IntervalStyle=postgres -c bytea_output=hex -c default_transaction_read_only=on"
)


@pytest.mark.parametrize("given", [{}, {"options": ""}, {"options": "  "}])
def test_without_options_of_the_url_they_are_the_services_own(given: dict[str, Any]) -> None:
    assert with_gate_options({"user": "gate", **given}) == {"user": "gate", "options": OWN}


@pytest.mark.parametrize(
    "options",
    [
        "-c work_mem=8MB",
        "-cwork_mem=8MB --jit=off",
        "--work-mem=8MB",
        r"-c application_name=two\ words",
        "-c timezone=utc",
        "-c default_transaction_read_only=on",
    ],
)
def test_options_of_the_url_stand_before_them(options: str) -> None:
    assert with_gate_options({"options": options})["options"] == f"{options} {OWN}"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("-c default_transaction_read_only=off", "default_transaction_read_only to 'off'"),
        ("--default-transaction-read-only=off", "default_transaction_read_only to 'off'"),
        ("-c work_mem=8MB -c TIMEZONE=Europe/Zurich", "TIMEZONE to 'Europe/Zurich'"),
        (r"-cbytea_output=esc\ape", "bytea_output to 'escape'"),
        ("-c", "cannot be read at '-c'"),
        ("-c jit", "cannot be read at '-c'"),
        ("work_mem=8MB", "cannot be read at 'work_mem=8MB'"),
        ("-B 16", "cannot be read at '-B'"),
    ],
)
def test_what_takes_one_away_or_cannot_be_read_is_an_error(options: str, reason: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"LOGS_GATE_URL: options=") as raised:
        with_gate_options({"options": options})
    assert reason in str(raised.value)


def test_the_service_does_not_start_with_options_that_conflict() -> None:
    urls = {**URLS, "LOGS_GATE_URL": URLS["LOGS_GATE_URL"] + "?options=-c%20TimeZone%3DCET"}
    loaded = load_settings("s.LOGS_GATE", SECRET_KEY="x" * 50, **urls)
    assert loaded.returncode != 0
    assert "options= sets TimeZone to 'CET', but the service needs 'UTC'" in loaded.stderr


@pytest.mark.django_db
def test_postgresql_takes_both(settings: Any) -> None:
    parameters = {**settings.LOGS_GATE, "dbname": connections["logs"].settings_dict["NAME"]}
    parameters = with_gate_options({**parameters, "options": r"-c application_name=two\ words -c jit=off"})
    with psycopg.connect(**parameters) as connection:
        for name, value in {**GATE_OPTIONS, "application_name": "two words", "jit": "off"}.items():
            (found,) = connection.execute(sql.SQL("SHOW {}").format(sql.Identifier(name))).fetchone() or ("",)
            assert found.startswith(value), name
