"""Which fields of a row are its event message and its time. Every form of load finds them here, and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

MESSAGE_FIELD: Final = "event_message"
# What loggers and shippers call it, in the order in which the fields are looked at.
OTHER_MESSAGE_FIELDS: Final = ("message", "msg", "log", "log_entry")
TIME_FIELD: Final = "timestamp"
OTHER_TIME_FIELDS: Final = ("@timestamp", "time", "ts", "date")


def find_message(raw: Mapping[str, Any]) -> tuple[object, str]:
    """Return the message of a raw row, and the field that contains nothing else, so metadata need not have it too.

    The first field that is present and not null is the message. A value of OTHER_MESSAGE_FIELDS that is not text
    becomes JSON text. The message is None if no field has it. Raises TypeError and RecursionError for what JSON cannot
    contain.
    """
    own = raw.get(MESSAGE_FIELD)
    if own is not None:
        return own, MESSAGE_FIELD
    for name in OTHER_MESSAGE_FIELDS:
        value = raw.get(name)
        if value.__class__ is str:
            return value, name
        if value is not None:
            return orjson.dumps(value).decode(), MESSAGE_FIELD
    return None, MESSAGE_FIELD


def find_time(raw: Mapping[str, Any]) -> tuple[object, str]:
    """Return the time of a raw row, whatever its form, and the field that has it: the first that is not null."""
    own = raw.get(TIME_FIELD)
    if own is not None:
        return own, TIME_FIELD
    for name in OTHER_TIME_FIELDS:
        value = raw.get(name)
        if value is not None:
            return value, name
    return None, TIME_FIELD
