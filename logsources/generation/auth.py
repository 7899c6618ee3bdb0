"""Rows of auth_logs: structured lines of the authentication service, with the personal data such lines carry."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Final

from logsources.generation.vocabulary import PEOPLE, REFERERS, Fields, client_address, hexadecimal, iso_seconds


@dataclass(frozen=True, slots=True)
class _Act:
    """An action that a person tries: how often, with which request, and how it ends."""

    weight: int
    action: str
    method: str
    path: str
    status: str
    level: str
    message: str


_ACTS: Final = (
    _Act(50, "login", "POST", "/token", "200", "info", "request completed"),
    _Act(12, "login", "POST", "/token", "400", "warning", "invalid login credentials"),
    _Act(15, "token_refreshed", "POST", "/token", "200", "info", "request completed"),
    _Act(8, "logout", "POST", "/logout", "204", "info", "request completed"),
    _Act(8, "user_signedup", "POST", "/signup", "200", "info", "request completed"),
    _Act(4, "user_recovery_requested", "POST", "/recover", "429", "warning", "email rate limit exceeded"),
    _Act(3, "user_modified", "PUT", "/user", "500", "error", "sending e-mail failed: 421 mail.example.net closed"),
)
_ACT_WEIGHTS: Final = tuple(act.weight for act in _ACTS)
_PROVIDERS: Final = ("email", "email", "email", "phone", "github")


def auth_row(dice: Random, moment: datetime, project: str) -> Fields:
    """Return one line of the authentication service; event_message is the line as JSON text."""
    act = dice.choices(_ACTS, weights=_ACT_WEIGHTS)[0]
    user_id, name, email = dice.choice(PEOPLE)
    provider, address, time = dice.choice(_PROVIDERS), client_address(dice), iso_seconds(moment)
    line = {
        "component": "api",
        "level": act.level,
        "method": act.method,
        "msg": act.message,
        "path": act.path,
        "remote_addr": address,
        "time": time,
    }
    return {
        "event_message": json.dumps(line, separators=(",", ":")),
        "project": project,
        "metadata": {
            **line,
            "args": [f"grant_type={'refresh_token' if act.action == 'token_refreshed' else 'password'}"],
            "duration": str(dice.randrange(2_000_000, 900_000_000)),  # nanoseconds
            "host": f"db-{project}",
            "login_method": "password",
            "metering": act.action in {"login", "token_refreshed"} and act.status == "200",
            "project": project,
            "provider": provider,
            "referer": dice.choice(REFERERS),
            "request_id": f"req-{hexadecimal(dice, 8)}",
            "status": act.status,
            "timestamp": time,
            "user_id": user_id,
            "auth_event": {
                "action": act.action,
                "actor_id": user_id,
                "actor_name": name,
                "actor_username": email,
                "actor_via_sso": dice.random() < 0.05,
                "log_type": "account",
                "traits": {
                    "channel": "web",
                    "provider": provider,
                    "user_email": email,
                    "user_id": user_id,
                    "user_phone": "+000000000",
                },
            },
        },
    }
