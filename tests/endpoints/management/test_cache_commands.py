"""warm_cache and purge_cache: what they say, and that they do it."""

from __future__ import annotations

import io
import re
import time

import pytest
from django.core.management import CommandError, call_command

from endpoints.cache.usage import asked
from endpoints.calling.calls import run_endpoint
from endpoints.calling.query_requests import Call
from endpoints.defining.saving import save_endpoint
from endpoints.models import Endpoint

pytestmark = pytest.mark.django_db


@pytest.fixture
def endpoint(db: None) -> Endpoint:
    draft = Endpoint(name="test.cached", sql="SELECT @key AS key", cache_seconds=60, warm_every_seconds=1)
    return save_endpoint(draft, [])


def state(key: str) -> str:
    return run_endpoint("test.cached", call=Call({"key": key})).served.state.value


def said(*arguments: str) -> str:
    stdout = io.StringIO()
    call_command(*arguments, stdout=stdout)
    return stdout.getvalue()


def test_purge_removes_the_results_of_the_endpoints_it_names(endpoint: Endpoint) -> None:
    assert [state("a"), state("b"), state("a")] == ["miss", "miss", "hit"]
    assert said("purge_cache", "test.cached") == "test.cached: 2 results removed\n"
    assert state("a") == "miss"
    assert "test.cached: 1 result removed\n" in said("purge_cache", "--all")


@pytest.mark.parametrize("arguments", [[], ["--all", "test.cached"]])
def test_purge_wants_names_or_all(endpoint: Endpoint, arguments: list[str]) -> None:
    with pytest.raises(CommandError, match="use --all"):
        said("purge_cache", *arguments)


def test_purge_of_an_unknown_endpoint_is_one_line(db: None) -> None:
    with pytest.raises(CommandError, match="There is no such endpoint"):
        said("purge_cache", "no.such")


def test_warm_renews_what_was_asked_for(endpoint: Endpoint) -> None:
    state("a")
    asked.flush()
    time.sleep(0.6)
    assert re.fullmatch(r"test\.cached: 1 renewed, in \d\.\d{3} s\n", said("warm_cache", "test.cached"))
    assert "1 fresh enough" in said("warm_cache", "test.cached")
    assert "test.cached: 0 renewed" in said("warm_cache")


def test_warm_says_why_it_skips(db: None) -> None:
    assert said("warm_cache", "logs.all") == "logs.all: skipped, the endpoint is not warmed\n"
