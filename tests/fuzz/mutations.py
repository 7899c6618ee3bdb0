"""Random edits of query texts: words dropped, doubled, swapped, replaced, and grafts of what must be refused."""

from __future__ import annotations

from random import Random
from typing import Final

GRAFTS: Final = (
    "for update", "into evil", "; select 1", "union select 1 from auth_user", "tablesample system (1)", "collate \"C\"",
    "::regclass", "operator(pg_catalog.+) 1", ", auth_user", "-- ", "/* ", "*/", "'", '"', "$$", "@p", "@q", "$1", "\\",
    "returning 1", "window w as ()", "(select leak from leaks)", ".pg_typeof", ".*", "only auth_user",
    "U&'\\0027'", "E'\\''", "\x0b", "ſ", "::pg_class", "::\"regclass\"", "with recursive t as (select 1)", "limit 1",
    "lateral auth_user", "for", "from", "(", ")", "order by 1", "as leak", "=> 1", "variadic",
    "within group (order by 1)",
)  # fmt: skip


def mutated(random: Random, text: str, corpus: tuple[str, ...]) -> str:
    """Return the text with one to three random edits: words dropped, doubled, swapped, replaced, and grafts put in."""
    words = text.split(" ")
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(words)) if words else 0
        edit = random.randrange(7)
        if edit == 0 and words:
            del words[at]
        elif edit == 1 and words:
            words.insert(at, random.choice(words))
        elif edit == 2 and words:
            other = random.randrange(len(words))
            words[at], words[other] = words[other], words[at]
        elif edit == 3:
            words.insert(at, random.choice(GRAFTS))
        elif edit == 4:
            donor = random.choice(corpus).split(" ")
            start = random.randrange(len(donor))
            words[at:at] = donor[start : start + random.randint(1, 6)]
        elif edit == 5 and words:
            words[at] = random.choice(random.choice(corpus).split(" "))
        elif words and words[at]:
            letter = random.randrange(len(words[at]))
            words[at] = words[at][:letter] + random.choice("().,;'\"@$-/*%:=\\ [] \n_a1") + words[at][letter + 1 :]
    return " ".join(words)
