"""The advisory locks that the service takes in the log database: one space for each purpose, a key for each log source.

PostgreSQL keeps locks of two four-byte keys apart from those of one eight-byte key, which publishing takes.
"""

from __future__ import annotations

from enum import IntEnum, unique


@unique
class LockSpace(IntEnum):
    """The first of two keys, a number that nobody else uses; the second is `hashtext` of the log source's name."""

    ROLLING = 1_819_240_308  # to create, fill or drop partitions; loads that need one wait
    UNTIMED_ROWS = 1_819_240_309  # a load of rows without timestamps, which looks for them before it stores them
    BUILDING = 1_819_240_310  # to build covering indexes, which takes minutes: nobody waits for it
