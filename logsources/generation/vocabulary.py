"""Names, addresses and other words that generated rows share: documentation ranges and example domains only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final
from uuid import NAMESPACE_DNS, UUID, uuid5

Fields = dict[str, Any]

# RFC 5737 and RFC 3849: addresses for documentation that belong to nobody.
_NETWORKS: Final = ("192.0.2", "198.51.100", "203.0.113")
_SHARE_OF_IPV6: Final = 0.15

USER_AGENTS: Final = (
    "ExampleClient/2.1",
    "example-js/2.48.0",
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148",
    "Dart/3.4 (dart:io)",
    "curl/8.5",
    "python-httpx/0.27.0",
)
REFERERS: Final = ("https://shop.example.org/", "https://shop.example.org/login", "https://admin.example.net/", "")
FUNCTION_NAMES: Final = ("send-invoice", "resize-image", "sync-stock", "webhook")
REGIONS: Final = ("eu-west-2", "us-east-1", "ap-southeast-1")
PEOPLE: Final = (
    ("u-1001", "Alex Example", "alex@example.com"),
    ("u-1002", "Robin Example", "robin@example.org"),
    ("u-1003", "Sam Muster", "sam@example.net"),
    ("u-1004", "Jo Doe", "jo.doe@example.com"),
    ("u-1005", "Zoë Ångström", "zoe@example.org"),
)


def pick(dice: Random, weights: Mapping[str, int]) -> str:
    """Return one of the keys, each as often as its weight says."""
    return dice.choices(tuple(weights), weights=tuple(weights.values()))[0]


def client_address(dice: Random) -> str:
    """Return an IPv4 or, less often, an IPv6 address."""
    if dice.random() < _SHARE_OF_IPV6:
        return f"2001:db8:{dice.randrange(16):x}::{dice.randrange(1, 0xFFFF):x}"
    return f"{dice.choice(_NETWORKS)}.{dice.randrange(1, 255)}"


def client_peer(dice: Random) -> str:
    """Return an address with a port, IPv6 in brackets."""
    address = client_address(dice)
    return f"{f'[{address}]' if ':' in address else address}:{dice.randrange(32_768, 61_000)}"


def hexadecimal(dice: Random, digits: int) -> str:
    """Return so many random hex digits."""
    return f"{dice.getrandbits(4 * digits):0{digits}x}"


def random_uuid(dice: Random) -> str:
    """Return a version 4 UUID drawn from the dice."""
    return str(UUID(int=dice.getrandbits(128), version=4))


def function_id(project: str, function_name: str) -> str:
    """Return the id of an edge function, which is the same in every source and on every run."""
    return str(uuid5(NAMESPACE_DNS, f"{function_name}.{project}.functions.example.com"))


def milliseconds(dice: Random, typical: float) -> int:
    """Return a duration: usually near the typical one, sometimes many times as long."""
    return max(1, round(typical * dice.lognormvariate(0, 0.8)))


def http_date(moment: datetime) -> str:
    """Return the moment as an HTTP header writes it (RFC 9110): Mon, 02 Jun 2025 08:15:02 GMT."""
    return f"{moment:%a, %d %b %Y %H:%M:%S} GMT"


def iso_seconds(moment: datetime) -> str:
    """Return the moment as 2025-06-02T08:15:09Z."""
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


# --- Schedule ---------------------------------------------------------------------------------------------------------
# The times of generated rows: busy afternoons, quiet nights.
_BUSIEST_HOUR: Final = 15.0  # UTC
_SWING: Final = 0.8  # the busiest hour has (1 + 0.8) / (1 - 0.8) = 9 times the rows of the quietest
_SECONDS_A_DAY: Final = 86_400


def draw_moments(dice: Random, count: int, *, until: datetime, days: float) -> list[datetime]:
    """Return so many moments in ascending order, later than `days` days before `until` and not after it."""
    span_seconds = days * _SECONDS_A_DAY
    offsets: list[float] = []
    while len(offsets) < count:
        offset = dice.random() * span_seconds
        if dice.random() * (1 + _SWING) < _activity(until - timedelta(seconds=offset)):
            offsets.append(offset)
    return [until - timedelta(seconds=offset) for offset in sorted(offsets, reverse=True)]


def _activity(moment: datetime) -> float:
    hour = moment.hour + moment.minute / 60
    return 1 + _SWING * math.cos((hour - _BUSIEST_HOUR) / 24 * 2 * math.pi)
