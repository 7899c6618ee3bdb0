"""Which field of a row is its event message. Every form of load finds it here, and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

OWN_FIELD: Final = "event_message"
# What loggers and shippers call it, in the order in which the fields are looked at.
OTHER_FIELDS: Final = ("message", "msg", "log", "log_entry")


def find_message(raw: Mapping[str, Any]) -> tuple[object, str]:
    """Return the message of a raw row, and the field that contains nothing else, so metadata need not have it too.

    The first field that is present and not null is the message. A value of OTHER_FIELDS that is not text becomes JSON
    text. The message is None if no field has it. Raises TypeError and RecursionError for what JSON cannot contain.
    """
    own = raw.get(OWN_FIELD)
    if own is not None:
        return own, OWN_FIELD
    for name in OTHER_FIELDS:
        value = raw.get(name)
        if value.__class__ is str:
            return value, name
        if value is not None:
            return orjson.dumps(value).decode(), OWN_FIELD
    return None, OWN_FIELD
