"""The rules for names: which relation, function, type, parameter or column a query may name."""

from __future__ import annotations

from endpoints.sql.sandbox.reader import Reader, is_word
from endpoints.sql.sandbox.scopes import Source
from endpoints.sql.sandbox.tokens import STRING
from endpoints.sql.sandbox.vocabulary import (
    INTERVAL_FIELDS,
    PADDED_TYPES,
    PINNED_TYPES,
    REASONS,
    TYPE_WORDS,
    TYPES_WITH_MODIFIERS,
    similar_names,
)
from endpoints.sql.sandbox.weights import TWIN_WEIGHT
from endpoints.sql.stored_queries import may_be_of_catalog
from logsources.allowed_functions import ALLOWED_FUNCTIONS, LOG_FUNCTIONS_SCHEMA, similar_functions
from logsources.guards import BOUNDED_CASTS, LARGEST_WIDTH


def resolve_relation(reader: Reader) -> tuple[str, Source]:
    """Return the name at the current token, and what it is: a common table expression or a sandbox table."""
    name = reader.values[reader.index]
    source = reader.scope.common_table(name)
    if source is not None:
        source.named += 1
        return name, source
    if name not in reader.tables or may_be_of_catalog(name):
        known = reader.scope.common_table_names() | reader.tables.keys()
        reason = "is not a table that this query may read"
        raise reader.refusal(reason, construct=name, similar=similar_names(name, known))
    reader.relations.add(name)
    return name, Source(reader.tables[name])


def require_allowed_function(reader: Reader) -> str:
    """Return the name of the function called at the current token, if it is one of the allowed."""
    if reader.symbol in REASONS:
        raise reader.unexpected()
    name = reader.values[reader.index]
    if name not in ALLOWED_FUNCTIONS:
        raise reader.refusal("is not an allowed function", construct=name, similar=similar_functions(name))
    return name


def require_allowed_type(reader: Reader) -> str:
    """Return the type word at the current token, if it is one of the allowed."""
    if reader.symbol in TYPE_WORDS:
        return reader.symbol
    if not is_word(reader.symbol):
        raise reader.unexpected("a type")
    similar = similar_names(reader.values[reader.index], TYPE_WORDS)
    raise reader.refusal("is not an allowed type", similar=similar)


def require_known_parameter(reader: Reader) -> str:
    """Return the name of the parameter at the current token, if the endpoint has it."""
    name = reader.values[reader.index]
    if name not in reader.parameter_types:
        similar = similar_names(name, reader.parameter_types)
        raise reader.refusal("is not a parameter of this endpoint", similar=similar)
    return name


def require_known_columns(reader: Reader) -> None:
    """Refuse ``owner.attribute`` unless the attribute surely is a column, not a call in disguise.

    Comes last: an owner may be a FROM item that follows its use.
    """
    for reference in reader.references:
        candidates = reference.candidates()
        if not candidates:
            raise reader.refusal("is not a FROM item here", construct=reference.owner, index=reference.token - 2)
        if not reference.is_column():
            similar = similar_names(reference.attribute, frozenset.intersection(*candidates))
            raise reader.refusal(
                "is not a known column; name the column with AS in the query it comes from",
                construct=f"{reference.owner}.{reference.attribute}",
                index=reference.token,
                similar=similar,
            )


def bound_whole_rows(reader: Reader) -> None:
    """Put the twin of ROW around each name that may be a whole row, as in ``select q from (…) q``; comes last too."""
    for reference, place in reader.whole_rows:
        if not reference.is_column():
            piece = reader.pieces[place]
            # A column of a subquery keeps its name.
            reader.pieces[place] = f'( SELECT {LOG_FUNCTIONS_SCHEMA}."row" ( {piece} ) AS {piece} )'


# --- Type names -------------------------------------------------------------------------------------------------------
# Types in casts, typed literals and column definitions: only those of the allowlist, pinned to pg_catalog.
def type_name(reader: Reader) -> str | None:
    """Take a type, with its modifiers and array brackets; return the domain that a cast to it goes through first."""
    word = reader.symbol
    _element_type(reader)
    brackets = ""
    while reader.symbol == "[" and reader.following() == "]":
        reader.read("[", "]")
        brackets = "[]"
    domain = BOUNDED_CASTS.get(word + brackets)
    if domain is not None:
        reader.more_weight += TWIN_WEIGHT
    return domain and f'{LOG_FUNCTIONS_SCHEMA}."{domain}"'


def _element_type(reader: Reader) -> None:
    word = require_allowed_type(reader)
    if word in PINNED_TYPES:
        reader.take(PINNED_TYPES[word])
        _modifiers(reader, word)
    elif word == "double":
        if reader.following() != "precision":
            raise reader.refusal("must be DOUBLE PRECISION")
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
        reason = f"is larger than {LARGEST_WIDTH:,}, the maximum width of {word}; use varchar or text"
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
    """Whether a type with a string after it begins here, as in ``date '2025-01-01'``; reads ahead, bounded."""
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
    """Take a type and its string; interval fields may follow the string."""
    word = reader.symbol
    _element_type(reader)
    reader.string()
    if word == "interval":
        _interval_fields(reader)
