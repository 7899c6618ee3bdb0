"""How PostgreSQL is to plan a stored query, as operators write it: `plan_cache_mode = force_generic_plan, jit = off`.

Only settings that choose among plans (PostgreSQL manual, "Query Planning"): none changes the rows, a limit or a right.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_SWITCHES: Final = (
    "enable_bitmapscan", "enable_gathermerge", "enable_hashagg", "enable_hashjoin", "enable_incremental_sort",
    "enable_indexonlyscan", "enable_indexscan", "enable_material", "enable_memoize", "enable_mergejoin",
    "enable_nestloop", "enable_parallel_append", "enable_parallel_hash", "enable_partitionwise_aggregate",
    "enable_partitionwise_join", "enable_seqscan", "enable_sort", "jit",
)  # fmt: skip
# In every PostgreSQL from 15 on, with the values that it takes.
_VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "plan_cache_mode": ("auto", "force_custom_plan", "force_generic_plan"),
    "max_parallel_workers_per_gather": tuple(map(str, range(9))),
    **dict.fromkeys(_SWITCHES, ("on", "off")),
}
_PAIR: Final = re.compile(r"\s*(\w+)\s*=\s*(\w+)\s*", re.ASCII)


class PlannerSettingsError(ValueError):
    """A text that is no list of planner settings; the message says what would be one."""


def parse_planner_settings(text: str) -> dict[str, str]:
    """Return the settings by name, in their order; a blank text has none. Raises PlannerSettingsError."""
    settings: dict[str, str] = {}
    for part in text.split(",") if text.strip() else ():
        pair = _PAIR.fullmatch(part)
        if pair is None:
            raise PlannerSettingsError(f"“{part.strip()}” is not of the form name = value; commas stand between them.")
        name, value = pair[1].lower(), pair[2].lower()
        if name not in _VALUES:
            raise PlannerSettingsError(f"{name} is none of the planner settings: {', '.join(sorted(_VALUES))}.")
        if value not in _VALUES[name]:
            raise PlannerSettingsError(f"{name} is one of {', '.join(_VALUES[name])}, not {value}.")
        if name in settings:
            raise PlannerSettingsError(f"{name} stands there twice.")
        settings[name] = value
    return settings
