"""How long a text in BigQuery's dialect takes to translate and to check, and texts of 16 KiB made to be slow.

    .venv/bin/python -m benchmarks.bigquery_translation [--profile]

Prints medians and worst runs in milliseconds of one core. No part of the suite: it times.
"""

from __future__ import annotations

import cProfile
import json
import pstats
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import median
from time import process_time

from endpoints.dialects import DIALECTS
from endpoints.errors import EndpointError
from googlesql import Column, Refused, translate
from logsources.allowed_functions import ALLOWED_FUNCTIONS

RUNS = 40
LIMIT_BYTES = 16 * 1024
COLUMNS = (
    Column("timestamp", "timestamp with time zone", nullable=False),
    Column("id", "uuid", nullable=False),
    Column("event_message", "text"),
    Column("metadata", "jsonb"),
)
NAMES = (
    "edge_logs", "postgres_logs", "function_edge_logs", "function_logs", "auth_logs", "realtime_logs", "storage_logs",
    "postgrest_logs", "pgbouncer_logs", "supavisor_logs",
)  # fmt: skip
TABLES = dict.fromkeys(NAMES, COLUMNS)
CHECK = DIALECTS["bigquery"].check
CLIENTS = Path(__file__).resolve().parent.parent / "tests" / "cases" / "bigquery" / "clients.jsonl"

TYPICAL = """
select
  timestamp_trunc(t.timestamp, minute) as timestamp,
  countif(response.status_code >= 500) as error_count,
  count(case when response.status_code between 400 and 499 then 1 end) as warning_count,
  count(case when not (response.status_code >= 400) then 1 end) as ok_count,
  round(avg(response.origin_time), 2) as mean,
  approx_quantiles(response.origin_time, 100)[offset(95)] as p95,
from edge_logs t
  cross join unnest(metadata) as m
  cross join unnest(m.request) as request
  cross join unnest(request.headers) as headers
  cross join unnest(m.response) as response
where t.timestamp > '2025-06-01T00:00:00Z' and t.timestamp <= timestamp_sub(current_timestamp(), interval 1 hour)
  and (request.path like '/rest/%' or regexp_contains(request.path, '(?i)^/auth/v1/\\\\w+'))
  and not (headers.user_agent like '%bot%') and safe_cast(m.version as int64) is null
  and request.method in ("GET", "POST", "PUT") and ifnull(headers.referer, '') != 'none'
group by timestamp
order by timestamp desc
limit 100;
"""


def fill(prefix: str, piece: str, suffix: str = "") -> str:
    """Return the longest text of whole pieces that fits the limit."""
    return prefix + piece * ((LIMIT_BYTES - len(prefix) - len(suffix)) // len(piece)) + suffix


TEXTS = {
    "typical, 1 kB": TYPICAL,
    "conditions": "select id from edge_logs where " + " or ".join(["id = 'x'"] * 600),
    "list of numbers": "select 1 in (" + ",".join(["1"] * 1_400) + ")",
    "open brackets": fill("select ", "("),
    "one string": fill("select '", "x", "'"),
    "comments": fill("select 1 ", "/**/"),
    "structs in structs": "select " + "struct(" * 30 + "1" + ")" * 30,
    "subqueries": "select * from " + "(select * from " * 31 + "edge_logs" + ")" * 31,
    "white space": fill("select 1", " \n"),
}


def translated(sql: str) -> object:
    return translate(sql, TABLES, {}, moments="iso", functions=ALLOWED_FUNCTIONS)


def milliseconds(work: Callable[[], object]) -> float:
    started = process_time()
    # Most of the texts made to be slow are refused, and refusing takes time too.
    with suppress(EndpointError, Refused):
        work()
    return (process_time() - started) * 1000


def times_of(sql: str) -> tuple[float, float, float]:
    translating = [milliseconds(lambda: translated(sql)) for _ in range(RUNS)]
    checking = [milliseconds(lambda: CHECK(sql, tables=TABLES)) for _ in range(RUNS)]
    return median(translating), max(translating), median(checking)


def main() -> None:
    if "--profile" in sys.argv:
        with cProfile.Profile() as profile:
            for _ in range(RUNS):
                milliseconds(lambda: translated(TYPICAL))
        pstats.Stats(profile, stream=sys.stdout).sort_stats("cumulative").print_stats(40)
        return
    width = max(map(len, TEXTS))
    sys.stdout.write(f"{'text':<{width}}  {'bytes':>6}  {'translate':>9}  {'worst':>8}  {'and check':>9}\n")
    for name, sql in TEXTS.items():
        middle, worst, checked = times_of(sql)
        sys.stdout.write(f"{name:<{width}}  {len(sql):>6}  {middle:>9.2f}  {worst:>8.2f}  {checked:>9.2f}\n")
    clients = [json.loads(line)["sql"] for line in CLIENTS.read_text(encoding="utf-8").splitlines()]
    per_kilobyte = [times_of(sql)[0] * 1024 / len(sql) for sql in clients]
    sys.stdout.write(f"{len(clients)} clients' texts: median {median(per_kilobyte):.2f} ms for each kB\n")


if __name__ == "__main__":
    main()
