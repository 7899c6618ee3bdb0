"""The form of a refusal of an LQL query: one sentence, plus data: the place, what was found and what was expected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NoReturn

from endpoints.errors import InvalidLQL
from endpoints.sql.lexemes import line_and_column

MAX_FOUND_CHARACTERS: Final = 60


def refusal(
    text: str,
    position: int,
    reason: str,
    *,
    found: str = "",
    expected: Sequence[str] = (),
    hint: str = "",
) -> InvalidLQL:
    """Return the refusal at this offset of the query's text.

    `reason` is a sentence without its full stop, such as "`min` is not an aggregate"; `expected` says what would be
    right there; `hint` is one whole sentence. The details contain reason, line and column (1-based), and found,
    expected and hint if they are given.
    """
    line, column = line_and_column(text, position)
    detail: dict[str, object] = {"reason": reason, "line": line, "column": column}
    if found:
        detail["found"] = shortened(found)
    if expected:
        detail["expected"] = list(expected)
    if hint:
        detail["hint"] = hint
    sentences = [f"Line {line}, column {column}: {reason}."]
    if expected:
        sentences.append(f"Expected {_either(expected)}.")
    if hint:
        sentences.append(hint)
    return InvalidLQL(" ".join(sentences), details=[detail])


def shortened(found: str) -> str:
    """Return text for a message: its beginning if it is long."""
    return found if len(found) <= MAX_FOUND_CHARACTERS else found[:MAX_FOUND_CHARACTERS] + "…"


def _either(expected: Sequence[str]) -> str:
    if len(expected) == 1:
        return expected[0]
    return f"{', '.join(expected[:-1])} or {expected[-1]}"


# --- Faults -----------------------------------------------------------------------------------------------------------
# An error in a part of an LQL query, while it is not yet known to which query the part belongs.
class Fault(ValueError):
    """A fault at an offset of the query's text; the arguments are those of `endpoints.lql.refusals.refusal`."""

    def __init__(
        self,
        position: int,
        reason: str,
        *,
        found: str = "",
        expected: Sequence[str] = (),
        hint: str = "",
    ) -> None:
        super().__init__(reason)
        self.position = position
        self.reason = reason
        self.found = str(found)  # never the parser's own type of text
        self.expected = tuple(expected)
        self.hint = hint

    def refuse(self, text: str) -> NoReturn:
        """Raise InvalidLQL for this fault in the query `text`."""
        raise refusal(
            text, self.position, self.reason, found=self.found, expected=self.expected, hint=self.hint
        ) from None


def named(found: str) -> str:
    """Return the found text as part of a sentence."""
    return f"`{shortened(found)}`"


def advice_to_quote(head: str, text: str) -> str:
    """Return the hint that shows the text in quotes after `head`, or only mentions quotes if both are long."""
    corrected = head + quoted(text)
    if len(corrected) > MAX_FOUND_CHARACTERS:
        return "Put text with such characters in double quotes."
    return f"Write {corrected}."


def quoted(text: str) -> str:
    """Return the text in double quotes, with its quotes and backslashes escaped."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
