"""An error in a part of an LQL query, while it is not yet known to which query the part belongs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from endpoints.lql.refusals import MAX_FOUND_CHARACTERS, refusal, shortened


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
