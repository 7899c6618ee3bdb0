"""Rows of database_logs: the database server's own lines, parsed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Final

from logsources.generation.vocabulary import Fields, client_peer, hexadecimal, pick


@dataclass(frozen=True, slots=True)
class _Happening:
    """A message of the server: SQLSTATE, command tag and the line, with {number} for a random number."""

    sql_state_code: str
    command_tag: str
    message: str


_SEVERITIES: Final = {"LOG": 780, "INFO": 20, "NOTICE": 40, "WARNING": 50, "ERROR": 95, "FATAL": 14, "PANIC": 1}
_HAPPENINGS: Final = {
    "LOG": (
        _Happening("00000", "", "connection authorized: user=app_rw database=app SSL enabled (protocol=TLSv1.3)"),
        _Happening(
            "00000", "SELECT", "duration: {number}.207 ms  execute <unnamed>: select * from orders where id = $1"
        ),
        _Happening("00000", "", "checkpoint complete: wrote {number} buffers (0.3%); 0 WAL file(s) added"),
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
    return {
        "event_message": happening.message.format(number=dice.randrange(1, 9000)),
        "project": project,
        "metadata": {
            "host": f"db-{project}",
            "parsed": {
                "backend_type": "client backend" if happening.command_tag else "checkpointer",
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
