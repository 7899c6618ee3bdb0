"""Rows of function_edge_logs (one per invocation) and function_logs (the output of a running function)."""

from __future__ import annotations

from datetime import datetime
from random import Random
from typing import Final

from logsources.generation.vocabulary import (
    FUNCTION_NAMES,
    REGIONS,
    USER_AGENTS,
    Fields,
    function_id,
    http_date,
    milliseconds,
    pick,
    random_uuid,
)

_STATUS_CODES: Final = {"200": 880, "202": 40, "400": 20, "401": 15, "404": 5, "500": 30, "504": 10}
_LEVELS: Final = {"info": 700, "log": 150, "debug": 50, "warning": 60, "error": 40}
_MESSAGES: Final = {
    "info": "invoice {number} rendered in 31 ms\n",
    "log": '{{"step":"fetch","order":{number},"path":"C:\\\\temp\\\\{number}.pdf"}}\n',
    "debug": "cache\tmiss for key stock:{number}\n",
    "warning": "retrying after 429 from https://api.example.net/stock/{number}\n",
    "error": "TypeError: Cannot read properties of undefined (reading 'id')\n    at file:///src/index.ts:{number}:17\n",
}
_LIFECYCLE_MESSAGES: Final = {"boot": "booted (time: {number}ms)", "shutdown": "shutdown"}


def _deployment(project: str, identifier: str, version: str) -> Fields:
    return {
        "deployment_id": f"{project}_{identifier}_{version}",
        "function_id": identifier,
        "project_ref": project,
        "version": version,
    }


def function_edge_row(dice: Random, moment: datetime, project: str) -> Fields:
    """Return one invocation of an edge function."""
    name = dice.choice(FUNCTION_NAMES)
    method = dice.choice(("POST", "POST", "GET", "OPTIONS"))
    status_code = int(pick(dice, _STATUS_CODES))
    host = f"{project}.functions.example.com"
    return {
        "event_message": f"{method} | {status_code} | https://{host}/{name}",
        "metadata": {
            **_deployment(project, function_id(project, name), str(dice.randrange(1, 6))),
            "execution_time_ms": milliseconds(dice, 150),
            "request": {
                "method": method,
                "protocol": "https:",
                "host": "runtime.example.net",
                "pathname": f"/{name}",
                "search": "",
                "url": f"https://runtime.example.net/{name}",
                "headers": {
                    "accept": "*/*",
                    "accept_encoding": "gzip",
                    "content_length": str(dice.randrange(2, 4000)),
                    "host": host,
                    "user_agent": dice.choice(USER_AGENTS),
                },
            },
            "response": {
                "status_code": status_code,
                "headers": {
                    "content_length": str(dice.randrange(2, 9000)),
                    "content_type": "application/json",
                    "date": http_date(moment),
                    "server": f"runtime/{dice.choice(REGIONS)}",
                    "vary": "Accept-Encoding",
                },
            },
        },
    }


def function_row(dice: Random, moment: datetime, project: str) -> Fields:
    """Return one line that a running function printed, or the line for its start or end."""
    event_type = pick(dice, {"log": 90, "boot": 5, "shutdown": 5})
    level = pick(dice, _LEVELS) if event_type == "log" else "log"
    message = _MESSAGES[level] if event_type == "log" else _LIFECYCLE_MESSAGES[event_type]
    nanoseconds = moment.microsecond * 1000 + dice.randrange(1000)
    return {
        "event_message": message.format(number=dice.randrange(1, 9999)),
        "metadata": {
            **_deployment(project, function_id(project, dice.choice(FUNCTION_NAMES)), str(dice.randrange(1, 6))),
            "event_type": event_type,
            "execution_id": random_uuid(dice),
            "level": level,
            "region": dice.choice(REGIONS),
            "timestamp": f"{moment:%Y-%m-%dT%H:%M:%S}.{nanoseconds:09d}+00:00",
        },
    }
