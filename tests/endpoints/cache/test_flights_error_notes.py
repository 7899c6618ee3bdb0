from __future__ import annotations

import traceback

import pytest

from endpoints import errors
from endpoints.cache import flights
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


@pytest.mark.parametrize("error", every_error(), ids=lambda error: error.code)
def test_every_error_comes_back_equal(error: EndpointError) -> None:
    again = flights.from_json(flights.to_json(error))
    assert type(again) is type(error)
    assert (again.status, again.headers, again.body("id")) == (error.status, error.headers, error.body("id"))
    assert str(again) == str(error)


def test_message_details_and_headers_come_back() -> None:
    error = errors.InvalidSQL("nothing to say", details=[DETAIL, {}], headers={"Retry-After": "5"})
    again = flights.from_json(flights.to_json(error))
    assert again.body("id") == error.body("id")
    assert again.headers == error.headers


def test_copy_has_no_traceback_of_the_original() -> None:
    try:
        raise InternalError
    except InternalError as error:
        again = flights.from_json(flights.to_json(error))
    assert traceback.format_exception(again) == [
        "endpoints.errors.InternalError: " + InternalError.default_message + "\n"
    ]


def test_detail_without_a_json_form_becomes_text() -> None:
    error = errors.InvalidSQL(details=[{"value": errors.RouteNotFound}])
    assert flights.from_json(flights.to_json(error)).details == ({"value": str(errors.RouteNotFound)},)


@pytest.mark.parametrize(
    "text",
    [
        flights.to_json(errors.RouteNotFound("new")).replace(b"RouteNotFound", b"NotYetKnown"),
        b"RouteNotFound",
        b"{}",
        b"[]",
        b'{"class": "RouteNotFound", "message": "new"}',
        b'{"class": "RouteNotFound", "message": "new", "details": 1, "headers": {}}',
    ],
)
def test_a_text_of_another_form_is_no_error(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"no error of ours|Expecting value"):
        flights.from_json(text)
