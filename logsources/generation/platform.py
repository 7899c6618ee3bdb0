"""Rows of the services behind the gateway: realtime_logs, storage_logs, rest_logs and pooler_logs."""

from __future__ import annotations

from datetime import datetime
from random import Random
from typing import Final

from logsources.generation.vocabulary import Fields, client_peer, hexadecimal, milliseconds, pick

_LEVELS: Final = {"info": 90, "warning": 6, "error": 4}
_REALTIME_MESSAGES: Final = {
    "info": "Tenant {project} has {number} connected clients",
    "warning": 'RateLimitWarning: {{:tenant, "{project}"}} reached {number} messages per second',
    "error": "ChannelError: tenant {project} exceeded its join rate (%{{limit: {number}}})",
}
_REST_LINES: Final = {
    "Schema cache loaded {number} Relations, 12 Functions": 40,
    "Config reloaded": 20,
    "Listening on port 3000": 10,
    'Failed to query the database: {{"code":"PGRST001","details":"connection to \\"192.0.2.40\\" failed"}}': 10,
    "Attempting to reconnect to the database in {number} seconds...": 20,
}
_POOLER_LINES: Final = {
    "login attempt: db=app user=app_rw tls=TLSv1.3/TLS_AES_256_GCM_SHA384": 35,
    "closing because: client unexpected eof (age={number}s)": 30,
    "closing because: server idle timeout (age={number}s)": 20,
    "new connection to server (from 192.0.2.10:{number})": 10,
    "closing because: query_wait_timeout (age={number}s)": 5,
}
_STORAGE_OBJECTS: Final = ("object/avatars/42.png", "object/invoices/8812.pdf", "object/list/avatars", "bucket/manuals")


def realtime_row(dice: Random, moment: datetime, project: str) -> Fields:
    """Return one line of the websocket server."""
    level = pick(dice, _LEVELS)
    time = int(moment.timestamp()) * 1_000_000 + moment.microsecond
    return {
        "event_message": _REALTIME_MESSAGES[level].format(project=project, number=dice.randrange(1, 500)),
        "metadata": {
            "external_id": project,
            "level": level,
            "project": project,
            "context": {
                "application": "realtime",
                "domain": ["elixir"],
                "file": "lib/example/channel.ex",
                "function": "handle_info/2",
                "gl": "<0.1200.0>",
                "line": dice.randrange(10, 400),
                "mfa": ["Elixir.Example.Channel", "handle_info", "2"],
                "module": "Elixir.Example.Channel",
                "pid": f"<0.{dice.randrange(1000, 9000)}.2>",
                "time": time,
                "vm": {"node": f"realtime@2001:db8:0:0:a7b:1:2:{dice.randrange(1, 5)}"},
            },
        },
    }


def storage_row(dice: Random, moment: datetime, project: str) -> Fields:
    """Return one request at the object storage."""
    level = pick(dice, _LEVELS)
    status = {"info": "200", "warning": "404", "error": "500"}[level]
    method, target = dice.choice(("GET", "GET", "POST", "DELETE")), dice.choice(_STORAGE_OBJECTS)
    return {
        "event_message": f"{method} | {status} | {target} | {milliseconds(dice, 25)}ms",
        "metadata": {
            "level": level,
            "project": project,
            "tenantId": project,
            "reqId": f"{hexadecimal(dice, 16)}-LIS",
            "context": {"host": f"ip-10-0-0-{dice.randrange(1, 255)}.internal.example", "pid": 1},
        },
    }


def rest_row(dice: Random, moment: datetime, project: str) -> Fields:
    """Return one free-text line of the REST layer."""
    return {
        "event_message": pick(dice, _REST_LINES).format(number=dice.randrange(1, 64)),
        "project": project,
        "metadata": {"host": f"rest-{project}"},
    }


def pooler_row(dice: Random, moment: datetime, project: str) -> Fields:
    """Return one line of the connection pooler: `C-0x7f20aa10c240: app/app_rw@198.51.100.7:51822 …`."""
    message = pick(dice, _POOLER_LINES).format(number=dice.randrange(1, 3600))
    return {
        "event_message": f"{dice.choice('CS')}-0x7f{hexadecimal(dice, 10)}: app/app_rw@{client_peer(dice)} {message}",
        "project": project,
        "metadata": {"host": f"pool-{project}"},
    }
