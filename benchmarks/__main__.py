"""Measure the service beside what it is compared with, and write down the ratios.

.venv/bin/python -m benchmarks                       everything, about ten minutes
.venv/bin/python -m benchmarks cached uncached       some of it
.venv/bin/python -m benchmarks ten-million           not in everything: half an hour, 40 GB of disk
.venv/bin/python -m benchmarks --rounds 1 --seconds 2 --no-file
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.load import require_wrk
from benchmarks.measured import Measured
from benchmarks.measurements import (
    attacks,
    cached,
    isolation,
    loading,
    process,
    replicas,
    sizes,
    streams,
    ten_million,
    uncached,
)
from benchmarks.stand import PEERS_PYTHON, SERVER_SETTINGS, STAND_DAYS, STAND_ROWS, Stand
from tests.live.installation import Installation

RESULTS = Path(__file__).parent / "results"
MEASUREMENTS = {
    each.NAME: each
    for each in (cached, uncached, isolation, attacks, streams, process, loading, sizes, replicas, ten_million)
}
LONG = (ten_million.NAME,)  # only when named


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen measurements; return 1 where a target was missed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = f"one of {', '.join(MEASUREMENTS)}; default: all but {', '.join(LONG)}"
    parser.add_argument("names", nargs="*", metavar="NAME", help=known)
    parser.add_argument("--rounds", type=int, default=5, help="how often each comparison is made (default: 5)")
    parser.add_argument("--seconds", type=float, default=5, help="how long callers call in a round (default: 5)")
    parser.add_argument("--no-file", action="store_true", help="write no file below benchmarks/results")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.names) - set(MEASUREMENTS))
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(MEASUREMENTS)}")
    require_wrk()
    if not PEERS_PYTHON.exists():
        parser.error("the peers are not installed: make bench does it")
    measured = run(
        options.names or [name for name in MEASUREMENTS if name not in LONG],
        rounds=options.rounds,
        seconds=options.seconds,
    )
    show(measured)
    if not options.no_file:
        sys.stdout.write(f"Written to {write(measured)}\n")
    return 0 if all(each.is_met for each in measured) else 1


def run(names: Sequence[str], *, rounds: int, seconds: float) -> list[Measured]:
    """Start an installation, take the measurements one after the other and return them."""
    console = Console(stderr=True)
    console.print(f"Starting an installation with {STAND_ROWS:,} rows over {STAND_DAYS} days …")
    measured: list[Measured] = []
    with Installation(rows=STAND_ROWS, days=STAND_DAYS, server_settings=SERVER_SETTINGS) as installation:
        stand = Stand(installation)
        for name in names:
            console.print(f"{name}: {(MEASUREMENTS[name].__doc__ or '').splitlines()[0]}")
            for each in MEASUREMENTS[name].measure(stand, rounds=rounds, seconds=seconds):
                console.print(f"  {each.name} / {each.against}: {each.ratio:.2f}")
                measured.append(each)
    return measured


def show(measured: Sequence[Measured]) -> None:
    table = Table(title="Ratios, the median of the rounds", title_justify="left")
    for column, justify in (("what", "left"), ("against", "left"), ("ours", "right"), ("theirs", "right")):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    for column in ("ratio", "target", "met"):
        table.add_column(column, justify="right")
    for each in measured:
        figures = [_figure(sorted(values)[len(values) // 2], each.unit) for values in (each.ours, each.theirs)]
        target = f"{'≥' if each.at_least else '≤'} {each.target:g}"
        table.add_row(each.name, each.against, *figures, f"{each.ratio:.2f}", target, "yes" if each.is_met else "no")
    Console(width=160).print(table)


def write(measured: Sequence[Measured]) -> Path:
    """Write all rounds and the machine to a file of today's name and return it."""
    RESULTS.mkdir(exist_ok=True)
    now = datetime.now(UTC)
    path = RESULTS / f"{now:%Y-%m-%d-%H%M}.json"
    document = {
        "taken_at": now.isoformat(timespec="seconds"),
        "processors": os.cpu_count(),
        "load_average": os.getloadavg(),
        "python": platform.python_version(),
        "measured": [each.to_json() for each in measured],
    }
    path.write_text(json.dumps(document, indent=1) + "\n")
    return path


def _figure(value: float, unit: str) -> str:
    digits = 0 if value >= 100 else 2
    return f"{value:,.{digits}f} {unit}"


if __name__ == "__main__":
    sys.exit(main())
