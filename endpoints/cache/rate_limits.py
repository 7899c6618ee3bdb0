"""How often a caller may call: counted in Redis, so that the limit is one over all processes. Fails open."""

from __future__ import annotations

from math import ceil
from typing import Final, cast

from endpoints.cache.connection import CacheUnavailable, Script, ask_script
from endpoints.cache.keys import PREFIX

# The window begins with its first call and ends by itself, on the server's clock.
_COUNT: Final = Script("""
local count = redis.call('INCR', KEYS[1])
if count == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return {count, redis.call('PTTL', KEYS[1])}
""")


def seconds_until_admitted(caller: str, *, calls: int, window_seconds: int) -> int:
    """Count a call; return 0 where it is within the limit, else in how many whole seconds the next one may come.

    Without Redis every call is admitted: a limit is there to share the service, not to bring it down.
    """
    name = f"{PREFIX}:rate:{caller}:{window_seconds}"
    try:
        count, remaining_ms = cast("list[int]", ask_script(_COUNT, [name], [window_seconds * 1000]))
    except CacheUnavailable:
        return 0
    return 0 if count <= calls else max(1, ceil(remaining_ms / 1000))
