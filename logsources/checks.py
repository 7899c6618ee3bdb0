"""System checks of the two database URLs. They belong to the database checks: `migrate` and `check --database logs`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import connections

from logsources.connections import LOGS_ALIAS

_Server = tuple[str, str]


def _server(parameters: Mapping[str, Any], host: str, port: str) -> _Server:
    return str(parameters.get(host) or ""), str(parameters.get(port) or "5432")


@register(Tags.database)
def check_log_database(
    app_configs: Sequence[AppConfig] | None = None, databases: Sequence[str] | None = None, **kwargs: object
) -> list[CheckMessage]:
    """Report URLs that leave row security without effect, or the two databases without a border."""
    if not databases or LOGS_ALIAS not in databases:
        return []
    owner = connections[LOGS_ALIAS].settings_dict
    state = connections["default"].settings_dict
    gate: Mapping[str, Any] = settings.LOGS_GATE
    messages: list[CheckMessage] = []
    if not gate.get("user"):
        messages.append(Error("LOGS_GATE_URL names no user.", hint=_GATE_HINT, id="logsources.E001"))
    elif gate["user"] == owner["USER"]:
        messages.append(
            Error(
                "The gate login owns the log database: row policies do not hold it.",
                hint=_GATE_HINT,
                id="logsources.E002",
            )
        )
    if _server(gate, "host", "port") != _server(owner, "HOST", "PORT"):
        messages.append(
            Warning(
                "LOGS_GATE_URL and LOGS_DATABASE_URL name different servers.",
                hint="Right for a standby or a pooler of it; else rows are loaded where nobody reads them.",
                id="logsources.W001",
            )
        )
    if (_server(state, "HOST", "PORT"), state["NAME"]) == (_server(owner, "HOST", "PORT"), owner["NAME"]):
        messages.append(
            Warning(
                "DATABASE_URL and LOGS_DATABASE_URL name one database.",
                hint="Give Django's tables a database of their own, so that the gate login cannot even connect to it.",
                id="logsources.W002",
            )
        )
    return messages


_GATE_HINT = "Give LOGS_GATE_URL a login of its own; the migration of the log database creates it."
