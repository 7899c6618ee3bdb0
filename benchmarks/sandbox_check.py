"""How long the sandbox's checker takes: a typical query of about 1 kB, and texts of 16 KiB made to be slow.

    .venv/bin/python -m benchmarks.sandbox_check

Prints the median and the worst of the runs in milliseconds of one core. No part of the suite: it times.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from statistics import median
from time import process_time

from endpoints.errors import EndpointError
from endpoints.sql.sandbox import SandboxTable, check_sandbox_query

RUNS = 40
LIMIT_BYTES = 16 * 1024
TABLES = [SandboxTable(name, ("timestamp", "id", "event_message", "metadata")) for name in ("edge_logs", "auth_logs")]

TYPICAL = """
with requests as (
  select date_trunc('minute', timestamp, 'UTC') as minute, metadata #>> '{0,request,0,path}' as path,
    (metadata #>> '{0,response,0,status_code}')::int as status, event_message
  from edge_logs
  where timestamp > now() - interval '1 hour' and event_message !~ 'health'
), failures as (
  select minute, path, count(*) filter (where status >= 500) as errors, count(*) as requests,
    round(100.0 * count(*) filter (where status >= 500) / nullif(count(*), 0), 2) as percent
  from requests group by minute, path having count(*) > 10
)
select f.minute, f.path, f.errors, f.requests, f.percent,
  rank() over (partition by f.minute order by f.errors desc nulls last) as place,
  (select count(*) from auth_logs a where a.timestamp between f.minute and f.minute + interval '1 minute'
    and a.event_message like '%invalid login%') as failed_logins
from failures f
where f.percent > 1 and f.path is not null and f.path not in ('/livez', '/readyz') and length(f.path) < 200
order by f.minute desc, f.errors desc, f.path asc limit 100
"""


def fill(prefix: str, piece: str, suffix: str = "") -> str:
    """Return the longest text of whole pieces that fits the limit."""
    return prefix + piece * ((LIMIT_BYTES - len(prefix) - len(suffix)) // len(piece)) + suffix


TEXTS = {
    "typical, 1 kB": TYPICAL,
    "sum of ones": fill("select 1", "+1"),
    "list of columns": fill("select id", ",id", " from edge_logs"),
    "open brackets": fill("select ", "("),
    "one string": fill("select '", "x", "'"),
    "comments": fill("select 1 ", "/**/"),
    "dollar quotes": fill("select ", "$$'$$,"),
    "quotes": fill("select ", "''"),
    "operators": fill("select 1", "- "),
    "casts": fill("select 1", "::int"),
    "white space": fill("select 1", " \n"),
}


def milliseconds(sql: str) -> float:
    started = process_time()
    # Most of the texts made to be slow are refused, and refusing takes time too.
    with suppress(EndpointError):
        check_sandbox_query(sql, tables=TABLES)
    return (process_time() - started) * 1000


def main() -> None:
    width = max(map(len, TEXTS))
    sys.stdout.write(f"{'text':<{width}}  {'bytes':>6}  {'median ms':>9}  {'worst ms':>8}\n")
    for name, sql in TEXTS.items():
        times = [milliseconds(sql) for _ in range(RUNS)]
        sys.stdout.write(f"{name:<{width}}  {len(sql):>6}  {median(times):>9.2f}  {max(times):>8.2f}\n")


if __name__ == "__main__":
    main()
