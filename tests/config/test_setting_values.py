"""The gate's start-up options: the service's own are always there, and nothing in the URL takes one away."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import psycopg
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from psycopg import sql
from psycopg.conninfo import make_conninfo

from config import setting_values
from config.setting_values import (
    GATE_OPTIONS,
    check_servers,
    each_server,
    on_primary,
    read_roles,
    with_gate_options,
)
from logsources.roles import QUERY_READER
from tests.config.test_settings import URLS, load_settings
from tests.live.calls import until

OWN = (
    "-c TimeZone=UTC -c DateStyle=ISO -c IntervalStyle=postgres -c bytea_output=hex -c default_transaction_read_only=on"
    " -c client_connection_check_interval=2s"
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


def test_postgresql_stops_what_a_killed_process_ran(settings: Any, superuser: psycopg.Connection[Any]) -> None:
    gate = make_conninfo(**{**settings.LOGS_GATE, "dbname": connections["logs"].settings_dict["NAME"]})
    series = "generate_series(1, 200000)"
    count = f"SELECT count(*) AS of_a_killed_process FROM {series} AS a, {series} AS b"
    busy = f"SET statement_timeout = 0; SET ROLE {QUERY_READER}; {count}"
    running = "SELECT FROM pg_stat_activity WHERE state = 'active' AND query = %s"
    program = "import psycopg, sys; psycopg.connect(sys.argv[1]).execute(sys.argv[2])"
    with subprocess.Popen([sys.executable, "-c", program, gate, busy]) as process:
        until(lambda: bool(superuser.execute(running, [busy]).fetchall()), seconds=60)
        process.kill()
    until(lambda: not superuser.execute(running, [busy]).fetchall(), seconds=60)


# --- Several servers --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("parameters", "servers"),
    [
        ({}, [{}]),
        ({"host": "db"}, [{"host": "db"}]),
        ({"host": "a,b"}, [{"host": "a"}, {"host": "b"}]),
        ({"host": "a,b", "port": "5433"}, [{"host": "a", "port": "5433"}, {"host": "b", "port": "5433"}]),
        ({"host": "a,b", "port": "1,2"}, [{"host": "a", "port": "1"}, {"host": "b", "port": "2"}]),
        ({"hostaddr": "::1,::2"}, [{"hostaddr": "::1"}, {"hostaddr": "::2"}]),
        (
            {"host": "a,b", "hostaddr": "::1,::2"},
            [{"host": "a", "hostaddr": "::1"}, {"host": "b", "hostaddr": "::2"}],
        ),
    ],
)
def test_each_host_is_a_server(parameters: dict[str, Any], servers: list[dict[str, Any]]) -> None:
    login = {"user": "gate", "dbname": "logs"}
    assert each_server({**login, **parameters}) == [{**login, **server} for server in servers]


def test_of_several_hosts_the_primary_is_reached_and_one_host_is_left_as_it_is() -> None:
    several = {"host": "a,b", "target_session_attrs": "prefer-standby"}
    assert on_primary(several) == {"host": "a,b", "target_session_attrs": "primary"}
    assert on_primary({"host": "standby"}) == {"host": "standby"}


@pytest.mark.parametrize("attributes", ["prefer-standby", "primary", "read-write"])
def test_several_hosts_say_which_is_meant(attributes: str) -> None:
    check_servers({"host": "a,b", "target_session_attrs": attributes}, setting="LOGS_GATE_URL", may_prefer=True)
    check_servers({"host": "a"}, setting="LOGS_GATE_URL", may_prefer=False)


@pytest.mark.parametrize(
    ("parameters", "may_prefer", "reason"),
    [
        ({"host": "a,b"}, True, "add target_session_attrs=prefer-standby, or another one of"),
        ({"host": "a,b", "target_session_attrs": "any"}, True, "add target_session_attrs=prefer-standby"),
        ({"host": "a,b", "target_session_attrs": "prefer-standby"}, False, "add target_session_attrs=primary"),
        ({"host": "a,b", "port": "1,2,3", "target_session_attrs": "primary"}, True, "as many ports as hosts"),
    ],
)
def test_several_hosts_that_leave_it_open_are_refused(
    parameters: dict[str, Any], may_prefer: bool, reason: str
) -> None:
    with pytest.raises(ImproperlyConfigured, match="LOGS_GATE_URL") as raised:
        check_servers(parameters, setting="LOGS_GATE_URL", may_prefer=may_prefer)
    assert reason in str(raised.value)


# --- Single sign-on ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "roles"),
    [
        ("", {}),
        ("ops=owner", {"ops": "owner"}),
        (" ops = owner , /all=viewer,", {"ops": "owner", "/all": "viewer"}),
        ("cn=ops=superuser", {"cn=ops": "superuser"}),
    ],
)
def test_groups_have_roles(text: str, roles: dict[str, str]) -> None:
    assert read_roles(text, setting="OIDC_ROLES") == roles


@pytest.mark.parametrize("text", ["ops", "ops=", "=owner", "ops=admin", "ops=Owner", "a=owner=b", "a=viewer,a=owner"])
def test_other_roles_are_refused(text: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="OIDC_ROLES"):
        read_roles(text, setting="OIDC_ROLES")


SINGLE_SIGN_ON = {
    "OIDC_ISSUER": "https://login.example.org",
    "OIDC_CLIENT_ID": "logs",
    "OIDC_CLIENT_SECRET": "secret",
    "OIDC_ROLES": "ops=owner",
}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"OIDC_ISSUER": "http://login.example.org"}, "OIDC_ISSUER must begin with https://"),
        ({"OIDC_ISSUER": "login.example.org"}, "OIDC_ISSUER must begin with https://"),
        ({"OIDC_ISSUER": "https://login.example.org?x"}, "without ? and #"),
        ({"OIDC_CLIENT_SECRET": ""}, "OIDC_ISSUER also needs OIDC_CLIENT_SECRET"),
        ({"OIDC_CLIENT_ID": "", "OIDC_ROLES": ""}, "OIDC_ISSUER also needs OIDC_CLIENT_ID, OIDC_ROLES"),
        ({"OIDC_SCOPES": "profile openid2"}, "OIDC_SCOPES must have openid among its words"),
        ({"OIDC_SESSION_SECONDS": "5"}, "OIDC_SESSION_SECONDS must be at least 60"),
        ({"OIDC_ISSUER": "", "OIDC_ONLY": "true"}, "OIDC_ONLY needs OIDC_ISSUER"),
    ],
)
def test_the_service_does_not_start_with_half_a_single_sign_on(changes: dict[str, str], reason: str) -> None:
    loaded = load_settings("s.OIDC_ISSUER", SECRET_KEY="x" * 50, **{**SINGLE_SIGN_ON, **changes})
    assert loaded.returncode != 0
    assert reason in loaded.stderr


def test_the_extra_is_asked_for_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setting_values, "find_spec", lambda name: None)
    with pytest.raises(ImproperlyConfigured, match=r"install those of requirements\.lock"):
        setting_values.check_single_sign_on("https://login.example.org", {}, scopes="openid", session_seconds=60)


_LOADED = (
    "(__import__('os').environ.setdefault('DJANGO_SETTINGS_MODULE', 'config.settings'), __import__('django').setup(),"
    " __import__('config.urls'), {name for name in ('mozilla_django_oidc', 'endpoints.access.single_sign_on')"
    " if name in __import__('sys').modules})[-1]"
)


@pytest.mark.parametrize(("environment", "count"), [({}, 0), (SINGLE_SIGN_ON, 2)])
def test_nothing_of_it_is_loaded_unless_there_is_an_issuer(environment: dict[str, str], count: int) -> None:
    loaded = load_settings(f"len({_LOADED})", SECRET_KEY="x" * 50, **environment)
    assert loaded.stdout == f"{count}\n", loaded.stderr
