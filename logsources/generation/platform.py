"""Rows of the services behind the gateway: realtime_logs, storage_logs, rest_logs and pooler_logs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Final

from logsources.generation.vocabulary import (
    FUNCTION_NAMES,
    REGIONS,
    USER_AGENTS,
    Fields,
    client_peer,
    function_id,
    hexadecimal,
    http_date,
    milliseconds,
    pick,
    random_uuid,
)

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


# --- Functions --------------------------------------------------------------------------------------------------------
# Rows of function_edge_logs (one per invocation) and function_logs (the output of a running function).
_STATUS_CODES: Final = {"200": 880, "202": 40, "400": 20, "401": 15, "404": 5, "500": 30, "504": 10}
_FUNCTION_LEVELS: Final = {"info": 700, "log": 150, "debug": 50, "warning": 60, "error": 40}
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
    level = pick(dice, _FUNCTION_LEVELS) if event_type == "log" else "log"
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


# --- Database ---------------------------------------------------------------------------------------------------------
# Rows of database_logs: the database server's own lines, parsed.
@dataclass(frozen=True, slots=True)
class _Happening:
    """A message of the server: SQLSTATE, command tag and the line, with {number} for a random number."""

    sql_state_code: str
    command_tag: str
    message: str


_SEVERITIES: Final = {"LOG": 780, "INFO": 20, "NOTICE": 40, "WARNING": 50, "ERROR": 95, "FATAL": 14, "PANIC": 1}
_CHECKPOINT: Final = _Happening("00000", "", "checkpoint complete: wrote {number} buffers (0.3%); 0 WAL file(s) added")
_HAPPENINGS: Final = {
    "LOG": (
        _Happening("00000", "", "connection authorized: user=app_rw database=app SSL enabled (protocol=TLSv1.3)"),
        _Happening(
            "00000", "SELECT", "duration: {number}.207 ms  execute <unnamed>: select * from orders where id = $1"
        ),
        _CHECKPOINT,
    ),
    "INFO": (_Happening("00000", "VACUUM", 'vacuuming "app.public.orders"'),),
    "NOTICE": (_Happening("42P07", "CREATE TABLE", 'relation "orders" already exists, skipping'),),
    "WARNING": (
        _Happening("01000", "SELECT", 'temporary file: path "base/pgsql_tmp/pgsql_tmp{number}.0", size 8{number}'),
        _Happening("25P01", "COMMIT", "there is no transaction in progress"),
    ),
    "ERROR": (
        _Happening("23505", "INSERT", 'duplicate key value violates unique constraint "orders_pkey"'),
        _Happening("42P01", "SELECT", 'relation "order_{number}" does not exist'),
        _Happening("57014", "SELECT", "canceling statement due to statement timeout"),
        _Happening("22P02", "SELECT", 'invalid input syntax for type integer: "4\\2"'),
    ),
    "FATAL": (
        _Happening("28P01", "authentication", 'password authentication failed for user "app_rw"'),
        _Happening("53300", "startup", "sorry, too many clients already"),
    ),
    "PANIC": (_Happening("53100", "", 'could not write to file "pg_wal/xlogtemp.{number}": No space left on device'),),
}
# Of its background worker pg_cron, in place of every fourth checkpoint.
_SCHEDULED: Final = (
    _Happening("00000", "", "cron job {number} starting: call app.refresh_reports()"),
    _Happening("00000", "", "cron job {number} COMMAND completed: CALL 0 0"),
)
_CONTEXTS: Final = {
    "INSERT": 'SQL function "place_order" statement 2',
    "SELECT": 'PL/pgSQL function app.report(date) line 7 at RETURN QUERY\n\tSQL statement "select 1"',
}


def database_row(dice: Random, moment: datetime, project: str) -> Fields:
    """Return one line of the project's database server."""
    severity = pick(dice, _SEVERITIES)
    happening = dice.choice(_HAPPENINGS[severity])
    started = moment - timedelta(seconds=dice.randrange(1, 7200))
    process_id = dice.randrange(300, 30_000)
    backend_type = "client backend" if happening.command_tag else "checkpointer"
    if happening is _CHECKPOINT and process_id % 4 == 0:
        happening, backend_type = _SCHEDULED[process_id % 8 // 4], "pg_cron launcher"
    return {
        "event_message": happening.message.format(number=dice.randrange(1, 9000)),
        "project": project,
        "metadata": {
            "host": f"db-{project}",
            "parsed": {
                "backend_type": backend_type,
                "command_tag": happening.command_tag,
                "connection_from": client_peer(dice),
                "context": _CONTEXTS.get(happening.command_tag, ""),
                "database_name": "app",
                "error_severity": severity,
                "leader_pid": 0,
                "process_id": process_id,
                "query_id": dice.randrange(-(2**63), 2**63),
                "session_id": f"{int(started.timestamp()):x}.{process_id:x}",
                "session_line_num": dice.randrange(1, 60),
                "session_start_time": f"{started:%Y-%m-%d %H:%M:%S} UTC",
                "sql_state_code": happening.sql_state_code,
                "timestamp": f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d} UTC",
                "transaction_id": dice.randrange(2**31),
                "user_name": dice.choice(("app_rw", "app_ro", "reporting")),
                "virtual_transaction_id": f"{dice.randrange(1, 90)}/{int(hexadecimal(dice, 4), 16)}",
            },
        },
    }
