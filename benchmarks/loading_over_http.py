"""How many rows a second come in over HTTP: a running installation, and shippers that send batches without pause.

.venv/bin/python -m benchmarks.loading_over_http                      20 s, 4 shippers, batches of 500 rows of 1 kB
.venv/bin/python -m benchmarks.loading_over_http --gzip --no-fsync
.venv/bin/python -m benchmarks.loading_over_http --without id timestamp
.venv/bin/python -m benchmarks.loading_over_http --form otlp           log records in protobuf; otlp-json: in JSON

The shippers run on the same machine as the service and its servers. At the end the rows in the table are counted.
"""

from __future__ import annotations

import argparse
import gzip
import http.client
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from random import Random

import orjson
import psycopg

from benchmarks.otlp_bodies import as_json, request_of
from logsources.generation import generate_rows
from tests.live.installation import Installation

# What anybody would give PostgreSQL on such a machine.
SERVER_SETTINGS = {"shared_buffers": "256MB", "max_wal_size": "8GB"}
# By form: where batches go, and their content type.
FORMS = {
    "rows": ("/api/logs?source_name=cloudflare.logs.prod", "application/json"),
    "otlp": ("/v1/logs?source=edge_logs", "application/x-protobuf"),
    "otlp-json": ("/v1/logs?source=edge_logs", "application/json"),
}
MARK = b"@@mark@@"  # in every row of a template, replaced for each batch
TEMPLATES = 8


@dataclass
class Sent:
    """What one shipper has seen."""

    rows: int = 0
    seconds: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)


def template(number: int, options: argparse.Namespace) -> bytes:
    """Return a batch of gateway rows of about that size, with the mark in id and message of each."""
    rows = []
    dice = Random(number)
    generated = generate_rows(
        "edge_logs",
        count=options.batch,
        until=datetime.now(UTC),
        days=0.02,
        projects=["acme", "globex"],
        seed=str(number),
    )
    for index, row in enumerate(map(orjson.loads, generated)):
        metadata = row["metadata"]
        cf = metadata["request"]["cf"]
        for name in sorted(cf, key=lambda _: dice.random()):
            if len(orjson.dumps(row)) <= options.row_bytes:
                break
            del cf[name]
        row["event_message"] = f"{row['event_message']} {MARK.decode()}"
        row["id"] = f"{MARK.decode()}-{number:02}-{index:06}"
        rows.append({name: value for name, value in row.items() if name not in options.without})
    if options.form == "rows":
        return orjson.dumps(rows)
    request = request_of(rows)
    return as_json(request) if options.form == "otlp-json" else request.SerializeToString()


def ship(port: int, secret: str, templates: Sequence[bytes], marks: count[int], options: argparse.Namespace) -> Sent:
    """Send batches until the time is over; one that is not taken is sent again."""
    sent = Sent()
    path, content_type = FORMS[options.form]
    headers = {"X-API-KEY": secret, "Content-Type": content_type}
    headers |= {"Content-Encoding": "gzip"} if options.gzip else {}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    end = time.monotonic() + options.seconds
    while time.monotonic() < end:
        mark = next(marks)
        body = templates[mark % len(templates)].replace(MARK, f"{mark:08}".encode())
        if options.gzip:
            body = gzip.compress(body, 1)
        status = 0
        while status != 200:
            started = time.monotonic()
            connection.request("POST", path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
            status = answer.status
            sent.statuses[status] += 1
            if status == 200:
                sent.seconds.append(time.monotonic() - started)
                # OTLP's answer names only what is not stored; at the end the rows in the table are counted.
                sent.rows += orjson.loads(content)["result"][0]["loaded"] if options.form == "rows" else options.batch
            elif status not in (429, 503):
                raise RuntimeError(content.decode())
            else:
                time.sleep(0.02)
    connection.close()
    return sent


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures; return 1 where rows are missing or doubled."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--shippers", type=int, default=4)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--row-bytes", type=int, default=1000)
    parser.add_argument("--form", choices=FORMS, default="rows")
    parser.add_argument("--gzip", action="store_true")
    parser.add_argument("--no-fsync", action="store_true", help="leave the disk out of it")
    parser.add_argument("--without", nargs="*", default=[], help="fields that the rows do not bring")
    options = parser.parse_args(arguments)
    settings = {**SERVER_SETTINGS, **({"fsync": "off"} if options.no_fsync else {})}
    templates = [template(number, options) for number in range(TEMPLATES)]
    with Installation(rows=9, days=1, server_settings=settings) as installation:
        secret = installation.console.do("issue", name="shipper", may_load=True, no_endpoints=True)
        marks = count()
        ship(installation.port, secret, templates, marks, argparse.Namespace(**{**vars(options), "seconds": 1}))
        before = count_rows(installation)
        started = time.monotonic()
        with ThreadPoolExecutor(options.shippers) as pool:
            running = [
                pool.submit(ship, installation.port, secret, templates, marks, options) for _ in range(options.shippers)
            ]
            sent = [each.result() for each in running]
        elapsed = time.monotonic() - started
        after = count_rows(installation)
    return report(sent, elapsed, stored=after - before, options=options)


def count_rows(installation: Installation) -> int:
    with psycopg.connect(str(installation.servers.urls.superuser_url)) as connection:
        (rows,) = connection.execute("SELECT count(*) FROM logs.edge_logs").fetchone() or (0,)
    return int(rows)


def report(sent: Sequence[Sent], elapsed: float, *, stored: int, options: argparse.Namespace) -> int:
    rows = sum(each.rows for each in sent)
    times = sorted(second for each in sent for second in each.seconds)
    statuses = sum((each.statuses for each in sent), Counter[int]())
    sys.stdout.write(
        f"{rows / elapsed:,.0f} rows/s: {rows:,} rows in {elapsed:.1f} s by {options.shippers} shippers,"
        f" p50 {times[len(times) // 2] * 1000:.0f} ms, p99 {times[len(times) * 99 // 100] * 1000:.0f} ms a batch,"
        f" answers {dict(statuses)}, {stored:,} rows stored\n"
    )
    return 0 if stored == rows else 1


if __name__ == "__main__":
    raise SystemExit(main())
