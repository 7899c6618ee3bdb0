"""What arms a transaction: the settings in order, and the position of the log where it counts."""

from __future__ import annotations

import pytest

from endpoints.log_database.sessions import ReaderSession, session_settings_statement
from logsources.roles import QUERY_READER, SANDBOX_READER
from logsources.topology import CLUSTER


def session(role: str = QUERY_READER, *, tenant: str | None = "acme") -> ReaderSession:
    return ReaderSession(role, "logs", 1.5, tenant, arguments={"a": "x", "b": None, "c": ["1", "2"]})


def bound_settings(given: ReaderSession, sql: str = "SELECT 1") -> dict[str, str]:
    _, bound = session_settings_statement(given, sql)
    texts = [text.decode() for text in bound]
    return dict(zip(texts[::2], texts[1::2], strict=True))


@pytest.mark.parametrize("role", [QUERY_READER, SANDBOX_READER])
def test_the_role_comes_last_because_it_may_not_set_the_others(role: str) -> None:
    assert list(bound_settings(session(role)).items())[-1] == ("role", role)


@pytest.mark.parametrize(
    ("tenant", "scope", "stored"), [("acme", "tenant", "=acme"), ("", "tenant", "="), (None, "every_project", "")]
)
def test_null_and_the_empty_text_differ(tenant: str | None, scope: str, stored: str) -> None:
    settings = bound_settings(session(tenant=tenant))
    assert (settings["logs.scope"], settings["logs.tenant"]) == (scope, stored)


def test_a_sandbox_query_has_its_arguments_and_limits() -> None:
    settings = bound_settings(session(SANDBOX_READER))
    assert [settings[f"logs.arg_{name}"] for name in "abc"] == ["=x", "", '={"1","2"}']
    assert (settings["lock_timeout"], settings["statement_timeout"]) == ("1s", "1500ms")


@pytest.mark.parametrize("role", [QUERY_READER, SANDBOX_READER])
def test_the_position_is_asked_for_only_where_it_is_awaited(role: str) -> None:
    plain, bound = session_settings_statement(session(role))
    assert "log_position" not in plain
    for awaited, text in ((0, b"0/0"), (1 << 33, b"2/0")):
        asking, more = session_settings_statement(session(role), awaited=awaited)
        assert asking == plain.replace("SELECT ", f"SELECT logs_private.log_position(${len(bound) + 1}), ", 1)
        assert more == (*bound, text)


@pytest.mark.parametrize("role", [QUERY_READER, SANDBOX_READER])
def test_on_a_cluster_the_settings_travel_as_two_arrays_and_role_and_path_by_themselves(role: str) -> None:
    given = session(role)
    arming, bound = session_settings_statement(given, topology=CLUSTER)
    assert arming.startswith("SELECT logs_private.arm($1::text[], $2::text[]), ")
    names, texts, search_path, last = (text.decode() for text in bound)
    assert (search_path, last) == (given.search_path, role)
    assert names.count(",") == texts.count('","')
    assert "plan_cache_mode" not in names
    assert ('"logs.sandbox_schema"' in names) == (role == SANDBOX_READER)
