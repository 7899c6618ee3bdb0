"""load_logs against psql's bare COPY of rows into the same table."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import psycopg
from psycopg.conninfo import conninfo_to_dict

from benchmarks.limits import postgres_program
from benchmarks.measured import Measured, side_by_side
from benchmarks.stand import STAND_DAYS, Stand
from tests.live.processes import PROJECT

NAME = "loading"
ROWS = 60_000
COLUMNS = "id, timestamp, event_message, project, metadata"


def measure(stand: Stand, *, rounds: int, seconds: float) -> Iterator[Measured]:
    """Yield the rows a second of `load_logs` against those of COPY, both into the emptied table with its indexes."""
    with TemporaryDirectory() as folder:
        rows, copied = Path(folder) / "rows.ndjson", Path(folder) / "rows.copy"
        options = ["--rows", str(ROWS), "--days", str(STAND_DAYS // 10), "--source", "edge_logs", "--seed", "bench"]
        _manage(stand, "generate_logs", *options, "--output", str(rows))
        _empty(stand)
        _manage(stand, "load_logs", "edge_logs", str(rows))
        _psql(stand, f"\\copy (SELECT {COLUMNS} FROM logs.edge_logs) TO '{copied}'")
        figures = []
        for _ in range(rounds):
            _empty(stand)
            started = perf_counter()
            _psql(stand, f"\\copy logs.edge_logs ({COLUMNS}) FROM '{copied}'")
            copy_seconds = perf_counter() - started
            _empty(stand)
            started = perf_counter()
            _manage(stand, "load_logs", "edge_logs", str(rows))
            figures.append({"copy": ROWS / copy_seconds, "load_logs": ROWS / (perf_counter() - started)})
    yield Measured(
        "load_logs",
        "psql's COPY of the same rows",
        "rows/s",
        side_by_side(figures, "load_logs"),
        side_by_side(figures, "copy"),
        target=0.35,
        at_least=True,
        note=f"{ROWS:,} gateway rows, starting the command included",
    )


def _empty(stand: Stand) -> None:
    with psycopg.connect(stand.superuser_url, autocommit=True) as connection:
        connection.execute("TRUNCATE logs.edge_logs")


def _psql(stand: Stand, command: str) -> None:
    parts = conninfo_to_dict(stand.superuser_url)
    environment = {**os.environ, "PGPASSWORD": str(parts["password"])}
    place = ["--host", str(parts["host"]), "--port", str(parts.get("port", 5432)), "--username", str(parts["user"])]
    arguments = [str(postgres_program("psql")), "--no-psqlrc", "--quiet", *place, "--dbname", str(parts["dbname"])]
    subprocess.run([*arguments, "--command", command], env=environment, check=True, stdout=subprocess.DEVNULL)


def _manage(stand: Stand, *arguments: str) -> None:
    subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=PROJECT,
        env=stand.installation.environment,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
