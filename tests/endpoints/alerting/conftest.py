"""A receiver of webhooks, allowed though it is on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.endpoints.alerting.receiver import Receiver, receiving


@pytest.fixture
def receiver(settings: Any) -> Iterator[Receiver]:
    settings.ALERT_WEBHOOK_PRIVATE = True
    with receiving() as one:
        yield one
