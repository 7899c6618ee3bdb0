"""Fuzzing of the BigQuery dialect: every text ends in rows or in a refusal that tells the caller what is wrong.

    python -m tests.fuzz.bigquery --queries 20000 --seed 1 [--database URL --schema NAME]

Texts are generated, mutated, and taken from the cases with edits. Each is translated and checked; what passes the
checker is judged by PostgreSQL's own parser (`tests.fuzz.oracle`), and run where a database is given. Anything else
than rows, a refusal, or an error of PostgreSQL that a caller can make sense of is a complaint; the exit status is 1
then, and the text is printed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import psycopg

from endpoints.dialects import DIALECTS
from endpoints.errors import EndpointError
from endpoints.results.outcomes import Column, SandboxDialect, Statement
from endpoints.sql.lexemes import LexicalError
from endpoints.sql.parameters import DeclaredParameter
from endpoints.sql.sandbox import CheckedQuery
from googlesql import Refused
from tests.fuzz.bigquery_texts import TABLES, TextGenerator
from tests.fuzz.mutations import mutated
from tests.fuzz.oracle import complaints, parses
from tests.linear import takes_longer_than

CASES = Path(__file__).resolve().parent.parent / "cases" / "bigquery"
COLUMNS = (
    Column("timestamp", "timestamp with time zone"),
    Column("id", "uuid"),
    Column("event_message", "text"),
    Column("metadata", "jsonb"),
)
BIGQUERY = DIALECTS[SandboxDialect.BIGQUERY]
BIGQUERY_TABLES = dict.fromkeys(TABLES, COLUMNS)
PARAMETERS = (DeclaredParameter("project"),)
SLOW_SECONDS = 1.0
# Classes of SQLSTATE that a text can be to blame for: data, syntax and rules, limits of the server, cancellation.
BLAMELESS_CLASSES = ("22", "42", "53", "54", "57", "21", "0A")
SURELY_OURS = ("42501", "42P01", "42601")  # privileges, tables, syntax: nothing that was checked may end in these

Runner = Callable[[Statement], str]  # "" for rows, else PostgreSQL's SQLSTATE


@dataclass
class Tally:
    """What came of the texts so far."""

    texts: int = 0
    accepted: int = 0
    states: Counter[str] = field(default_factory=Counter)
    complaints: list[str] = field(default_factory=list)


def corpus() -> list[str]:
    """Return the texts of all cases."""
    lines = [line for name in ("constructs", "clients") for line in (CASES / f"{name}.jsonl").read_text().splitlines()]
    return [json.loads(line)["sql"] for line in lines]


def random_texts(seed: int) -> Iterator[str]:
    """Yield texts without end, the same for the same seed."""
    random = Random(seed)
    texts = tuple(text for text in corpus() if len(text) < 2_000)
    generator = TextGenerator(random)
    while True:
        generated = generator.text()
        yield generated
        yield generator.text()
        yield mutated(random, generated, texts)
        yield mutated(random, random.choice(texts), texts)


def examine(text: str, tally: Tally, run: Runner | None) -> None:
    """Translate, check and run one text."""
    tally.texts += 1
    started = time.thread_time()
    try:
        query, _ = BIGQUERY.check(text, tables=BIGQUERY_TABLES, parameters=PARAMETERS)
    except EndpointError as refusal:
        cause = refusal.__cause__
        if not isinstance(cause, Refused | LexicalError | None):
            tally.complaints.append(f"{cause!r}\n  {text!r}")
        elif refusal.status not in (400, 413):
            tally.complaints.append(f"{refusal.status} {refusal.message}\n  {text!r}")
        return
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what we look for
        tally.complaints.append(f"{type(error).__name__}: {error}\n  {text!r}")
        return
    finally:
        if time.thread_time() - started > SLOW_SECONDS and _is_slow(text):
            tally.complaints.append(f"took more than {SLOW_SECONDS} s\n  {text!r}")
    tally.accepted += 1
    tally.complaints += [f"{found}\n  {text!r}" for found in _faults(query, run, tally)]


def _is_slow(text: str) -> bool:
    def translate() -> None:
        BIGQUERY.check(text, tables=BIGQUERY_TABLES, parameters=PARAMETERS)

    return takes_longer_than(SLOW_SECONDS, translate, refusals=(EndpointError,))


def _faults(query: CheckedQuery, run: Runner | None, tally: Tally) -> Iterator[str]:
    statement = query.statement({"project": "acme"}, max_rows=100)
    if not parses(statement.sql):
        yield f"unparsable: {statement.sql}"
    elif found := complaints(statement.sql, frozenset(TABLES)):
        yield f"{found}: {statement.sql}"
    elif run is not None:
        state = run(statement)
        tally.states[state] += 1
        if state and (state in SURELY_OURS or not state.startswith(BLAMELESS_CLASSES)):
            yield f"SQLSTATE {state}: {statement.sql}"


def run_texts(texts: int, seed: int, run: Runner | None = None, *, progress: bool = False) -> Tally:
    """Examine this many random texts."""
    tally = Tally()
    for text in random_texts(seed):
        if tally.texts >= texts:
            break
        examine(text, tally, run)
        if progress and tally.texts % 500 == 0:
            sys.stderr.write(f"\r{tally.texts} texts, {tally.accepted} accepted, {len(tally.complaints)} complaints ")
    return tally


def database_runner(url: str, schema: str) -> Runner:
    """Return what runs a statement in a schema with the tables."""
    connection = psycopg.connect(url, autocommit=True)
    connection.execute("SELECT set_config('search_path', %s, false)", [f'"{schema}", pg_catalog'])
    connection.execute("SELECT set_config('statement_timeout', '3s', false), set_config('TimeZone', 'UTC', false)")
    connection.execute("SELECT set_config('default_transaction_read_only', 'on', false)")

    def run(statement: Statement) -> str:
        try:
            with psycopg.RawCursor(connection) as cursor:
                cursor.execute(statement.sql.encode(), statement.arguments or None)
        except psycopg.Error as error:
            return error.sqlstate or "?"
        return ""

    return run


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database", default="", help="where to run what was accepted; nothing is changed there")
    parser.add_argument("--schema", default="public", help="the schema there that has the tables")
    options = parser.parse_args()
    run = database_runner(options.database, options.schema) if options.database else None
    tally = run_texts(options.queries, options.seed, run, progress=True)
    sys.stderr.write("\n")
    for complaint in tally.complaints:
        sys.stdout.write(complaint + "\n")
    states = ", ".join(f"{state or 'rows'}: {count}" for state, count in tally.states.most_common())
    sys.stdout.write(f"{tally.texts} texts, {tally.accepted} accepted ({states}), {len(tally.complaints)} complaints\n")
    return 1 if tally.complaints else 0


if __name__ == "__main__":
    sys.exit(main())
