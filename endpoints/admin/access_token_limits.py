"""The limits of an access token and how much of them is in use, in words."""

from __future__ import annotations

from endpoints.access.secrets import NO_LIMIT, OwnLimits
from endpoints.access.token_limits import limits_in_force, limits_use
from endpoints.cache import CacheUnavailable
from endpoints.models import AccessToken


def words_of_own_limits(own: OwnLimits) -> str:
    """Return what differs from the installation's defaults: 600 calls a minute, no limit of calls at the same time."""
    limits = {
        "calls a minute": own.calls_a_minute,
        "calls at the same time": own.calls_at_once,
        "sandbox queries at the same time": own.sandbox_queries_at_once,
    }
    return ", ".join(
        f"no limit of {what}" if value == NO_LIMIT else f"{value} {what}"
        for what, value in limits.items()
        if value is not None
    )


def words_of_use(token: AccessToken) -> str:
    """Return what the access token uses at this moment of the limits that hold for it, over all processes."""
    try:
        use = limits_use(token.prefix, OwnLimits.of(token))
    except CacheUnavailable:
        return "not known while Redis is away: each process keeps the limits by itself"
    limits = limits_in_force(OwnLimits.of(token))
    parts = [
        f"calls: {use.calls} of {limits.calls}" if limits.calls else "calls: no limit",
        _used("calls at the same time", use.running, limits.calls_at_once),
        _used("sandbox queries at the same time", use.sandbox_queries, limits.sandbox_queries_at_once),
    ]
    if use.waiting:
        parts.append(f"waiting: {use.waiting}")
    if use.sandbox_suspended_seconds:
        parts.append(f"sandbox queries refused for another {use.sandbox_suspended_seconds:.0f} s")
    return "; ".join(parts)


def _used(what: str, used: int, limit: int | None) -> str:
    return f"{what}: no limit" if limit is None else f"{what}: {used} of {limit}"
