"""Dialects are an extra of the package: without it, an endpoint in that dialect is refused when it is saved."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
from django.core.exceptions import ValidationError

from endpoints.calling.consumer_queries import check_query
from endpoints.dialects import DIALECTS
from endpoints.errors import InternalError
from endpoints.models import Endpoint
from endpoints.results.outcomes import SandboxDialect
from tests.files import PROJECT

BIGQUERY = Endpoint(name="in.bigquery", sql="SELECT 1 AS one", sandbox_dialect=SandboxDialect.BIGQUERY)


@pytest.fixture
def not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = replace(DIALECTS[SandboxDialect.BIGQUERY], library="a_library_that_nobody_has")
    monkeypatch.setitem(DIALECTS, SandboxDialect.BIGQUERY, missing)  # type: ignore[arg-type]


def test_postgresql_needs_no_translation() -> None:
    assert SandboxDialect.POSTGRESQL not in DIALECTS
    assert set(DIALECTS) | {SandboxDialect.POSTGRESQL} == set(SandboxDialect)


def test_an_installed_dialect_is_accepted() -> None:
    BIGQUERY.clean_fields()


@pytest.mark.usefixtures("not_installed")
def test_a_missing_one_is_refused_with_the_way_to_install_it() -> None:
    with pytest.raises(ValidationError) as refused:
        BIGQUERY.clean_fields()
    install = "BigQuery is not installed here: install the packages of requirements.lock."
    assert refused.value.message_dict == {"sandbox_dialect": [install]}


@pytest.mark.usefixtures("not_installed")
def test_a_call_without_it_is_an_error_of_the_service() -> None:
    with pytest.raises(InternalError):
        check_query(BIGQUERY, "select 1", ())  # type: ignore[arg-type]


@pytest.mark.usefixtures("not_installed")
def test_endpoints_in_postgresql_need_no_extra() -> None:
    Endpoint(name="in.postgresql", sql="SELECT 1 AS one").clean_fields()


def test_the_service_starts_without_the_library_of_a_dialect() -> None:
    program = (
        "import sys; sys.modules['sqlglot'] = None\n"
        "import config.wsgi\n"
        "import endpoints.calling.consumer_queries, endpoints.admin, endpoints.defining.drafts"
    )
    settings = {"SECRET_KEY": "x" * 60, "DEBUG": "false", "ALLOWED_HOSTS": "logs.example.org"}
    urls = dict.fromkeys(("DATABASE_URL", "LOGS_DATABASE_URL"), "postgresql://nobody:nothing@127.0.0.1:1/none")
    environment = {**settings, **urls, "LOGS_GATE_URL": urls["DATABASE_URL"], "REDIS_URL": "redis://127.0.0.1:1/0"}
    started = subprocess.run(
        [sys.executable, "-c", program], cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=60
    )
    assert started.returncode == 0, started.stderr
