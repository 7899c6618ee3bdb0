"""The installation that is recorded, and the applications that answer: Django alone, and everything before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from django.core.signals import request_finished, request_started
from django.db import close_old_connections

from endpoints.api import fast_path
from tests.recorded.installation import (
    HOST,
    METRICS_TOKEN,
    ORIGIN,
    insert_log_rows,
    issue_secrets,
    save_endpoints,
)


@pytest.fixture
def own_settings(settings: Any) -> Iterator[None]:
    settings.ALLOWED_HOSTS = [HOST]
    settings.CORS_ALLOWED_ORIGINS = [ORIGIN]
    settings.ENDPOINTS_METRICS_TOKEN = METRICS_TOKEN
    fast_path._is_allowed_host.cache_clear()
    # Django's handler ends the database connection of a request; here it is the test's, inside its transaction.
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)
    fast_path._is_allowed_host.cache_clear()


@pytest.fixture
def secrets(own_settings: None, insert_rows: Callable[..., None]) -> Mapping[str, str]:
    """The secret of each caller, in an installation with log rows and endpoints."""
    insert_log_rows(insert_rows)
    save_endpoints()
    return issue_secrets()
