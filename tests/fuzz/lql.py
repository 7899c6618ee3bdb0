"""Fuzzing of the LQL parser against a reader of its own that knows nothing but where clauses end.

    python -m tests.fuzz.lql --queries 100000 --seed 42

Queries are put together from clauses, from pieces of clauses, and from the cases with edits. Anything the parser raises
but InvalidLQL ends the run. A query that is accepted must have as many rules as clauses, so that nothing is dropped or
cut in two, and must print as text that reads back the same. The exit status is 1 when there is a complaint.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from endpoints.errors import InvalidLQL
from endpoints.lql import Rules, parse_lql, print_lql
from tests.linear import takes_longer_than

CASES = Path(__file__).resolve().parent.parent / "cases" / "lql.jsonl"
SLOW_SECONDS: Final = 0.5  # of the processor; a query of these lengths takes milliseconds

PATHS: Final = ("a", "m.x", "metadata.y.z", "m.level", "event_message", "t", "timestamp", "f.x", "m", "c0", "..", "m.")
SIGNS: Final = (":", ":>", ":>=", ":<", ":<=", ":~", ":@>", ":@>~", "::", ":=", "")
VALUES: Final = (
    "1", "-1.5e3", "1e+5", "1+5", "007", "NULL", "true", "word", "foo.bar-baz", "1..2", "-5..+5", "a..b",
    "debug..error", "info..warn", "2020-01-01", "2020-02-30", "2020-01-01T00:00:00Z", "2020-01-01..2021-01-01",
    '"x y"', '"\\"', '"\\\\"', '"a\\"b"',
    "(x y)", "(x", "(?i)e+", "(a)(b c)", "^a|b$", '~"x"', '""', "é", "/x", "", "1e999", "9" * 40,
)  # fmt: skip
TIMES: Final = (
    "now", "today", "this@week", "this@s", "last@7d", "last@mm", "last@0h", "1710683222", "1710683222000001",
    "2020-{01..02}-01", "2020-01-01T{00..23}:00:00.{5..75}", "2020-01-01T00:00:00+01:00..1710683222",
    "0001-01-01T00:00:00+00:01", "2020-01-01..2020-01-02", "2020-01-01T00:00:00.000001..2020-01-01T00:00:00",
    "{1999..2000}-02-29", "tomorrow",
)  # fmt: skip
OTHERS: Final = (
    "f:logs", "from:a-b", "s:*", "s:m.a@b", "select:t@", "c:count(*)", "c:p95(m.x)", "c:min(x)", "c:group_by(t::m)",
    "chart:group_by(timestamp::week)", "~re", '~"r e"', "--", "-", "~", "\\\"", '"', "http://x",
)  # fmt: skip
SPACES: Final = (" ", " ", " ", "\n", "\t", "\u00a0", "\u2028", "")
CHARACTERS: Final = ' \t":~@<>=.()-\\{}*1aTtmfsc_\u00e9\u3000\x1f'


@dataclass
class Tally:
    """What came of the queries so far."""

    queries: int = 0
    accepted: int = 0
    complaints: list[str] = field(default_factory=list)


# ── Queries ──


def corpus() -> tuple[str, ...]:
    """Return the texts of all cases."""
    return tuple(json.loads(line)["lql"] for line in CASES.read_text("utf-8").splitlines())


def clause(random: Random) -> str:
    """Return a clause, often right and sometimes not."""
    dash = random.choice(("", "", "", "-"))
    kind = random.randrange(10)
    if kind < 2:
        return dash + random.choice(OTHERS)
    if kind < 4:
        sign = random.choice((":", ":", ":", *SIGNS))
        return f"{dash}{random.choice(('t', 'timestamp'))}{sign}{random.choice(TIMES)}"
    path = random.choice(PATHS[:5]) if kind < 9 else random.choice(PATHS)
    sign = random.choice(SIGNS[:8]) if kind < 9 else random.choice(SIGNS)
    return dash + path + sign + random.choice(VALUES)


def edited(random: Random, text: str) -> str:
    """Return the text with one to three characters or stretches replaced, dropped or put in."""
    for _ in range(random.randint(1, 3)):
        at = random.randint(0, len(text))
        cut = random.choice((0, 0, 1, 1, random.randint(0, 6)))
        put = random.choice((random.choice(CHARACTERS), "", random.choice(VALUES), random.choice(SIGNS)))
        text = text[:at] + put + text[at + cut :]
    return text


def random_texts(seed: int) -> Iterator[str]:
    """Yield queries without end, the same for the same seed."""
    random = Random(seed)
    texts = corpus()
    while True:
        clauses = [clause(random) for _ in range(random.randint(1, 4))]
        text = "".join(part + random.choice(SPACES) for part in clauses)
        yield text
        yield edited(random, text)
        yield edited(random, random.choice(texts))
        yield "".join(random.choice(CHARACTERS) for _ in range(random.randint(0, 20)))
        yield random.choice(texts) + random.choice(SPACES) + random.choice(texts)


# ── Judgement ──


def clause_texts(text: str) -> list[str]:
    """Return the clauses, by the one rule that white space outside quotes and parentheses of a value ends them."""
    clauses = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        start = at
        opening = re.compile(r"-?(?:[A-Za-z0-9_.]+:[<>=@~]*|~?)(?=[\"(])").match(text, at)
        if opening and text[opening.end()] == '"':
            at = opening.end() + 1
            while at < len(text) and text[at] != '"':
                at += 2 if text[at] == "\\" else 1
        elif opening and ":" in opening.group():
            at = text.find(")", opening.end())
            at = len(text) if at < 0 else at
        while at < len(text) and not text[at].isspace():
            at += 1
        clauses.append(text[start:at])
    return clauses


def is_chart(clause: str) -> bool:
    """A plain word behind `c:` is the value of a field `c`, unless it is the name of a chart."""
    match = re.match("(?:c|chart):(.*)", clause, re.DOTALL)
    charts = ("group_by", "count", "countd", "avg", "sum", "max", "p50", "p95", "p99")
    return match is not None and (match[1] in charts or not re.fullmatch(r"[A-Za-z0-9_.-]+", match[1]))


def complaints(text: str, rules: Rules) -> list[str]:
    """Return what is wrong with what the parser made of the text."""
    found = []
    clauses = clause_texts(text)
    charts = [part for part in clauses if is_chart(part)]
    made = len(list(rules)) - bool(rules.chart)
    if made != len(clauses) - len(charts) or bool(charts) != bool(rules.chart):
        found.append(f"{len(clauses)} clauses, {len(charts)} of them charts, became {list(rules)}")
    negated = [part.startswith("-") for part in clauses if not (is_chart(part) or re.match("(s|select|f|from):", part))]
    if [rule.negated for rule in rules.filters] != negated:
        found.append(f"dashes were lost: {list(rules)}")
    printed = print_lql(rules)
    try:
        if parse_lql(printed) != rules:
            found.append(f"printed as {printed!r}, which says {list(parse_lql(printed))}, not {list(rules)}")
    except InvalidLQL as refusal:
        found.append(f"printed as {printed!r}, which is refused: {refusal.message}")
    return found


def tells_well(text: str, detail: Mapping[str, Any]) -> bool:
    """Return whether a refusal gives a place in the text and speaks of nothing that only the grammar names."""
    lines = re.split(r"\r\n|\n|\r", text)
    line, column = detail["line"], detail["column"]
    in_text = 1 <= line <= len(lines) and 1 <= column <= len(lines[line - 1]) + 1
    told = " ".join(detail.get("expected", ()))
    return in_text and bool(detail["reason"]) and not re.search(r"\b[A-Z]+_[A-Z]+\b|\b(WORD|BARE|TIME|INVALID)\b", told)


def examine(text: str, tally: Tally) -> None:
    """Parse one text and judge what came of it."""
    tally.queries += 1
    started = time.thread_time()
    _judge(text, tally)
    slowly = time.thread_time() - started > SLOW_SECONDS
    if slowly and takes_longer_than(SLOW_SECONDS, lambda: _judge(text, Tally())):
        tally.complaints.append(f"{text!r}\n  took more than {SLOW_SECONDS} s")


def _judge(text: str, tally: Tally) -> None:
    try:
        rules = parse_lql(text)
    except InvalidLQL as refusal:
        if not tells_well(text, *refusal.details):
            tally.complaints.append(f"{text!r}\n  told as {refusal.message!r}")
    else:
        tally.accepted += 1
        tally.complaints += [f"{text!r}\n  {complaint}" for complaint in complaints(text, rules)]


def run(queries: int, seed: int, *, progress: bool = False) -> Tally:
    """Examine this many random queries."""
    tally = Tally()
    for text in random_texts(seed):
        if tally.queries >= queries:
            break
        examine(text, tally)
        if progress and tally.queries % 1_000 == 0:
            line = f"{tally.queries} queries, {tally.accepted} accepted, {len(tally.complaints)} complaints"
            sys.stderr.write(f"\r{line}")
    return tally


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    tally = run(options.queries, options.seed, progress=True)
    sys.stderr.write("\n")
    for complaint in tally.complaints:
        sys.stdout.write(complaint + "\n")
    counts = f"{tally.queries} queries, {tally.accepted} accepted, {len(tally.complaints)} complaints\n"
    sys.stdout.write(counts)
    return 1 if tally.complaints else 0


if __name__ == "__main__":
    sys.exit(main())
