"""An error is shared as its fields: who waited for the same work raises an equal one, in any thread or process."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from copy import copy
from typing import Any

import pytest

from endpoints import errors
from endpoints.errors import EndpointError, InternalError

DETAIL = {"name": "a 'quoted' \ud83d name", "line": 3, "column": None, "allowed": ["x", "y"], "share": 0.5}


def every_error() -> list[EndpointError]:
    """One of each class, made as its raisers make it."""
    made: list[EndpointError] = [
        errors.RateLimited(calls=600, window_seconds=60, retry_after_seconds=7),
        errors.TooManyCalls(6),
        errors.TooManySandboxQueries(4),
        errors.TooManyStreams(2),
        errors.SandboxSuspended(30.0, retry_after_seconds=12),
    ]
    assert {type(error) for error in made} == set(errors.LimitReached.__subclasses__())
    for error_class in EndpointError.__subclasses__():
        if error_class is errors.LimitReached:
            continue
        for arguments in ((), ("text",), (["a", "b"],), (5,), ("PUT", ["GET", "POST"])):
            try:
                made.append(error_class(*arguments))
                made[-1].body("id")
            except (TypeError, AttributeError, ValueError):
                continue
            break
        else:
            pytest.fail(f"no arguments known that make {error_class.__name__}")
    return made


def through_json(error: EndpointError) -> EndpointError:
    return EndpointError.from_fields(json.loads(json.dumps(error.as_fields())))


@pytest.mark.parametrize("again", [copy, through_json])
@pytest.mark.parametrize("error", every_error(), ids=lambda error: error.code)
def test_every_error_comes_back_equal(error: EndpointError, again: Callable[[EndpointError], EndpointError]) -> None:
    other = again(error)
    assert other is not error
    assert type(other) is type(error)
    assert (other.status, other.headers, other.body("id")) == (error.status, error.headers, error.body("id"))
    assert str(other) == str(error)


@pytest.mark.parametrize("again", [copy, through_json])
def test_message_details_headers_and_reason_come_back(again: Callable[[EndpointError], EndpointError]) -> None:
    error = errors.DatabaseUnavailable(
        "nothing to say", details=[DETAIL, {}], headers={"X": "5"}, retry_after_seconds=7, reason="no route"
    )
    other = again(error)
    assert other.body("id") == error.body("id")
    assert other.headers == {"Retry-After": "7", "X": "5"}
    assert (other.reason, str(other)) == ("no route", "no route")


@pytest.mark.parametrize("again", [copy, through_json])
def test_another_one_has_no_traceback_of_the_original(again: Callable[[EndpointError], EndpointError]) -> None:
    try:
        raise InternalError
    except InternalError as error:
        other = again(error)
    assert traceback.format_exception(other) == [
        "endpoints.errors.InternalError: " + InternalError.default_message + "\n"
    ]


def test_no_answer_says_the_reason() -> None:
    error = errors.DatabaseUnavailable(reason="log-1:5432 refuses")
    assert "log-1" not in json.dumps([error.body("id"), error.headers])


FIELDS = errors.RouteNotFound("new").as_fields()


@pytest.mark.parametrize(
    "fields",
    [
        FIELDS | {"class": "NotYetKnown"},
        FIELDS | {"class": ["RouteNotFound"]},
        FIELDS | {"details": 1},
        {name: value for name, value in FIELDS.items() if name != "headers"},
        {},
        [],
    ],
)
def test_fields_of_another_form_are_no_error(fields: Any) -> None:
    with pytest.raises(ValueError, match="no error of ours"):
        EndpointError.from_fields(fields)
