"""Which statements a connection has prepared."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from itertools import count
from typing import Final

# Each takes some memory of its server process; an installation has fewer stored queries than that in use.
KEPT_STATEMENTS: Final = 100


class KeptStatements:
    """The statements that one connection has prepared, each under a key, the longest unused first."""

    def __init__(self) -> None:
        self._names: OrderedDict[Hashable, bytes] = OrderedDict()
        self._numbers = count()

    def name_of(self, key: Hashable) -> bytes | None:
        """Return the name of a prepared statement, None where it is not prepared yet."""
        name = self._names.get(key)
        if name is not None:
            self._names.move_to_end(key)
        return name

    def new_name(self) -> bytes:
        return b"kept_%d" % next(self._numbers)

    def keep(self, key: Hashable, name: bytes) -> None:
        self._names[key] = name

    def give_up(self) -> list[bytes]:
        """Return the names beyond the limit, which are to be deallocated."""
        return [self._names.popitem(last=False)[1] for _ in range(len(self._names) - KEPT_STATEMENTS)]
