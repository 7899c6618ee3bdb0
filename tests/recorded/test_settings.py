"""Every setting with its default: of the installation by its environment variable, and of an endpoint."""

from __future__ import annotations

from typing import Final

from endpoints.definition import SETTINGS
from tests.recorded.recordings import assert_recorded
from tests.test_docs import variables_read

NO_PROMISES: Final = {
    "ENDPOINTS_TAIL_SECONDS",
    "ENDPOINTS_TAILS_AT_ONCE",
    "ENDPOINTS_WAITING_TAILS",
}  # of calls that wait


def test_settings_have_the_recorded_defaults() -> None:
    lines = [f"{name}={default}" for name, default in variables_read().items() if name not in NO_PROMISES]
    lines += [f"endpoint: {name} = {setting.default!r}" for name, setting in SETTINGS.items()]
    assert_recorded("settings.txt", sorted(lines))
