"""The daily partitions of the audit log in Django's database: made ahead, dropped when their days are over.

A table is made first and attached then: unlike CREATE TABLE … PARTITION OF this does not stop calls that are written
or read (PostgreSQL, "Table Partitioning", 5.12.2.2). Whoever writes a day that has no partition yet makes it himself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

from django.conf import settings
from django.db import connection, transaction
from psycopg import sql

TABLE: Final = "endpoints_call"
DAYS_AHEAD: Final = 3  # beat may be away for a weekend
MINUTES_KEPT: Final = timedelta(hours=26)  # what the pages of an hour and of alerts read, and some time
_PARTITION = re.compile(r"endpoints_call_d([0-9]{8})")
_LOCK: Final = 7_361_500_017  # of pg_advisory_xact_lock: one process makes partitions at a time
_LOCK_TIMEOUT: Final = "2s"  # the next hour tries again


def roll_call_partitions(*, today: date | None = None) -> None:
    """Make the partitions of today and the next days; drop what is older than ENDPOINTS_AUDIT_DAYS.

    Raises django.db.Error; what was done before stays done.
    """
    today = today or datetime.now(UTC).date()
    kept = max(settings.ENDPOINTS_AUDIT_DAYS, 0)
    if kept:
        make_partitions(today + timedelta(days=ahead) for ahead in range(DAYS_AHEAD + 1))
    first = today - timedelta(days=kept) if kept else today + timedelta(days=DAYS_AHEAD + 1)
    for day in sorted(_days()):
        if day < first:
            with transaction.atomic(), connection.cursor() as cursor:
                _take_turn(cursor)
                cursor.execute(_statement("DROP TABLE IF EXISTS {name}", day))
    with connection.cursor() as cursor:
        oldest = datetime.combine(first, time(), UTC)
        cursor.execute("DELETE FROM endpoints_call_minute WHERE start < %s", [datetime.now(UTC) - MINUTES_KEPT])
        cursor.execute("DELETE FROM endpoints_call_hour WHERE start < %s", [oldest])
        cursor.execute("DELETE FROM endpoints_call_day WHERE day < %s", [first])


def make_partitions(days: Iterable[date]) -> None:
    """Make the partitions of these days that are missing. Raises django.db.Error."""
    missing = sorted(set(days) - _days())
    for day in missing:
        with transaction.atomic(), connection.cursor() as cursor:
            _take_turn(cursor)
            if day in _days():  # another process was faster
                continue
            cursor.execute(_statement("CREATE TABLE {name} (LIKE {table} INCLUDING ALL)", day))
            cursor.execute(
                _statement("ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ({low}) TO ({high})", day)
            )


def _take_turn(cursor: Any) -> None:
    cursor.execute(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'")
    cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])


def _statement(text: str, day: date) -> sql.Composed:
    low = datetime.combine(day, time(), UTC)
    return sql.SQL(text).format(
        name=sql.Identifier(f"{TABLE}_d{day:%Y%m%d}"),
        table=sql.Identifier(TABLE),
        low=sql.Literal(low.isoformat()),
        high=sql.Literal((low + timedelta(days=1)).isoformat()),
    )


def _days() -> set[date]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT child.relname FROM pg_inherits JOIN pg_class child ON child.oid = inhrelid"
            " WHERE inhparent = %s::regclass",
            [TABLE],
        )
        names = [name for (name,) in cursor.fetchall()]
    found = (_PARTITION.fullmatch(name) for name in names)
    return {datetime.strptime(match[1], "%Y%m%d").replace(tzinfo=UTC).date() for match in found if match}
