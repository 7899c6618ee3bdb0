"""The prepared statements of a connection; each takes memory of its server process, mostly for its plan."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from itertools import count
from typing import Final

KEPT_STATEMENTS: Final = 100  # an installation uses fewer stored queries than that
# Consumers' queries: a plan over 200 partitions takes about a megabyte for each table that it reads, and 8 ms to make.
KEPT_QUERIES: Final = 8
_REMEMBERED_QUERIES: Final = 200


class KeptStatements:
    """The statements that one connection has prepared, each under a key, the least recently used first."""

    def __init__(self, prefix: str, capacity: int) -> None:
        self._prefix = prefix
        self._capacity = capacity
        self._names: OrderedDict[Hashable, bytes] = OrderedDict()
        self._numbers = count()

    def admits(self, key: Hashable) -> bool:
        """Tell whether to prepare a statement that is not prepared; called once for each use of it."""
        return True

    def name_of(self, key: Hashable) -> bytes | None:
        """Return the name of a prepared statement, None if it is not prepared yet."""
        name = self._names.get(key)
        if name is not None:
            self._names.move_to_end(key)
        return name

    def new_name(self) -> bytes:
        return f"{self._prefix}_{next(self._numbers)}".encode()

    def keep(self, key: Hashable, name: bytes) -> None:
        self._names[key] = name

    def give_up(self) -> list[bytes]:
        """Return the names beyond the capacity, for the caller to deallocate."""
        return [self._names.popitem(last=False)[1] for _ in range(len(self._names) - self._capacity)]


class RepeatedStatements(KeptStatements):
    """Keeps only repeated statements: single ones would push them out."""

    def __init__(self, prefix: str, capacity: int) -> None:
        super().__init__(prefix, capacity)
        self._came_once: set[int] = set()  # hashes: if two texts share one, a text is only prepared one time too early

    def admits(self, key: Hashable) -> bool:
        if hash(key) in self._came_once:
            self._came_once.discard(hash(key))
            return True
        if len(self._came_once) >= _REMEMBERED_QUERIES:
            self._came_once.clear()
        self._came_once.add(hash(key))
        return False
