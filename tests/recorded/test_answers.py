"""Some hundred requests get the answers that were recorded, byte for byte; what is plain gets them before Django too.

A change that is meant to change none of them runs this before and after. `make record` writes the answers anew, with
all other recordings: look at the difference in git before you commit it, in a commit of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from django.core.handlers.wsgi import WSGIHandler
from django.core.wsgi import get_wsgi_application

from endpoints.api.fast_path import FastPath
from tests.recorded.asking import answers_to, as_lines
from tests.recorded.recordings import assert_recorded
from tests.recorded.requests import recorded_requests

pytestmark = [pytest.mark.django_db, pytest.mark.sql]
ANSWERS = "answers.jsonl"
REQUESTS = list(recorded_requests())


def test_every_request_gets_the_recorded_answer(secrets: Mapping[str, str]) -> None:
    assert_recorded(ANSWERS, as_lines(answers_to(REQUESTS, get_wsgi_application(), secrets)))


def test_what_is_plain_gets_it_before_django(secrets: Mapping[str, str]) -> None:
    passed_on = []

    class Django(WSGIHandler):
        def __call__(self, environ: Any, start_response: Any) -> Any:
            passed_on.append(environ["PATH_INFO"])
            return super().__call__(environ, start_response)

    answers = answers_to(REQUESTS, FastPath(Django()), secrets)
    assert_recorded(ANSWERS, as_lines(answers))
    assert len(REQUESTS) - len(passed_on) > 200, "so many are plain"
