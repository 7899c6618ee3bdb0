"""Every route but the query route gets the answers that were recorded, from Django and from all that is before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from django.core.wsgi import get_wsgi_application

from endpoints.api.fast_path import FastPath
from endpoints.api.slow_bodies import ReadingPlaces
from endpoints.api.slow_clients import SlowClients
from tests.recorded.asking import answers_to, as_lines
from tests.recorded.recordings import assert_recorded
from tests.recorded.requests_of_surfaces import requests_of_surfaces

pytestmark = [pytest.mark.django_db, pytest.mark.sql]


def whole_way() -> Callable[..., Any]:
    places = ReadingPlaces(threads=2, body_seconds=60.0, bytes_per_second=4096)
    return SlowClients(FastPath(get_wsgi_application()), places)


@pytest.mark.parametrize("application", [get_wsgi_application, whole_way])
def test_every_route_gives_the_recorded_answers(
    secrets: Mapping[str, str], application: Callable[[], Callable[..., Any]]
) -> None:
    assert_recorded("surfaces.jsonl", as_lines(answers_to(requests_of_surfaces(), application(), secrets)))
