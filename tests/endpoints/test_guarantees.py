"""Each guarantee holds in the hardened log database, and is seen to fail when what it promises is taken away."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import connections
from psycopg import Connection

from endpoints.errors import DatabaseUnavailable
from endpoints.guarantees import (
    GUARANTEES,
    SandboxLevel,
    definitions,
    forget_answer,
    keep_asking,
    sandbox_refusal,
    verification,
    verify_guarantees,
)
from tests.live.calls import until

pytestmark = [pytest.mark.django_db(databases=["default", "logs"]), pytest.mark.sql]

MEMORY_LIMIT = next(guarantee for guarantee in GUARANTEES if guarantee.name == "memory limit")
POLICY = "CREATE POLICY {} ON logs.edge_logs FOR SELECT TO {} USING ({})"
GATE_SET = "ALTER ROLE logs_gate IN DATABASE {database} SET {} = {}"
# Guarantee, what breaks it, what repairs it.
BREAKS = [
    (
        "log tables closed",
        "GRANT SELECT ON logs.edge_logs TO sandbox_reader",
        "REVOKE SELECT ON logs.edge_logs FROM sandbox_reader",
    ),
    (
        "log tables closed",
        "GRANT SELECT (id) ON logs.auth_logs TO sandbox_reader",
        "REVOKE SELECT (id) ON logs.auth_logs FROM sandbox_reader",
    ),
    (
        "schemas closed",
        "GRANT USAGE ON SCHEMA logs TO sandbox_reader",
        "REVOKE USAGE ON SCHEMA logs FROM sandbox_reader",
    ),
    (
        "schemas closed",
        "GRANT CREATE ON SCHEMA public TO sandbox_reader",
        "REVOKE CREATE ON SCHEMA public FROM sandbox_reader",
    ),
    (
        "row security on",
        "ALTER TABLE logs.edge_logs DISABLE ROW LEVEL SECURITY",
        "ALTER TABLE logs.edge_logs ENABLE ROW LEVEL SECURITY",
    ),
    ("row security on", POLICY.format("open", "tenant_views", "true"), "DROP POLICY open ON logs.edge_logs"),
    (
        "row security on",
        "ALTER POLICY tenant_views_rows ON logs.edge_logs USING (true)",
        "ALTER POLICY tenant_views_rows ON logs.edge_logs USING (project = (SELECT logs_private.tenant()))",
    ),
    (
        "row security on",
        "CREATE POLICY open ON logs.edge_logs_default USING (true)",
        "DROP POLICY open ON logs.edge_logs_default",
    ),
    (
        "views under row security",
        "CREATE SCHEMA sandbox_x; CREATE VIEW sandbox_x.v AS SELECT 1; GRANT SELECT ON sandbox_x.v TO sandbox_reader",
        "DROP SCHEMA sandbox_x CASCADE",
    ),
    (
        "views told apart",
        "CREATE SCHEMA sandbox_x; CREATE VIEW sandbox_x.v AS SELECT 1; ALTER VIEW sandbox_x.v OWNER TO all_views;"
        " GRANT SELECT ON sandbox_x.v TO sandbox_reader",
        "DROP SCHEMA sandbox_x CASCADE",
    ),
    ("views under row security", "ALTER ROLE tenant_views BYPASSRLS", "ALTER ROLE tenant_views NOBYPASSRLS"),
    (
        "view owners confined",
        "GRANT SELECT ON public.django_migrations TO tenant_views",
        "REVOKE SELECT ON public.django_migrations FROM tenant_views",
    ),
    ("readers powerless", "ALTER ROLE sandbox_reader BYPASSRLS", "ALTER ROLE sandbox_reader NOBYPASSRLS"),
    ("readers powerless", "GRANT query_reader TO sandbox_reader", "REVOKE query_reader FROM sandbox_reader"),
    ("gate powerless", "ALTER ROLE logs_gate INHERIT", "ALTER ROLE logs_gate NOINHERIT"),
    ("gate powerless", "GRANT pg_monitor TO logs_gate", "REVOKE pg_monitor FROM logs_gate"),
    (
        "gate powerless",
        "CREATE TABLE public.mine (); ALTER TABLE public.mine OWNER TO logs_gate",
        "DROP TABLE public.mine",
    ),
    (
        "nothing created",
        "GRANT TEMPORARY ON DATABASE {database} TO PUBLIC",
        "REVOKE TEMPORARY ON DATABASE {database} FROM PUBLIC",
    ),
    (
        "text read as checked",
        GATE_SET.format("standard_conforming_strings", "off", database="{database}"),
        GATE_SET.format("standard_conforming_strings", "on", database="{database}"),
    ),
    (
        "time limits",
        GATE_SET.format("statement_timeout", "0", database="{database}"),
        GATE_SET.format("statement_timeout", "'15s'", database="{database}"),
    ),
    (
        "refused when tried: rows",
        "GRANT USAGE ON SCHEMA logs_private TO sandbox_reader",
        "REVOKE USAGE ON SCHEMA logs_private FROM sandbox_reader",
    ),
    (
        "functions closed",
        "GRANT EXECUTE ON FUNCTION pg_sleep TO sandbox_reader",
        "REVOKE EXECUTE ON FUNCTION pg_sleep FROM sandbox_reader",
    ),
    (
        "functions of the others",
        "GRANT EXECUTE ON FUNCTION pg_notify TO query_reader",
        "REVOKE EXECUTE ON FUNCTION pg_notify FROM query_reader",
    ),
    (
        "functions of the others",
        "GRANT EXECUTE ON FUNCTION lower(text) TO logs_gate",
        "REVOKE EXECUTE ON FUNCTION lower(text) FROM logs_gate",
    ),
    ("catalogs closed", "GRANT SELECT ON pg_class TO PUBLIC", "REVOKE SELECT ON pg_class FROM PUBLIC"),
    ("other schemas closed", "GRANT USAGE ON SCHEMA public TO PUBLIC", "REVOKE USAGE ON SCHEMA public FROM PUBLIC"),
    (
        "space limit",
        GATE_SET.format("temp_file_limit", "-1", database="{database}"),
        GATE_SET.format("temp_file_limit", "'100MB'", database="{database}"),
    ),
    (
        "server log silent",
        GATE_SET.format("log_min_messages", "'warning'", database="{database}"),
        GATE_SET.format("log_min_messages", "'fatal'", database="{database}"),
    ),
    (
        "server log silent",
        GATE_SET.format("log_min_error_statement", "'error'", database="{database}"),
        GATE_SET.format("log_min_error_statement", "'panic'", database="{database}"),
    ),
    (
        "refused when tried: functions",
        "GRANT EXECUTE ON FUNCTION set_config TO PUBLIC",
        "REVOKE EXECUTE ON FUNCTION set_config FROM PUBLIC",
    ),
    (
        "allowed functions callable",
        "REVOKE EXECUTE ON FUNCTION lower(text) FROM sandbox_reader",
        "GRANT EXECUTE ON FUNCTION lower(text) TO sandbox_reader",
    ),
]
Break = Callable[[str, str], None]


@pytest.fixture
def broken(superuser: Connection[Any]) -> Iterator[Break]:
    """Break the log database, and repair it after the test."""
    repairs: list[str] = []

    def break_(statements: str, repair: str) -> None:
        repairs.append(repair.format(database=superuser.info.dbname))
        superuser.execute(statements.format(database=superuser.info.dbname).encode())

    yield break_
    for repair in reversed(repairs):
        superuser.execute(repair.encode())


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    forget_answer()
    yield
    forget_answer()


@pytest.fixture
def function_open(broken: Break) -> None:
    broken(
        "GRANT EXECUTE ON FUNCTION pg_sleep TO sandbox_reader",
        "REVOKE EXECUTE ON FUNCTION pg_sleep FROM sandbox_reader",
    )


def failing() -> dict[str, str]:
    verdicts = verify_guarantees(costly=True)
    return {verdict.guarantee.name: "; ".join(verdict.findings) for verdict in verdicts if not verdict.holds}


def needed_and_failing() -> set[str]:
    return {verdict.guarantee.name for verdict in verify_guarantees() if verdict.is_needed and not verdict.holds}


def test_all_that_is_needed_holds_after_hardening() -> None:
    assert needed_and_failing() == set()


@pytest.mark.parametrize(("name", "breaks", "repairs"), BREAKS)
def test_sees_that_a_guarantee_fails(
    broken: Break, monkeypatch: pytest.MonkeyPatch, name: str, breaks: str, repairs: str
) -> None:
    # Each has a probe of its own; to try all of them takes a second, twice for each of these cases.
    monkeypatch.setattr(verification, "GUARANTEES", [guarantee for guarantee in GUARANTEES if guarantee.name == name])
    assert name not in failing()
    broken(breaks, repairs)
    assert name in failing()


def test_sees_that_the_gate_reaches_the_service_database() -> None:
    with connections["default"].cursor() as cursor:
        database = connections["default"].settings_dict["NAME"]
        cursor.execute(f'GRANT CONNECT ON DATABASE "{database}" TO PUBLIC')
        assert "service database closed" in failing()
        cursor.execute(f'REVOKE CONNECT ON DATABASE "{database}" FROM PUBLIC')
        assert "service database closed" not in failing()


def test_every_guarantee_is_seen_to_fail() -> None:
    others = {"service database closed", "memory limit"}
    assert {name for name, _, _ in BREAKS} | others == {guarantee.name for guarantee in GUARANTEES}


def test_tries_the_memory_limit_and_says_how_to_set_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "memory limit" not in failing()
    monkeypatch.setattr(definitions, "TRIED_CHARACTERS", 1000)  # as a server without a limit answers
    assert "LimitDATA=1G" in failing()["memory limit"]
    assert "memory limit" not in needed_and_failing()


def test_no_call_tries_the_memory_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "GUARANTEES", [replace(MEMORY_LIMIT, probe=lambda _: [])])
    assert [verdict.guarantee.name for verdict in verify_guarantees(costly=True)] == ["memory limit"]
    assert verify_guarantees() == []


def test_serves_sandbox_queries_while_all_that_is_needed_holds() -> None:
    assert sandbox_refusal() is None


def test_refuses_and_logs_the_reason_without_telling_it(function_open: None, caplog: pytest.LogCaptureFixture) -> None:
    refusal = sandbox_refusal()
    assert refusal is not None
    assert "check_sandbox" in refusal
    assert "pg_sleep" not in refusal
    assert "'functions closed' does not hold: sandbox_reader may call pg_sleep(float8)" in caplog.text


class Asked:
    """The clock of the verification, and how often the log database was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.times = 0
        monkeypatch.setattr(verification.time, "monotonic", lambda: self.now)
        ask = verification._ask

        def counted() -> Any:
            answer = ask()
            self.times += 1
            return answer

        monkeypatch.setattr(verification, "_ask", counted)

    def until_asked(self, times: int) -> None:
        attempt = verification._verification._asking._attempt
        assert attempt is not None
        assert attempt.done.wait(30)
        assert self.times == times


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    return Asked(monkeypatch)


def test_an_answer_serves_for_minutes_and_a_refusal_for_seconds(broken: Break, asked: Asked) -> None:
    assert sandbox_refusal() is None
    broken(
        "GRANT EXECUTE ON FUNCTION pg_sleep TO sandbox_reader",
        "REVOKE EXECUTE ON FUNCTION pg_sleep FROM sandbox_reader",
    )
    asked.now += 149
    assert sandbox_refusal() is None
    assert asked.times == 1
    asked.now += 152
    assert sandbox_refusal() is not None
    broken("REVOKE EXECUTE ON FUNCTION pg_sleep FROM sandbox_reader", "SELECT 1")
    asked.now += 7
    assert sandbox_refusal() is not None
    assert asked.times == 2
    asked.now += 9
    assert sandbox_refusal() is None


def test_a_new_answer_is_found_while_the_old_one_serves(broken: Break, asked: Asked) -> None:
    assert sandbox_refusal() is None
    asked.now += 151
    assert sandbox_refusal() is None
    asked.until_asked(2)
    asked.now += 299
    broken(
        "GRANT EXECUTE ON FUNCTION pg_sleep TO sandbox_reader",
        "REVOKE EXECUTE ON FUNCTION pg_sleep FROM sandbox_reader",
    )
    assert sandbox_refusal() is None, "no call waits while the known answer is good"
    asked.until_asked(3)
    assert sandbox_refusal() is not None


def test_a_log_database_that_goes_away_is_noticed_when_the_answer_runs_out(asked: Asked, settings: Any) -> None:
    assert sandbox_refusal() is None
    settings.LOGS_GATE = {**settings.LOGS_GATE, "host": "127.0.0.1", "port": "1"}
    asked.now += 200
    assert sandbox_refusal() is None
    asked.until_asked(1)
    asked.now += 101
    with pytest.raises(DatabaseUnavailable):
        sandbox_refusal()


def test_all_who_come_before_the_first_answer_wait_for_the_same_one(asked: Asked) -> None:
    with ThreadPoolExecutor(20) as pool:
        assert set(pool.map(lambda _: sandbox_refusal(), range(20))) == {None}
    assert asked.times == 1


def test_a_process_has_an_answer_before_the_first_call_and_no_call_waits_for_a_later_one(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "LOOK_SECONDS", 0.05)
    stop = threading.Event()
    asking = threading.Thread(target=keep_asking, args=(stop,))
    asking.start()
    try:
        until(lambda: asked.times == 1, seconds=30)
        asked.now += 10_000
        until(lambda: asked.times == 2, seconds=30)
    finally:
        stop.set()
        asking.join()
    assert sandbox_refusal() is None
    assert asked.times == 2


def test_the_level_without_a_superuser_needs_no_closed_functions(function_open: None, settings: Any) -> None:
    settings.ENDPOINTS_SANDBOX_LEVEL = "row_security"
    assert sandbox_refusal() is None
    assert "functions closed" in failing()


def test_the_level_without_a_superuser_still_needs_row_security(broken: Break, settings: Any) -> None:
    settings.ENDPOINTS_SANDBOX_LEVEL = "row_security"
    broken(
        "ALTER TABLE logs.edge_logs DISABLE ROW LEVEL SECURITY", "ALTER TABLE logs.edge_logs ENABLE ROW LEVEL SECURITY"
    )
    assert sandbox_refusal() is not None


def test_advice_is_never_needed(broken: Break) -> None:
    broken(
        "REVOKE EXECUTE ON FUNCTION lower(text) FROM sandbox_reader",
        "GRANT EXECUTE ON FUNCTION lower(text) TO sandbox_reader",
    )
    assert sandbox_refusal() is None
    assert {guarantee.level for guarantee in GUARANTEES} == set(SandboxLevel)


def test_refuses_an_unknown_level(settings: Any) -> None:
    settings.ENDPOINTS_SANDBOX_LEVEL = "none"
    with pytest.raises(ImproperlyConfigured, match="one of full, row_security"):
        sandbox_refusal()


def test_does_not_guess_when_the_log_database_cannot_be_asked(settings: Any) -> None:
    settings.LOGS_GATE = {**settings.LOGS_GATE, "host": "127.0.0.1", "port": "1"}
    with pytest.raises(DatabaseUnavailable):
        sandbox_refusal()


def test_command_prints_every_guarantee() -> None:
    output = StringIO()
    call_command("check_sandbox", stdout=output)
    lines = output.getvalue().splitlines()
    for guarantee in GUARANTEES:
        assert any(f"{guarantee.name}: {guarantee.promise}" in line for line in lines)
    assert "Two web processes with full pools use 16 server processes" in lines[-2]
    assert lines[-1].endswith("level full is accepted.")


def test_command_fails_and_tells_what_an_attacker_gets(function_open: None) -> None:
    output = StringIO()
    with pytest.raises(CommandError, match="1 required guarantees fail") as failure:
        call_command("check_sandbox", stdout=output)
    assert failure.value.returncode == 1
    assert "FAIL  full          functions closed" in output.getvalue()
    assert "found: sandbox_reader may call pg_sleep(float8)" in output.getvalue()
    assert "else an attacker: becomes another project by set_config()" in output.getvalue()


def test_command_accepts_the_lower_level(function_open: None, settings: Any) -> None:
    settings.ENDPOINTS_SANDBOX_LEVEL = "row_security"
    output = StringIO()
    call_command("check_sandbox", stdout=output)
    assert "FAIL  full" in output.getvalue()
