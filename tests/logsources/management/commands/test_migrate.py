"""`migrate` says what an upgrade needs beyond it: functions that only a superuser can give to sandbox queries."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from psycopg import Connection

from endpoints.guarantees import verify_guarantees
from tests.conftest import ApiClient

pytestmark = [
    pytest.mark.django_db(databases=["default", "logs"]),
    pytest.mark.one_server("on a cluster, distribute_logs hardens every node"),
    pytest.mark.sql,
]
CBRT = "/api/endpoints/query/logs.all?project=acme&sql=select+cbrt(8)+as+n+from+edge_logs"


def migrate(**options: Any) -> str:
    out = StringIO()
    call_command("migrate", database="logs", interactive=False, stdout=out, **options)
    return out.getvalue()


@pytest.fixture
def hardened(superuser: Connection[Any]) -> Iterator[Connection[Any]]:
    """A superuser in the log database, which is hardened before and after the test."""
    call_command("harden_logs", stdout=StringIO())
    yield superuser
    call_command("harden_logs", stdout=StringIO())


def test_a_hardened_database_needs_nothing(hardened: Connection[Any]) -> None:
    assert "harden_logs" not in migrate()


def test_a_function_that_an_upgrade_brings_is_told_and_given(hardened: Connection[Any], api: ApiClient) -> None:
    hardened.execute("REVOKE EXECUTE ON FUNCTION cbrt(float8) FROM sandbox_reader")
    refused = api.get(CBRT)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_sql")
    last = migrate().splitlines()[-1]
    assert last == (
        "Sandbox queries need rights that only a superuser can give: run manage.py harden_logs "
        "(docs/production.md, First start and upgrades)."
    )
    assert migrate(verbosity=0) == ""
    call_command("harden_logs", stdout=StringIO())
    assert api.get(CBRT).status_code == 200
    assert "harden_logs" not in migrate()


def test_doctor_tells_it_too(hardened: Connection[Any]) -> None:
    before = {verdict.guarantee.name for verdict in verify_guarantees() if not verdict.holds}
    hardened.execute("REVOKE EXECUTE ON FUNCTION cbrt(float8) FROM sandbox_reader")
    broken = {verdict.guarantee.name for verdict in verify_guarantees() if not verdict.holds}
    assert broken - before


def test_where_no_superuser_is_there_nobody_is_asked_for_one(hardened: Connection[Any], settings: Any) -> None:
    hardened.execute("REVOKE EXECUTE ON FUNCTION cbrt(float8) FROM sandbox_reader")
    settings.ENDPOINTS_SANDBOX_LEVEL = "row_security"
    assert "harden_logs" not in migrate()


def test_the_other_database_says_nothing(hardened: Connection[Any]) -> None:
    hardened.execute("REVOKE EXECUTE ON FUNCTION cbrt(float8) FROM sandbox_reader")
    out = StringIO()
    call_command("migrate", interactive=False, stdout=out)
    assert "harden_logs" not in out.getvalue()
