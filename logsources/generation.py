"""Made-up rows for every log source that ships, in the producers' own shape. Deterministic.

The same seed, sources, projects and end give the same rows, ids included: loading them twice adds nothing.

What the rows of a source look like is in `fixtures/sample_rows`: `row` is a row with {slots}, and `draws` what is drawn
for each row, in this order: one of a list, or of an object whose values are weights. A drawn object fills the slots of
its keys; its `weight`, unless 1, says how often it is drawn. A slot that stands alone keeps the type of its value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final
from uuid import NAMESPACE_DNS, UUID, uuid5

import orjson

# How many rows each source has, among all.
_WEIGHTS: Final = {
    "edge_logs": 46, "database_logs": 12, "function_edge_logs": 8, "function_logs": 9, "auth_logs": 9,
    "realtime_logs": 5, "storage_logs": 5, "rest_logs": 3, "pooler_logs": 3,
}  # fmt: skip
SOURCE_NAMES: Final = tuple(_WEIGHTS)
_FOLDER: Final = Path(__file__).resolve().parent.parent / "fixtures" / "sample_rows"
# RFC 5737 and RFC 3849: addresses for documentation that belong to nobody.
_NETWORKS: Final = ("192.0.2", "198.51.100", "203.0.113")
_SHARE_OF_IPV6: Final = 0.15
_BUSIEST_HOUR: Final = 15.0  # UTC
_SWING: Final = 0.8  # the busiest hour has (1 + 0.8) / (1 - 0.8) = 9 times the rows of the quietest
_SLOT: Final = re.compile(r"\{([a-z_]+(?::[^{}]*)?)\}")  # {name}, or {what is drawn:how}
_SLOT_IN_JSON: Final = re.compile(f'"{_SLOT.pattern}"|{_SLOT.pattern}')

Values = dict[str, Any]  # of the slots that a row has so far


def share_rows(total: int, source_names: Sequence[str]) -> dict[str, int]:
    """Return how many of the rows each source gets, by weight; the counts add up to the total."""
    whole = sum(_WEIGHTS[name] for name in source_names)
    counts = {name: total * _WEIGHTS[name] // whole for name in source_names}
    counts[max(source_names, key=_WEIGHTS.__getitem__)] += total - sum(counts.values())
    return counts


def generate_rows(
    source_name: str, *, count: int, until: datetime, days: float, projects: Sequence[str], seed: str
) -> Iterator[bytes]:
    """Yield raw rows as lines of NDJSON, oldest first, of the `days` days that end at `until` (aware).

    The first project gets most rows, the next ones less and less.
    """
    dice = Random(f"{seed}/{source_name}")  # noqa: S311 - made-up rows hold no secrets
    draws, pieces = _sample(source_name)
    weights = [1 / position for position in range(1, len(projects) + 1)]
    for moment in _draw_moments(dice, count, until=until.astimezone(UTC), days=days):
        values: Values = {"project": dice.choices(projects, weights)[0], "moment": moment}
        for name, options in draws.items():
            _draw(name, options, values, dice)
        line = []
        for text, alone, inside in pieces:
            line.append(text)
            if alone:
                line.append(orjson.dumps(_value(alone, values, dice)))
            elif inside:
                line.append(orjson.dumps(str(_value(inside, values, dice)))[1:-1])
        yield b"".join(line)


@cache
def _sample(source_name: str) -> tuple[dict[str, Any], list[tuple[bytes, str, str]]]:
    """Return the draws of a source, and the pieces of its row: a text, then a slot, alone or inside a text."""
    sample = orjson.loads((_FOLDER / f"{source_name}.json").read_bytes())
    row = orjson.dumps({"id": "{uuid}", "timestamp": "{moment}", **sample["row"]}).decode()
    parts = [*_SLOT_IN_JSON.split(row), "", ""]
    pieces = [(text.encode(), alone, inside) for text, alone, inside in zip(*[iter(parts)] * 3, strict=True)]
    return sample["draws"], pieces


def _draw_moments(dice: Random, count: int, *, until: datetime, days: float) -> list[datetime]:
    """Return ascending moments, more of them in the afternoon, later than `days` before `until` and not after it."""
    offsets: list[timedelta] = []
    while len(offsets) < count:
        offset = timedelta(seconds=dice.random() * days * 86_400)
        moment = until - offset
        hour = moment.hour + moment.minute / 60
        activity = 1 + _SWING * math.cos((hour - _BUSIEST_HOUR) / 24 * 2 * math.pi)
        if dice.random() * (1 + _SWING) < activity:
            offsets.append(offset)
    return [until - offset for offset in sorted(offsets, reverse=True)]


def _draw(name: str, options: Any, values: Values, dice: Random) -> None:
    """Fill the slot, or those of the keys of an object."""
    if type(options) is list:
        objects = type(options[0]) is dict
        (options,) = dice.choices(options, [each.get("weight", 1) for each in options] if objects else None)
    elif type(options) is dict:
        (options,) = dice.choices([*options], [*options.values()])
    if type(options) is dict:
        for key, inner in options.items():
            _draw(key, inner, values, dice)
    elif type(options) is not str or "{" not in options:
        values[name] = options
    elif alone := _SLOT.fullmatch(options):
        values[name] = _value(alone[1], values, dice)
    else:
        values[name] = _SLOT.sub(lambda slot: str(_value(slot[1], values, dice)), options)


def _value(slot: str, values: Values, dice: Random) -> Any:
    if slot in values:
        return values[slot]
    kind, _, how = slot.partition(":")
    return _KINDS[kind](dice, values, how)


def _address(dice: Random, *_: object) -> str:
    if dice.random() < _SHARE_OF_IPV6:
        return f"2001:db8:{dice.randrange(16):x}::{dice.randrange(1, 0xFFFF):x}"
    return f"{dice.choice(_NETWORKS)}.{dice.randrange(1, 255)}"


def _peer(dice: Random, *_: object) -> str:
    address = _address(dice)
    return f"{f'[{address}]' if ':' in address else address}:{dice.randrange(32_768, 61_000)}"


_KINDS: Final[dict[str, Callable[[Random, Values, str], Any]]] = {
    "int": lambda dice, _, bounds: dice.randint(*map(int, bounds.split(":"))),
    "digits": lambda dice, values, bounds: str(_KINDS["int"](dice, values, bounds)),
    "hex": lambda dice, _, digits: f"{dice.getrandbits(4 * int(digits)):0{digits}x}",
    "uuid": lambda dice, *_: str(UUID(int=dice.getrandbits(128), version=4)),
    "chance": lambda dice, _, share: dice.random() < float(share),
    # Of milliseconds: usually near the typical ones, sometimes many times as many.
    "near": lambda dice, _, typical: max(1, round(int(typical) * dice.lognormvariate(0, 0.8))),
    "address": _address,
    "peer": _peer,
    "time": lambda _, values, form: values["moment"].strftime(form),
    "microseconds": lambda _, values, __: round(values["moment"].timestamp() * 1_000_000),
    "function_id": lambda _, values, __: str(uuid5(NAMESPACE_DNS, f"{values['function']}.{values['project']}.example")),
}
