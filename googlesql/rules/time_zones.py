"""Time zones: a name such as Europe/Berlin, or a distance from UTC such as +05:30."""

from __future__ import annotations

import re
from typing import Final

from sqlglot import exp

from googlesql.coercions import as_text
from googlesql.kinds import Kind
from googlesql.lowering import Lowering, text_of
from googlesql.refusals import refusal_of
from googlesql.tree import Constant, Expression, call, infix, string

_DISTANCE: Final = re.compile(r"(?:UTC)?([+-])(\d{1,2})(?::?([0-5]\d))?")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z_]*(?:[A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+){1,2})?")
UTC_NAMES: Final = frozenset({"UTC", "Etc/UTC", "GMT"})


def zone_of(node: exp.Expr, lowering: Lowering) -> Expression:
    """Return a time zone as AT TIME ZONE takes it. Raises Refused for a zone that is no constant and no parameter."""
    if isinstance(node, exp.Parameter):
        return as_text(lowering.lower(node))
    written = text_of(node)
    if written is None:
        raise refusal_of(node, "must be a constant such as 'Europe/Berlin' or '+05:30'", construct="the time zone")
    return named_zone(written, node)


def named_zone(written: str, node: exp.Expr) -> Expression:
    """Return a zone by its name or distance. PostgreSQL reads '+05:30' itself as west of UTC, so it is an interval."""
    distance = _DISTANCE.fullmatch(written)
    if distance is not None:
        sign, hours, minutes = distance.groups()
        return Constant(kind=Kind.INTERVAL, sql=f"INTERVAL '{sign}{int(hours):02}:{minutes or '00'}'")
    if _NAME.fullmatch(written) is None:
        raise refusal_of(node, "is not the name of a time zone", construct="the time zone")
    return string(written)


def is_utc(zone: Expression) -> bool:
    """Whether the zone is UTC by name."""
    return isinstance(zone, Constant) and zone.text in UTC_NAMES


def in_zone(value: Expression, zone: Expression, kind: Kind) -> Expression:
    """Return a TIMESTAMP as local time (DATETIME), or a local time as TIMESTAMP."""
    if kind is Kind.TIMESTAMP and zone.kind is Kind.TEXT and not is_utc(zone):
        return call("zoned_moment", value, zone, kind=kind)
    return infix(value, "AT TIME ZONE", zone, kind=kind)
