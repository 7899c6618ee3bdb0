r"""RE2 patterns, which BigQuery uses, as PostgreSQL's advanced regular expressions.

They are rewritten piece by piece, since the two read much of the same text differently: ``\b`` is a word boundary in
RE2 and a backspace in PostgreSQL, RE2 allows a flag in the middle, and ``.`` and ``[^a]`` match line ends in one but
not in the other. See RE2's "Syntax" and PostgreSQL's manual, 9.7.3.

A flag in the middle of a pattern is spelt out: letters become ``[aA]``, and ``.`` becomes its meaning under the flags.
PostgreSQL then reads the whole pattern with its defaults: ``.`` and ``[^a]`` match every character, and ``^`` and ``$``
match only the ends of the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

MAX_REPETITION: Final = 255  # PostgreSQL's DUPMAX
_FLAGS: Final = re.compile(r"\(\?(?P<on>[a-zA-Z]*)(?:-(?P<off>[a-zA-Z]*))?(?P<end>[:)])")
_NAMED_GROUP: Final = re.compile(r"\(\?P?<[A-Za-z_][A-Za-z0-9_]*>")
_REPETITION: Final = re.compile(r"\{(\d+)(?:,(\d*))?\}")
_HEXADECIMAL: Final = re.compile(r"x(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]{1,8})\})")
_OCTAL: Final = re.compile(r"[0-7]{1,3}")
_PROPERTY: Final = re.compile(r"([pP])(?:\{(\^?)([A-Za-z_]+)\}|([A-Za-z]))")
_POSIX_CLASS: Final = re.compile(r"\[:(\^?)([a-z]+):\]")
_POSIX_NAMES: Final = frozenset(
    {"alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "xdigit"}
)
_PROPERTIES: Final = {
    "L": "[:alpha:]", "Lu": "[:upper:]", "Ll": "[:lower:]", "N": "[:digit:]", "Nd": "[:digit:]", "P": "[:punct:]",
    "Z": "[:space:]", "Zs": "[:blank:]", "Cc": "[:cntrl:]",
}  # fmt: skip
# Classes that PostgreSQL writes otherwise. Its \s and \w know more than ASCII, RE2's do not; log text is mostly ASCII.
_CLASSES: Final = {"d": "0-9", "w": "a-zA-Z0-9_", "s": r"\t\n\f\r "}
_SIMPLE: Final = {"b": r"\y", "B": r"\Y", "A": r"\A", "z": r"\Z"}
_CONTROLS: Final = frozenset("afnrtv")
_SPECIAL: Final = frozenset(r".^$*+?()[]{}|\/-&~# ") | {'"', "'"}


class PatternError(ValueError):
    """A pattern that PostgreSQL cannot express; the message is a predicate."""


@dataclass(frozen=True, slots=True)
class _Flags:
    ignore_case: bool = False
    lines: bool = False  # m: ^ and $ match at line ends
    dot_all: bool = False  # s: . matches a line end


class _Reader:
    """One reading of a pattern; flags apply to the end of their group."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.index = 0
        self.flags = _Flags()
        self.outer: list[_Flags] = []
        self.pieces: list[str] = []

    def read(self) -> str:
        while self.index < len(self.pattern):
            self._next()
        return "".join(self.pieces)

    def _match(self, expression: re.Pattern[str]) -> re.Match[str] | None:
        match = expression.match(self.pattern, self.index)
        if match is not None:
            self.index = match.end()
        return match

    def _next(self) -> None:
        character = self.pattern[self.index]
        if character == "\\":
            self.index += 1
            self.pieces.append(self._escape())
        elif character == "(":
            self._group()
        elif character == "[":
            self.pieces.append(self._bracket())
        elif character == "{":
            self._braces()
        else:
            self.index += 1
            if character == ")":
                self.flags = self.outer.pop() if self.outer else self.flags
            self.pieces.append(self._character(character))

    def _character(self, character: str) -> str:
        if character == ".":
            return "." if self.flags.dot_all else r"[^\n]"
        if character == "^" and self.flags.lines:
            return r"(?:^|(?<=\n))"
        if character == "$" and self.flags.lines:
            return r"(?:$|(?=\n))"
        return self._letter(character)

    def _letter(self, character: str) -> str:
        if self.flags.ignore_case and character.isalpha() and len(character.upper()) == 1:
            return f"[{character.lower()}{character.upper()}]"
        return character

    def _group(self) -> None:
        if self._match(_NAMED_GROUP):
            self.outer.append(self.flags)
            self.pieces.append("(")
        elif (match := self._match(_FLAGS)) is not None:
            inner = self._flags(match["on"], match["off"] or "")
            if match["end"] == ":":
                self.outer.append(self.flags)
                self.pieces.append("(?:")
            self.flags = inner
        elif self.pattern.startswith(("(?=", "(?!", "(?<"), self.index) or not self.pattern.startswith(
            "(?", self.index
        ):
            self.outer.append(self.flags)
            self.pieces.append("(")
            self.index += 1
        else:
            raise PatternError(f"has a group `{self.pattern[self.index : self.index + 4]}` that RE2 does not know")

    def _flags(self, on: str, off: str) -> _Flags:
        flags = self.flags
        names = {"i": "ignore_case", "m": "lines", "s": "dot_all"}
        for letters, value in ((on, True), (off, False)):
            for letter in letters:
                if letter not in names:
                    raise PatternError(f"has the flag `{letter}`, which is not supported")
                flags = replace(flags, **{names[letter]: value})
        return flags

    def _braces(self) -> None:
        match = self._match(_REPETITION)
        if match is None:
            self.index += 1
            self.pieces.append(r"\{")
            return
        low, high = int(match[1]), match[2]
        if max(low, int(high or 0)) > MAX_REPETITION:
            raise PatternError(f"repeats more than {MAX_REPETITION} times")
        self.pieces.append(match.group())

    def _escape(self) -> str:
        character = self.pattern[self.index : self.index + 1]
        if character == "Q":
            return self._quoted()
        simple = _SIMPLE.get(character)
        if simple is not None:
            self.index += 1
            return simple
        if character in _CLASSES or (character.lower() in _CLASSES and character):
            self.index += 1
            members = _CLASSES[character.lower()]
            return f"[{members}]" if character.islower() else f"[^{members}]"
        if (negated_members := self._property()) is not None:
            negated, members = negated_members
            return f"[{'^' if negated else ''}{members}]"
        return self._escaped_character()

    def _quoted(self) -> str:
        # \Q..\E: everything in between is literal.
        end = self.pattern.find(r"\E", self.index)
        text = self.pattern[self.index + 1 : end if end >= 0 else len(self.pattern)]
        self.index = end + 2 if end >= 0 else len(self.pattern)
        return "".join(_literal(character) if character in _SPECIAL else self._letter(character) for character in text)

    def _property(self) -> tuple[bool, str] | None:
        match = self._match(_PROPERTY)
        if match is None:
            return None
        name = match[3] or match[4]
        members = _PROPERTIES.get(name)
        if members is None:
            raise PatternError(f"has the character class `{name}`, which is not supported")
        return (match[1] == "P") is not (match[2] == "^"), members

    def _escaped_character(self) -> str:
        match = self._match(_HEXADECIMAL)
        if match is not None:
            return _literal(chr(min(int(match[1] or match[2], 16), 0x10FFFF)))
        if self.pattern.startswith("0", self.index) and (octal := self._match(_OCTAL)) is not None:
            return _literal(chr(int(octal.group(), 8)))
        character = self.pattern[self.index : self.index + 1]
        self.index += 1
        if not character:
            raise PatternError("ends in a backslash")
        if character in _CONTROLS:
            return f"\\{character}"
        if character.isalnum():
            raise PatternError(f"has the escape `\\{character}`, which is not supported")
        return _literal(character)

    # ── […]

    def _bracket(self) -> str:
        self.index += 1
        negated = self.pattern.startswith("^", self.index)
        self.index += negated
        members: list[str] = []
        complements: list[str] = []  # \D, \S, \W and \P become separate alternatives
        first = True
        while True:
            if self.index >= len(self.pattern):
                raise PatternError("has a `[` that is never closed")
            if self.pattern[self.index] == "]" and not first:
                self.index += 1
                return _set(members, complements, negated=negated)
            first = False
            self._member(members, complements)

    def _member(self, members: list[str], complements: list[str]) -> None:
        posix = self._match(_POSIX_CLASS)
        if posix is not None:
            if posix[2] == "word":
                name = _CLASSES["w"]
            elif posix[2] in _POSIX_NAMES:
                name = f"[:{posix[2]}:]"
            else:
                raise PatternError(f"has the character class `{posix[2]}`, which is not supported")
            (complements if posix[1] else members).append(name)
            return
        if self.pattern[self.index] == "\\":
            following = self.pattern[self.index + 1 : self.index + 2]
            if following and following.lower() in _CLASSES:
                self.index += 2
                (members if following.islower() else complements).append(_CLASSES[following.lower()])
                return
            self.index += 1
            if (found := self._property()) is not None:
                (complements if found[0] else members).append(found[1])
                return
            self.index -= 1
        low = self._single()
        high = low
        if self.pattern.startswith("-", self.index) and not self.pattern.startswith("-]", self.index):
            self.index += 1
            if self.index >= len(self.pattern):
                raise PatternError("has a `[` that is never closed")
            high = self._single()
        members.append(self._range(low, high))

    def _single(self) -> str:
        character = self.pattern[self.index]
        self.index += 1
        if character != "\\":
            return character
        match = self._match(_HEXADECIMAL)
        if match is not None:
            return chr(min(int(match[1] or match[2], 16), 0x10FFFF))
        escaped = self.pattern[self.index : self.index + 1]
        if not escaped:
            raise PatternError("ends in a backslash")
        self.index += 1
        if escaped in _CONTROLS:
            return {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}[escaped]
        return escaped

    def _range(self, low: str, high: str) -> str:
        written = _in_set(low) if low == high else f"{_in_set(low)}-{_in_set(high)}"
        if not self.flags.ignore_case:
            return written
        for other in (str.lower, str.upper):
            if low.isalpha() and high.isalpha() and len(other(low)) == len(other(high)) == 1:
                swapped = f"{_in_set(other(low))}-{_in_set(other(high))}"
                written += "" if swapped == written else swapped
        return written


def _literal(character: str) -> str:
    """Return a literal character outside brackets."""
    if character < " " or character == "\x7f":
        return f"\\u{ord(character):04x}"
    return f"\\{character}" if not character.isalnum() and character.isascii() and character != "_" else character


def _in_set(character: str) -> str:
    """Return a literal character inside brackets."""
    if character < " " or character == "\x7f":
        return f"\\u{ord(character):04x}"
    return f"\\{character}" if character in r"\]^-[" else character


def _set(members: list[str], complements: list[str], *, negated: bool) -> str:
    inside = "".join(members)
    if not complements:
        return f"[{'^' if negated else ''}{inside}]"
    if negated:
        # [^a\S]  ->  a character of \s, but no a
        ahead = "".join(f"(?=[{complement}])" for complement in complements)
        return f"(?:{ahead}[^{inside}])" if inside else f"(?:{ahead}[\\u0001-\\U0010ffff])"
    alternatives = [f"[^{complement}]" for complement in complements]
    return f"(?:{'|'.join([*([f'[{inside}]'] if inside else []), *alternatives])})"


def translate_pattern(pattern: str) -> str:
    """Return PostgreSQL's pattern for a pattern of RE2. Raises PatternError if PostgreSQL cannot express it."""
    leading = re.match(r"\(\?([ims]+)\)", pattern)
    if leading is not None and "i" in leading[1] and not _changes_case(pattern[leading.end() :]):
        # If the whole pattern ignores case, use PostgreSQL's own flag at the beginning: it costs nothing.
        rest = "".join(letter for letter in leading[1] if letter != "i")
        return "(?i)" + _Reader((f"(?{rest})" if rest else "") + pattern[leading.end() :]).read()
    return _Reader(pattern).read()


def _changes_case(pattern: str) -> bool:
    return re.search(r"\(\?[a-z]*-[a-z]*i|\(\?[a-z]*i", pattern) is not None


_IN_PATTERN: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|\[:[a-z]+:\]|[^\]])*\]|\((\?)?", re.DOTALL)


def has_groups(pattern: str) -> bool:
    """Return whether a pattern of PostgreSQL captures anything."""
    return any(match[0] == "(" for match in _IN_PATTERN.finditer(pattern))
