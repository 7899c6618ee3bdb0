"""`distribute_logs` where there is no cluster; tests/cluster tells what it does on one."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

pytestmark = pytest.mark.sql


@pytest.mark.django_db(databases=["default", "logs"])
def test_without_citus_it_says_what_to_install() -> None:
    with pytest.raises(CommandError, match=r"no extension citus: install Citus on every node, .*docs/scaling\.md"):
        call_command("distribute_logs")


@pytest.mark.django_db(databases=["default", "logs"])
def test_without_a_superuser_it_asks_for_one(
    monkeypatch: pytest.MonkeyPatch, settings: object, tmp_path: object
) -> None:
    monkeypatch.delenv("LOGS_SUPERUSER_URL")
    settings.LOCAL_DIR = tmp_path  # type: ignore[attr-defined]
    with pytest.raises(CommandError, match="No superuser is known"):
        call_command("distribute_logs")
