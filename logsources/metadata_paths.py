"""The paths of sampled metadata: the dotted keys, how often they occur, and the types there. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

MAX_DEPTH: Final = 6
MAX_PATHS: Final = 300
MAX_VALUES_PER_ROW: Final = 500  # keys to look at: a row with thousands of keys reveals nothing more
_KEY: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")


@dataclass(frozen=True, slots=True)
class MetadataPath:
    """A path such as ``request.url``, the commonest type of its values, and the number of rows that have it."""

    path: str
    type: str
    rows: int


def common_paths(samples: Iterable[Any]) -> tuple[MetadataPath, ...]:
    """Return the paths of sampled metadata, the commonest first, at most MAX_PATHS.

    It looks into arrays, as a lax jsonpath does; keys that do not fit into a dotted path are left out.
    """
    # [{"request": [{"method": "GET"}]}]  ->  request: object, request.method: text
    rows: Counter[str] = Counter()
    types: dict[str, Counter[str]] = {}
    for sample in samples:
        found = dict(_paths(sample))
        rows.update(found.keys())
        for path, type_ in found.items():
            types.setdefault(path, Counter())[type_] += 1
    commonest = sorted(rows.items(), key=lambda item: (-item[1], item[0]))[:MAX_PATHS]
    return tuple(MetadataPath(path, types[path].most_common(1)[0][0], count) for path, count in commonest)


def _paths(sample: Any) -> Iterator[tuple[str, str]]:
    pending: list[tuple[str, int, Any]] = [("", 0, sample)]
    looked_at = 0
    while pending and looked_at < MAX_VALUES_PER_ROW:
        path, depth, value = pending.pop(0)
        looked_at += 1
        if isinstance(value, list):
            pending.extend((path, depth, element) for element in value[:1])
            continue
        if path:
            yield path, _type(value)
        if isinstance(value, dict) and depth < MAX_DEPTH:
            prefix = f"{path}." if path else ""
            pending.extend((prefix + key, depth + 1, part) for key, part in value.items() if _KEY.fullmatch(key))


def _type(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "text"
        case _:
            return "object"
