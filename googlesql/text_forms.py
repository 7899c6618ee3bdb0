"""Values as the texts that BigQuery writes for them: `2.0` is 2, a moment has no, three or six digits of a second."""

from __future__ import annotations

from googlesql.kinds import Kind
from googlesql.tree import Expression, call, cast, chain, in_utc, string

MOMENTS_AS_TEXT = (Kind.DATETIME, Kind.TIME)  # which PostgreSQL's own form has too many or too few digits of


def number_text(value: Expression) -> Expression:
    """Return a number as text: 2, 0.5, 1e+20, inf."""
    return call("number_text", value, kind=Kind.TEXT)


def datetime_text(value: Expression, *, separator: str) -> Expression:
    """Return a DATETIME as text: 2025-06-02 08:15:02.500."""
    return call("moment_text", value, string(separator), kind=Kind.TEXT)


def time_text(value: Expression) -> Expression:
    """Return a TIME as text: 08:15:02.500."""
    return call("time_text", value, kind=Kind.TEXT)


def timestamp_text(value: Expression, *, separator: str = " ", zone: str = "+00") -> Expression:
    """Return a TIMESTAMP as text in UTC: 2025-06-02 08:15:02.500+00."""
    text = datetime_text(in_utc(value, Kind.DATETIME), separator=separator)
    return chain("||", text, string(zone), kind=Kind.TEXT)


def text_of_scalar(value: Expression) -> Expression:
    """Return a value that is neither JSON nor text as CAST(… AS STRING) writes it."""
    match value.kind:
        case Kind.NUMBER | Kind.FLOAT:
            return number_text(value)
        case Kind.DATETIME:
            return datetime_text(value, separator=" ")
        case Kind.TIMESTAMP:
            return timestamp_text(value)
        case Kind.TIME:
            return time_text(value)
        case _:
            return cast(value, "text", Kind.TEXT)


def in_results(value: Expression) -> Expression:
    """Return a value as results and JSON contain it: of a DATETIME or TIME, its text."""
    if value.kind is Kind.DATETIME:
        return datetime_text(value, separator="T")
    return time_text(value) if value.kind is Kind.TIME else value
