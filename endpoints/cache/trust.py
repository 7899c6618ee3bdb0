"""For how long a process may rely on what Redis has told it, without asking again.

Whoever changes or purges something waits that long before returning: from then on no process relies on what was before.
So a hundred calls a second of one result cost Redis ten questions, and no caller sees a state that is gone.
"""

from __future__ import annotations

from time import sleep

TRUSTED_SECONDS: float = 0.1  # counted from before the question was sent
_MARGIN_SECONDS = 0.02  # for a clock that runs slower in another process


def wait_until_expired() -> None:
    """Return when no process relies any more on what it was told before this call."""
    if TRUSTED_SECONDS:
        sleep(TRUSTED_SECONDS + _MARGIN_SECONDS)
