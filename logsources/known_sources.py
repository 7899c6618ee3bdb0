"""Finds the log source of a batch in a recent copy of the registry, because loads come many times a second."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from time import monotonic
from typing import Final

from django.db import Error

from config.deadlines import answer_within
from logsources.models import LogSource
from logsources.rolling import RolledSource
from logsources.tables import TableShape

FRESH_SECONDS: Final = 2.0
READ_SECONDS: Final = 0.5  # a load also has to wait for other things


class UnknownSource(Exception):
    """There is no log source with this name."""


@dataclass(frozen=True, slots=True)
class _Registry:
    by_name: Mapping[str, RolledSource]
    by_producer_name: Mapping[str, RolledSource]
    read_at: float  # time.monotonic()


class KnownSources:
    """The log sources of one process, in the form that loading needs.

    For an unknown name the registry is read anew. While its database is away, the known sources stay in use.
    """

    def __init__(self) -> None:
        self._registry: _Registry | None = None

    def named(self, name: str) -> RolledSource:
        """Return the source with this name. Raises UnknownSource and django.db.Error."""
        return self._find(lambda registry: registry.by_name.get(name))

    def of_producer(self, producer_name: str) -> RolledSource:
        """Return the source for the rows of this producer. Raises UnknownSource and django.db.Error."""
        return self._find(lambda registry: registry.by_producer_name.get(producer_name))

    def forget(self) -> None:
        """Read the registry anew at the next call."""
        self._registry = None

    def _find(self, look: Callable[[_Registry], RolledSource | None]) -> RolledSource:
        registry = self._registry
        if registry is not None and monotonic() - registry.read_at < FRESH_SECONDS:
            found = look(registry)
            if found is not None:
                return found
        found = look(self._read_again(registry))
        if found is None:
            raise UnknownSource
        return found

    def _read_again(self, known: _Registry | None) -> _Registry:
        try:
            with answer_within(READ_SECONDS):
                registry = _read()
        except Error:
            if known is None:
                raise
            registry = replace(known, read_at=monotonic())  # asked again after a while, not by each load
        self._registry = registry
        return registry


def _read() -> _Registry:
    read_at = monotonic()
    by_name: dict[str, RolledSource] = {}
    by_producer_name: dict[str, RolledSource] = {}
    for source in LogSource.objects.order_by("-name"):
        rolled = RolledSource(TableShape(source.name, source.project_path or None), source.retention_days)
        by_name[source.name] = rolled
        by_producer_name.update(dict.fromkeys(source.producer_names, rolled))
    return _Registry(by_name, by_producer_name, read_at)


KNOWN_SOURCES: Final = KnownSources()
