"""The rules that names are judged by: which relation, function, type, parameter or column a query may name."""

from __future__ import annotations

from endpoints.sql.functions import ALLOWED_FUNCTIONS, similar_functions
from endpoints.sql.sandbox.reader import Reader, is_word
from endpoints.sql.sandbox.scopes import Columns
from endpoints.sql.sandbox.violations import similar_names
from endpoints.sql.sandbox.vocabulary import REASONS, TYPE_WORDS


def resolve_relation(reader: Reader) -> tuple[str, Columns]:
    """Return the name at the current token, and its columns as a common table expression or a sandbox table."""
    name = reader.values[reader.index]
    columns = reader.scope.common_table(name)
    if columns is not None:
        return name, columns
    # PostgreSQL looks into pg_catalog first, whose relations all begin like this.
    if name not in reader.tables or name.startswith("pg_"):
        known = reader.scope.common_table_names() | reader.tables.keys()
        reason = "is not a table that this query may read"
        raise reader.refusal(reason, construct=name, similar=similar_names(name, known))
    reader.relations.add(name)
    return name, reader.tables[name]


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

    Comes last: an owner may be a FROM item that stands behind its use.
    """
    for reference in reader.references:
        candidates = reference.candidates()
        if not candidates:
            raise reader.refusal("is not a FROM item here", construct=reference.owner, index=reference.token - 2)
        if not all(reference.attribute in columns for columns in candidates):
            similar = similar_names(reference.attribute, frozenset.intersection(*candidates))
            raise reader.refusal(
                "is not a known column; give the column a name with AS where it comes from",
                construct=f"{reference.owner}.{reference.attribute}",
                index=reference.token,
                similar=similar,
            )
