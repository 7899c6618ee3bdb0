"""Gateway rows of about 1 kB, made up by PostgreSQL itself: a million of them in under a minute."""

from __future__ import annotations

import json
from typing import Any, Final

import psycopg

METADATA: Final = json.dumps(
    [
        {
            "request": [
                {
                    "method": "GET",
                    "path": "/%s/v1/orders",
                    "url": "https://%s.example.com/%s/v1/orders?select=id",
                    "headers": [{"user_agent": "ExampleClient/2.1 " + "x" * 400, "host": "acme.example.com"}],
                    "cf": [{"country": "PT", "city": "Lisbon", "asn": 64500}],
                }
            ],
            "response": [{"status_code": 200, "origin_time": 12, "headers": [{"content_type": "application/json"}]}],
        }
    ]
)


BATCH: Final = 1_000_000


def empty(connection: psycopg.Connection[Any]) -> None:
    """Remove all gateway rows."""
    connection.execute("TRUNCATE logs.edge_logs")


def fill(connection: psycopg.Connection[Any], rows: int, *, days: int) -> None:
    """Make up gateway rows evenly over the last days, in PostgreSQL itself."""
    for first in range(0, rows, BATCH):
        _insert(connection, min(BATCH, rows - first), days)
    connection.execute("VACUUM (ANALYZE) logs.edge_logs")


def _insert(connection: psycopg.Connection[Any], rows: int, days: int) -> None:
    connection.execute(
        """
        INSERT INTO logs.edge_logs (id, timestamp, event_message, project, metadata)
        SELECT gen_random_uuid()::text, now() - random() * $2 * interval '1 day', 'GET | 200 | made up', tenant,
            format($3, area, tenant, area)::jsonb
        FROM generate_series(1, $1::int) AS n,
            LATERAL (SELECT (ARRAY['acme', 'globex', 'initech'])[1 + n % 3] AS tenant,
                (ARRAY['rest', 'storage', 'auth', 'realtime', 'other'])[1 + n % 5] AS area) AS made
        """,
        (rows, days, METADATA),
    )
