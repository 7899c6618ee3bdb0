"""Names as people write them: the same name in other letters, and names with a slip of the keyboard."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from sqlglot import exp


def one_spelling(select: exp.Select) -> exp.Select:
    """Return a grouped SELECT in which every name has one spelling, that of its first use; others are unchanged.

    PostgreSQL must see that the field of the select list is the one that the rows are grouped by.
    """
    # select r.STATUS_CODE … group by r.status_code  ->  select r.STATUS_CODE … group by r.STATUS_CODE
    group, distinct = select.args.get("group"), select.args.get("distinct")
    if group is None and distinct is None:
        return select
    spellings: dict[str, str] = {}
    clauses = [*select.expressions, group, select.args.get("having"), select.args.get("order")]
    for clause in clauses:
        for identifier in _identifiers(clause) if clause is not None else ():
            spelling = spellings.setdefault(identifier.name.casefold(), identifier.name)
            if spelling != identifier.name:
                identifier.set("this", spelling)
    return select


def _identifiers(clause: exp.Expr) -> Iterator[exp.Identifier]:
    """Yield the names of columns and fields, without those of queries inside."""
    for node in clause.walk(prune=lambda node: isinstance(node, exp.Query)):
        parts = node.parts if isinstance(node, exp.Column) else [node.expression] if isinstance(node, exp.Dot) else []
        yield from (part for part in parts if isinstance(part, exp.Identifier))


# --- Slips ------------------------------------------------------------------------------------------------------------
SHORTEST_WITH_ONE_SLIP: Final = 4  # letters; any other name of three letters is near to many
SHORTEST_WITH_TWO_SLIPS: Final = 8
_LONGEST: Final = 300  # of a column in BigQuery


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that `name` is with a slip or two, None if it is near to none.

    A slip is a letter too many, too few or wrong, or two letters swapped. A plural is a name of its own.
    """
    most = slips_allowed(name)
    if not most:
        return None
    folded, best = name.casefold(), None
    for candidate in known:
        other = candidate.casefold()
        if folded.removesuffix("s") == other.removesuffix("s"):
            continue
        for slips in range(1, most + 1):
            if _is_within(folded, other, slips):
                best, most = candidate, slips - 1
                break
    return best


def slips_allowed(name: str) -> int:
    """Return with how many slips another name is still near to this one."""
    if not SHORTEST_WITH_ONE_SLIP <= len(name) <= _LONGEST:
        return 0
    return 2 if len(name) >= SHORTEST_WITH_TWO_SLIPS else 1


def _is_within(one: str, other: str, slips: int) -> bool:
    """Whether at most so many slips lead from one text to the other; each is tried where the texts begin to differ."""
    if abs(len(one) - len(other)) > slips:
        return False
    same = next((index for index, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
    if same is None:
        return True  # one is the beginning of the other
    if not slips:
        return False
    one, other = one[same:], other[same:]
    return (
        _is_within(one[1:], other[1:], slips - 1)
        or _is_within(one[1:], other, slips - 1)
        or _is_within(one, other[1:], slips - 1)
        or (one[:2] == other[1::-1] and _is_within(one[2:], other[2:], slips - 1))
    )
