"""What the text of an LQL query probably does not mean: a sentence for each doubtful part, with what would be right."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from typing import Final

from endpoints.lql.parser import READS_AS_SQL
from endpoints.lql.refusals import quoted, shortened
from endpoints.lql.rules import MESSAGE, Filter, FilterRule, Operator, Rules, TimeRule, Value
from endpoints.lql.writing import print_lql

_WORDS: Final = {"OR": "OR", "||": "OR", "AND": "AND", "&&": "AND", "NOT": "NOT"}
# status_code >= 500, m.level=error: words of the message, joined by blanks
_COMPARISON: Final = re.compile(r'(?a)(?<!\S)([A-Za-z_][\w.]*)( ?(?:[<>]=?|[!=]?=|<>) ?)("[^"]*"|[^\s<>="]+)(?!\S)')


def word_notes(rules: Rules) -> Iterator[str]:
    """Yield a sentence for each word that stands between conditions in other languages."""
    for index, rule in enumerate(rules.filters):
        word = _bare_word(rule)
        before, after = rules.filters[max(0, index - 1) : index], rules.filters[index + 1 : index + 2]
        # In small letters it is a word of a message, unless it stands beside a field.
        is_meant = word == word.upper() or not all(map(_bare_word, (*before, *after)))
        if word.upper() in _WORDS and is_meant:
            yield _about_word(word, before, after)


def filter_notes(rules: Rules) -> Iterator[str]:
    """Yield what filters probably do not mean if they find no row."""
    if READS_AS_SQL.match(rules.text):
        yield "This reads as SQL, which is sent as sql: LQL looks for its words in the message."
        return
    words = [_word(rule) for rule in rules.filters]
    for path, sign, value in _COMPARISON.findall(" ".join(word or "\n" for word in words)):
        bare = sign.strip()
        if bare == "=" and bare == sign and "." not in path and not value.isdigit():
            continue  # key=value is what messages have
        order = bare if bare in ("<", ">", "<=", ">=") else ""
        meant = f"{'-' if bare in ('!=', '<>') else ''}{path}:{order}{value}"
        yield f"`{shortened(path + sign + value)}` is looked for in the message; a filter is `{shortened(meant)}`."
    for rule in rules.filters:
        if isinstance(rule, TimeRule) and rule.operator is Operator.GREATER and type(rule.moment) is date:
            yield f"`t:>{rule.moment}` begins after that day; with it, write `t:>={rule.moment}`."


def _word(rule: Filter) -> str:
    """Return the word or phrase of the message that the rule looks for, as it is written; "" for any other rule."""
    if not isinstance(rule, FilterRule) or rule.path != MESSAGE or rule.operator is not Operator.STRING_CONTAINS:
        return ""
    return print_lql(Rules(filters=(rule,)))


def _bare_word(rule: Filter) -> str:
    return "" if (word := _word(rule)).startswith('"') else word


def _about_word(word: str, before: Sequence[object], after: Sequence[object]) -> str:
    match _WORDS[word.upper()]:
        case "OR":
            return f"`{word}` is looked for as a word of the message: LQL has no OR. {_alternative(before, after)}"
        case "AND":
            return f"`{word}` is looked for as a word of the message. Leave it out: every filter must match anyway."
        case _:
            return f"`{word}` is looked for as a word of the message. A dash in front negates a filter: -m.level:info."


def _alternative(before: Sequence[object], after: Sequence[object]) -> str:
    """Return how to write two alternatives: those of the query if one regular expression can say them."""
    one, other = (before[-1] if before else None), (after[0] if after else None)
    if isinstance(one, FilterRule) and isinstance(other, FilterRule):
        texts = [rule.value.text for rule in (one, other) if rule.value is not None and not rule.negated]
        same = one.path == other.path and one.operator is other.operator and len(texts) == 2
        pattern = "|".join(_literal(text) for text in texts)
        if same and one.operator is Operator.EQUAL:
            return f"Write {print_lql(Rules(filters=(_matching(one, f'^({pattern})$'),)))} instead."
        if same and one.operator is Operator.STRING_CONTAINS:
            return f"Write ~{quoted(pattern)} instead."
    example = 'm.level:~"^(error|warning)$" or ~"timeout|refused"'
    return f"A regular expression has alternatives of one field, such as {example}."


def _literal(text: str) -> str:
    """Return the text as a regular expression of PostgreSQL that matches nothing else."""
    return re.sub(r"([.^$*+?()\[\]{}|\\])", r"\\\1", text)


def _matching(rule: FilterRule, pattern: str) -> FilterRule:
    return replace(rule, operator=Operator.REGEXP, value=Value(pattern, quoted=True))
