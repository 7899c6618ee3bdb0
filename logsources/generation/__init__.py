"""Made-up rows for every log source that ships, in the producers' own shape. Pure and deterministic.

The same seed, sources, projects and end give the same rows, ids included: loading them twice adds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Final

from logsources.generation.auth import auth_row
from logsources.generation.edge import edge_row
from logsources.generation.platform import (
    database_row,
    function_edge_row,
    function_row,
    pooler_row,
    realtime_row,
    rest_row,
    storage_row,
)
from logsources.generation.vocabulary import Fields, draw_moments, random_uuid


@dataclass(frozen=True, slots=True)
class _Producer:
    """The function that writes a source's rows, and the share of these rows among all sources."""

    make_row: Callable[[Random, datetime, str], Fields]
    weight: int


_PRODUCERS: Final[Mapping[str, _Producer]] = {
    "edge_logs": _Producer(edge_row, 46),
    "database_logs": _Producer(database_row, 12),
    "function_edge_logs": _Producer(function_edge_row, 8),
    "function_logs": _Producer(function_row, 9),
    "auth_logs": _Producer(auth_row, 9),
    "realtime_logs": _Producer(realtime_row, 5),
    "storage_logs": _Producer(storage_row, 5),
    "rest_logs": _Producer(rest_row, 3),
    "pooler_logs": _Producer(pooler_row, 3),
}
SOURCE_NAMES: Final = tuple(_PRODUCERS)


def share_rows(total: int, source_names: Sequence[str]) -> dict[str, int]:
    """Return how many of the rows each source gets, by weight; the counts add up to the total."""
    weights = {name: _PRODUCERS[name].weight for name in source_names}
    whole = sum(weights.values())
    counts = {name: total * weight // whole for name, weight in weights.items()}
    heaviest = max(weights, key=lambda name: weights[name])
    counts[heaviest] += total - sum(counts.values())
    return counts


def generate_rows(
    source_name: str, *, count: int, until: datetime, days: float, projects: Sequence[str], seed: str
) -> Iterator[Fields]:
    """Yield raw rows, oldest first, of the `days` days that end at `until` (aware).

    The first project gets most rows, the next ones less and less.
    """
    dice = Random(f"{seed}/{source_name}")  # noqa: S311 - made-up rows hold no secrets
    project_weights = [1 / position for position in range(1, len(projects) + 1)]
    make_row = _PRODUCERS[source_name].make_row
    for moment in draw_moments(dice, count, until=until.astimezone(UTC), days=days):
        project = dice.choices(projects, weights=project_weights)[0]
        row_id = random_uuid(dice)
        yield {"id": row_id, "timestamp": moment.isoformat(), **make_row(dice, moment, project)}
