"""Differential fuzzing of the sandbox's checker against PostgreSQL's own parser.

    python -m tests.fuzz.sandbox --queries 200000 --seed 1

Queries are generated, mutated, and taken from the attack and legit cases with edits. For every one that the checker
accepts, the parse tree of the statement that would run is judged by `tests.fuzz.oracle`. Anything the checker raises
but its own refusals ends the run. The exit status is 1 when a complaint was found; the query is printed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from endpoints.errors import RequestTooLarge, SandboxViolation
from endpoints.sql.parameters import DeclaredParameter
from endpoints.sql.sandbox import CheckedQuery, SandboxTable, check_sandbox_query
from tests.fuzz.generator import MORE_TABLES, TABLES, QueryGenerator
from tests.fuzz.mutations import mutated
from tests.fuzz.oracle import complaints, parses

CASES = Path(__file__).resolve().parent.parent / "cases"
SANDBOX_TABLES = (
    *(SandboxTable(name, columns) for name, columns in TABLES.items()),
    *(SandboxTable(name, TABLES["edge_logs"]) for name in MORE_TABLES),
)
PARAMETERS = (DeclaredParameter("p"),)
TABLE_NAMES = frozenset(table.name for table in SANDBOX_TABLES)


@dataclass
class Tally:
    """What came of the queries so far."""

    queries: int = 0
    accepted: int = 0
    unparsable: int = 0
    complaints: list[str] = field(default_factory=list)


def corpus() -> tuple[str, ...]:
    """Return the texts of all cases."""
    texts = []
    for name in ("attacks", "legit"):
        lines = (CASES / f"{name}.jsonl").read_text().splitlines()
        texts += [json.loads(line)["sql"] for line in lines]
    return tuple(text for text in texts if len(text) < 2_000)


def random_texts(seed: int) -> Iterator[str]:
    """Yield queries without end, the same for the same seed."""
    random = Random(seed)
    texts = corpus()
    tame = QueryGenerator(random)
    hostile = QueryGenerator(random, hostility=0.03)
    while True:
        generated = (tame if random.random() < 0.5 else hostile).query_text()
        yield generated
        yield mutated(random, generated, texts)
        yield mutated(random, random.choice(texts), texts)


def accepted(text: str) -> CheckedQuery | None:
    """Return what the checker made of the text, None when it refused."""
    try:
        return check_sandbox_query(text, tables=SANDBOX_TABLES, parameters=PARAMETERS)
    except (SandboxViolation, RequestTooLarge):
        return None


def examine(text: str, tally: Tally) -> None:
    """Check one text and judge it when it is accepted."""
    tally.queries += 1
    checked = accepted(text)
    if checked is None:
        return
    tally.accepted += 1
    statement = checked.statement({"p": "x"}, max_rows=100).sql
    if not parses(statement):
        tally.unparsable += 1
        return
    found = complaints(statement, TABLE_NAMES)
    if found:
        tally.complaints.append(f"{found}\n  {text!r}\n  {checked.sql!r}")


def run(queries: int, seed: int, *, progress: bool = False) -> Tally:
    """Examine this many random queries."""
    tally = Tally()
    started = time.monotonic()
    for text in random_texts(seed):
        if tally.queries >= queries:
            break
        examine(text, tally)
        if progress and tally.queries % 1_000 == 0:
            rate = tally.queries / (time.monotonic() - started)
            line = f"{tally.queries} queries, {tally.accepted} accepted, {tally.unparsable} of them unparsable, "
            sys.stderr.write(f"\r{line}{len(tally.complaints)} complaints, {rate:.0f}/s")
    return tally


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    tally = run(options.queries, options.seed, progress=True)
    sys.stderr.write("\n")
    for complaint in tally.complaints:
        sys.stdout.write(complaint + "\n")
    sys.stdout.write(
        f"{tally.queries} queries, {tally.accepted} accepted, {tally.unparsable} unparsable, "
        f"{len(tally.complaints)} complaints\n"
    )
    return 1 if tally.complaints else 0


if __name__ == "__main__":
    sys.exit(main())
