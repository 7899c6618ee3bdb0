"""Reports the failure of a command on one line; the cause stays chained for a log."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, OutputWrapper
from django.db import OperationalError

from endpoints.cache import CacheUnavailable, clock
from endpoints.errors import Detail, EndpointError, EndpointNotFound, InvalidParameters, StoredQueryFailed
from endpoints.models import Endpoint

USAGE_EXIT_CODE = 2  # as in argparse: the command was written wrongly, and nothing was tried
_MOST_NAMES = 20
# What the message of a consumer's query already says, in words and with its place.
_TOLD = frozenset({"line", "column", "construct", "found", "expected", "hint", "reason", "name"})


@contextmanager
def one_line_failures() -> Iterator[None]:
    """Turn the failures of services into CommandError, with all details on one line."""
    try:
        yield
    except EndpointError as error:
        if isinstance(error.__cause__, OperationalError):
            raise _state_database_failure(error.__cause__) from error
        raise CommandError(f"{error.code}: {_with_details(error)}") from error
    except ValidationError as error:
        raise CommandError(one_line(error)) from error
    except OperationalError as error:
        raise _state_database_failure(error) from error


def _state_database_failure(error: OperationalError) -> CommandError:
    return CommandError(f"Django's database cannot be used: {' '.join(str(error).split())}")


@contextmanager
def without_log_lines(*, least: int = logging.WARNING) -> Iterator[None]:
    """Keep the services' log lines below this level off the screen of the person who runs a command."""
    log = logging.getLogger("endpoints")
    before = log.level
    log.setLevel(least)
    try:
        yield
    finally:
        log.setLevel(before)


@contextmanager
def redis_outages_told(stderr: OutputWrapper) -> Iterator[None]:
    """Save something although Redis may not answer, and say that at the end in words instead of lines of the log."""
    with without_log_lines(least=logging.ERROR):
        yield
        try:
            clock()
        except CacheUnavailable:
            stderr.write(
                "Redis does not answer. Everything is saved, but web processes that run may use what they know for "
                f"half a minute. Start Redis, or correct REDIS_URL: it names {_server(settings.REDIS_URL)}."
            )


def _server(url: str) -> str:
    """Return host and port of a URL, which may have a password in it."""
    parts = urlsplit(url)
    return f"{parts.hostname or 'no host'}{f':{parts.port}' if parts.port else ''}"


def one_line(error: ValidationError) -> str:
    """Return every message of a ValidationError, each after the name of its field."""
    if not hasattr(error, "error_dict"):
        return " ".join(error.messages)
    return "; ".join(
        " ".join(messages) if field == "__all__" else f"{field}: {' '.join(messages)}"
        for field, messages in error.message_dict.items()
    )


def _with_details(error: EndpointError) -> str:
    if isinstance(error, StoredQueryFailed) and error.__cause__:
        # Callers see nothing of it, but the command line belongs to the operator.
        return f"PostgreSQL says {error.__cause__}"
    if isinstance(error, EndpointNotFound):
        # The message is for callers with an access token, which a command has not.
        return f"There is no such endpoint. {_names_of_endpoints()}"
    if isinstance(error, InvalidParameters):
        return "; ".join(map(_detail, error.details)) or error.message
    details = "; ".join(filter(None, (_detail(_untold(detail)) for detail in error.details)))
    return f"{error.message} {details}" if details else error.message


def _names_of_endpoints() -> str:
    names = list(Endpoint.objects.values_list("name", flat=True)[: _MOST_NAMES + 1])
    if not names:
        return "There is none yet: load_fixtures makes those that ship."
    return f"The endpoints are: {', '.join(names[:_MOST_NAMES])}{', …' if len(names) > _MOST_NAMES else '.'}"


def _untold(detail: Detail) -> Detail:
    """Return what the error's message has not said: all of it, unless the detail is a place in a text."""
    return {key: value for key, value in detail.items() if key not in _TOLD} if "line" in detail else detail


def _detail(detail: Detail) -> str:
    """Return ``interval is not one of the allowed values (allowed values: hourly, daily)``."""
    told = " ".join(str(detail[key]) for key in ("name", "reason") if key in detail)
    rest = ", ".join(
        f"{key.replace('_', ' ')}: {', '.join(map(str, value)) if isinstance(value, list | tuple) else value}"
        for key, value in detail.items()
        if key not in ("name", "reason")
    )
    return f"{told} ({rest})" if told and rest else told or (f"({rest})" if rest else "")
