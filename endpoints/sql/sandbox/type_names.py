"""Types in casts, typed literals and column definitions: only those of the allowlist, pinned to pg_catalog."""

from __future__ import annotations

from endpoints.sql.guards import LARGEST_WIDTH
from endpoints.sql.sandbox.names import require_allowed_type
from endpoints.sql.sandbox.reader import Reader
from endpoints.sql.sandbox.tokens import STRING
from endpoints.sql.sandbox.vocabulary import INTERVAL_FIELDS, PADDED_TYPES, PINNED_TYPES, TYPES_WITH_MODIFIERS


def type_name(reader: Reader) -> None:
    """Take a type, with its modifiers and array brackets."""
    _element_type(reader)
    while reader.symbol == "[" and reader.following() == "]":
        reader.read("[", "]")


def _element_type(reader: Reader) -> None:
    word = require_allowed_type(reader)
    if word in PINNED_TYPES:
        reader.take(PINNED_TYPES[word])
        _modifiers(reader, word)
    elif word == "double":
        if reader.following() != "precision":
            raise reader.refusal("has to be DOUBLE PRECISION")
        reader.read("double", "precision")
    elif word in ("char", "character") and reader.following() == "varying":
        reader.take('pg_catalog."varchar"')
        reader.skip()
        _modifiers(reader, "varchar")
    else:
        reader.take_symbol()
        _modifiers(reader, word)
        if word in ("time", "timestamp"):
            _time_zone(reader)
        elif word == "interval":
            _interval_fields(reader)


def _modifiers(reader: Reader, word: str) -> None:
    if word not in TYPES_WITH_MODIFIERS or not reader.accept("("):
        return
    index = reader.index
    width = reader.small_integer()
    if word in PADDED_TYPES and width > LARGEST_WIDTH:
        reason = f"is more than {LARGEST_WIDTH:,}, to which {word} pads at most; use varchar or text"
        raise reader.refusal(reason, index=index)
    if reader.accept(","):
        reader.small_integer()
    reader.expect(")")


def _time_zone(reader: Reader) -> None:
    if reader.symbol in ("with", "without") and reader.following() == "time":
        reader.read(reader.symbol, "time", "zone")


def _interval_fields(reader: Reader) -> None:
    # DAY, DAY TO SECOND and the like, if there are any
    if reader.accept_any(INTERVAL_FIELDS) and reader.accept("to"):
        reader.expect(*INTERVAL_FIELDS)


def typed_literal_is_next(reader: Reader) -> bool:
    """Whether a type with a string behind it begins here, as in ``date '2025-01-01'``; reads ahead, bounded."""
    word = reader.symbol
    ahead = 1
    if word == "double" or (word in ("char", "character") and reader.following() == "varying"):
        ahead = 2
    if reader.following(ahead) == "(":
        ahead = reader.closers[reader.index + ahead] - reader.index + 1
    if word in ("time", "timestamp") and reader.following(ahead) in ("with", "without"):
        ahead += 3
    return reader.following(ahead) == STRING


def typed_literal(reader: Reader) -> None:
    """Take a type and its string; interval fields may stand behind the string."""
    word = reader.symbol
    _element_type(reader)
    reader.string()
    if word == "interval":
        _interval_fields(reader)
