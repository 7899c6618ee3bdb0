"""Texts in BigQuery's dialect whose structure is broken on purpose: what a parser accepts and a translator overlooks.

    python -m tests.fuzz.bigquery_structures --queries 50000 --seed 1

The texts of the cases are edited by their brackets and clauses: groups are emptied, swapped and replaced, clauses
moved, doubled and put in where they do not belong. Each must be translated or refused; see `tests.fuzz.bigquery`.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from random import Random
from typing import Final

from tests.fuzz.bigquery import Tally, corpus, examine
from tests.fuzz.bigquery_texts import TextGenerator

_WORD: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|[A-Za-z_0-9.@]+|--[^\n]*|\s+|.""", re.DOTALL)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
_BEFORE: Final = frozenset(
    {"from", "where", "group", "having", "order", "limit", "union", "cross", "join", "as", ",", ")"}
)
GROUPS: Final = (
    "()", "(*)", "(1, 2)", "(select 1)", "(select 1 as a, 2 as b)", "((select 1))", "(null)", "('secret')", "([])",
    "(t)", "(t.metadata)", "(x => 1)", "(distinct)", "(distinct 1, 2)", "(1 order by 1 limit 1)", "(as int64)",
    "(1 as int64)", "(day from timestamp)", "(from timestamp)", "(interval 1 day)", "(partition by 1)", "(order by)",
    "(x ignore nulls)", "(x having max y)", "(select as struct 1)", "(values (1))", "(a -> a)", "(unnest([1]))",
)  # fmt: skip
CLAUSES: Final = (
    "as (metadata)", "as (a, b)", "as m (a)", "as `a b`", "as", "(a, b)", "with offset", "with offset as o",
    "with offset as (o)", "with offset o", ", t.metadata as (metadata)", ", t.metadata as m",
    ", t.metadata m with offset",
    ", unnest(t.metadata) as (a)", ", unnest() as a", ", unnest([1, 2], [3]) as a", ", unnest(struct(1)) a",
    ", lateral (select 1)", "cross join unnest(m.a.b) with offset", "left join unnest(metadata) m on false",
    "join edge_logs using ()", "join edge_logs using (id, id)", "natural join edge_logs", "join (edge_logs) on true",
    "cross join (select 1)", "full join auth_logs a using (id)", "pivot(count(*) for id in ('a', 'b'))",
    "unpivot(a for b in (c, d))", "tablesample system (10 percent)", "for system_time as of current_timestamp()",
    "qualify row_number() over (order by 1) = 1", "window w as (partition by id)", "over w", "over ()", "over (w)",
    "over (order by timestamp rows between 1 preceding and current row)", "over (partition by)", "group by rollup(1)",
    "group by grouping sets ((1), ())", "group by cube(id)", "group by ()", "group by all", "having", "order by all",
    "order by", "order by 0", "order by -1", "order by 99", "order by (1, 2)", "limit all", "limit 1, 2",
    "limit null",
    "limit (select 1)", "limit -1", "limit 'a'", "limit 1 offset", "offset 1", "fetch first 1 row only",
    "union all", "union distinct (select 1)", "union all by name select 1", "except distinct select 1",
    "intersect all select 1", "except (id)", "replace (1 as id)", ".* except (a)", ".*", ".* replace (1 as a)",
    "set a = 'secret'", "into x", "where", "where true where false", "from", "select", "select distinct",
    "select as struct",
    "select as value", "select all", "with", "with a as (select 1)", "with a as ()", "with a (b) as (select 1)",
    "with recursive a as (select 1)", "not materialized", "is distinct from null", "is not", "is json", "between 1",
    "between 1 and", "in ()", "in unnest([1])", "in unnest(metadata)", "in (select 1, 2)", "like any ('a', 'b')",
    "not like all ('a')", "like 'a' escape 'b'", "exists", "exists (select 1)", "any", "all", "array", "array[]",
    "array<int64>[]", "array<struct<a int64>>[(1)]", "array(select 1)", "array(select as struct 1)", "struct()",
    "struct<a int64>(1)", "struct(1 as a).a", "(1, 2).a", "[0]", "[]", "[offset(0)]", "[safe_ordinal('a')]", "[1:2]",
    "['a']", "[key('a')]", "case end", "case when end", "case else 1 end", "case a when 1 then end", "if(1)",
    "interval", "interval 1", "interval '1' day", "interval 1 day to hour", "date", "timestamp 'x'", "at time zone",
    "at time zone 'UTC'", "json '{}'", "numeric '1'", "b'a'", "rb'\\x'", "r'('", "@p", "@@p", "?", "$1", "::int64",
    "cast(1 as)", "cast(as string)", "safe_cast(1 as struct<a int64>)", "extract()", "extract(day)",
    "trim(both from 'a')",
    "count(distinct *)", "count(distinct a, b)", "count(*, 1)", "string_agg(distinct a order by b limit 1)",
    "array_agg(a ignore nulls order by b limit 1)[offset(0)]", "approx_quantiles(1)",
    "percentile_cont(1, 0.5) over ()",
    "ml.predict(model x, table y)", "table x", "x.y.z()", "safe.x()", "net.host('a')", "generate_array()",
    "generate_timestamp_array(1)", "generate_date_array(a, b)", "unnest(generate_array(1))", "|> where true",
    "begin", "end", "declare a int64", "call a()", "-- secret", "/* secret", "#", "\\", ";", ",", ",,", "(", ")",
    "`", "'",
)  # fmt: skip


def structures(seed: int) -> Iterator[str]:
    """Yield texts without end, the same for the same seed."""
    random = Random(seed)
    texts = [text for text in corpus() if len(text) < 1_500]
    generator = TextGenerator(random)
    while True:
        yield _skeleton(random)
        text = generator.text() if random.random() < 0.3 else random.choice(texts)
        for _ in range(random.randint(1, 3)):
            text = _edited(random, text, random.choice(texts))
        yield text


def _skeleton(random: Random) -> str:
    """Return a short query with one or two pieces where some piece may stand: most of it can be read."""
    item, source, behind = "m.level", "unnest(t.metadata) as m", ""
    for _ in range(random.randint(1, 2)):
        piece = random.choice((*CLAUSES, *GROUPS))
        place = random.randrange(5)
        if place == 0:
            item = random.choice((piece, f"{item} {piece}", f"{item} as {piece}", f"count{piece}", f"lower({piece})"))
        elif place == 1:
            source = random.choice((piece, f"unnest({piece}) as m", f"unnest(t.metadata) {piece}", f"{piece} as m"))
        elif place == 2:
            behind = f"where {random.choice((piece, f'm.level = {piece}', f'm.level {piece}'))}"
        elif place == 3:
            behind = random.choice((piece, f"group by {piece}", f"order by {piece}", f"limit {piece}"))
        else:
            source += f" {piece}"
    join = random.choice((" cross join ", " left join ", ", ", " ")) if source[:1] != "," else ""
    text = f"select {item} from function_logs t{join}{source} {behind}"
    return random.choice((text, f"with x as ({text}) select * from x", f"({text}) {random.choice(CLAUSES)}", text))


def _edited(random: Random, text: str, donor: str) -> str:
    words = _WORD.findall(text) or [""]
    groups, donated = _groups(words), _groups(_WORD.findall(donor))
    at = random.randrange(len(words) + 1)
    edit = random.randrange(8)
    if edit == 0 and groups:  # another group in place of one
        start, end = random.choice(groups)
        words[start:end] = [random.choice(GROUPS)]
    elif edit == 1 and groups and donated:
        (start, end), (first, last) = random.choice(groups), random.choice(donated)
        words[start:end] = _WORD.findall(donor)[first:last]
    elif edit == 2 and groups:  # a group without its brackets, or in two
        start, end = random.choice(groups)
        words[start:end] = words[start + 1 : end - 1] if random.random() < 0.5 else ["(", *words[start:end], ")"]
    elif edit == 3:  # a piece moved
        start = random.randrange(len(words))
        piece = words[start : start + random.randint(1, 8)]
        del words[start : start + len(piece)]
        words[at:at] = [" ", *piece, " "]
    elif edit == 4:
        del words[at : at + random.randint(1, 6)]
    elif edit == 5:
        words[at:at] = [" ", random.choice(CLAUSES), " "]
    elif edit == 6:  # a clause where one may stand
        places = [index for index, word in enumerate(words) if word.lower() in _BEFORE] + [len(words)]
        at = random.choice(places)
        words[at:at] = [" ", _of_table(random.choice(CLAUSES), words), " "]
    else:  # a name in brackets, or something else for it
        names = [index for index, word in enumerate(words) if _NAME.fullmatch(word)]
        if names:
            at = random.choice(names)
            words[at] = random.choice((f"({words[at]})", f"[{words[at]}]", f"{words[at]}()", *GROUPS, *CLAUSES))
    return "".join(words)


def _of_table(clause: str, words: list[str]) -> str:
    """Return the clause about a table of the text, so that it means something."""
    lowered = [word.lower() for word in words if word.strip()]
    if "from" not in lowered:
        return clause
    behind = [word for word in words if word.strip()][lowered.index("from") + 1 :]
    name = behind[0] if behind else "t"
    if len(behind) > 1 and _NAME.fullmatch(behind[1]) and behind[1].lower() not in _BEFORE:
        name = behind[1]
    if len(behind) > 2 and behind[1].lower() == "as":
        name = behind[2]
    return clause.replace("t.metadata", f"{name}.metadata")


def _groups(words: list[str]) -> list[tuple[int, int]]:
    """Return where each bracket group begins and ends."""
    open_: list[int] = []
    found: list[tuple[int, int]] = []
    for index, word in enumerate(words):
        if word in "([":
            open_.append(index)
        elif word in ")]" and open_:
            found.append((open_.pop(), index + 1))
    return found


def run_structures(texts: int, seed: int, *, progress: bool = False) -> Tally:
    """Translate and check this many texts; nothing is run."""
    tally = Tally()
    for text in structures(seed):
        if tally.texts >= texts:
            return tally
        examine(text, tally, None)
        if progress and tally.texts % 500 == 0:
            sys.stderr.write(f"\r{tally.texts} texts, {tally.accepted} accepted, {len(tally.complaints)} complaints ")
    return tally


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    tally = run_structures(options.queries, options.seed, progress=True)
    sys.stderr.write("\n")
    for complaint in tally.complaints:
        sys.stdout.write(complaint + "\n")
    sys.stdout.write(f"{tally.texts} texts, {tally.accepted} accepted, {len(tally.complaints)} complaints\n")
    return 1 if tally.complaints else 0


if __name__ == "__main__":
    sys.exit(main())
