"""Every setting with its default: of the installation by its environment variable, and of an endpoint."""

from __future__ import annotations

from endpoints.definition import SETTINGS
from tests.recorded.recordings import assert_recorded
from tests.test_docs import variables_read


def test_settings_have_the_recorded_defaults() -> None:
    lines = [f"{name}={default}" for name, default in variables_read().items()]
    lines += [f"endpoint: {name} = {setting.default!r}" for name, setting in SETTINGS.items()]
    assert_recorded("settings.txt", sorted(lines))
