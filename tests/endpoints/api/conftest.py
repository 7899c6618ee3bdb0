"""The whole way of a request, as the web server hands it over: slow clients, the fast path, Django."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from django.test import RequestFactory

from endpoints.api import fast_path
from endpoints.api.fast_path import FastPath
from endpoints.api.slow_bodies import ReadingPlaces
from endpoints.api.slow_clients import SlowClients

HOST: Final = "logs.example.org"

Ask = Callable[..., tuple[int, dict[str, str], bytes]]


@pytest.fixture
def ask(settings: Any) -> Iterator[Ask]:
    """Return a function that sends a request and returns status, headers and body.

    `headers` have `_` for `-`; `wsgi` is the scheme. A body in chunks has no length, as the web server hands it over;
    `wsgi_length` is told instead of the body's own.
    """
    settings.ALLOWED_HOSTS = [HOST]
    fast_path._is_allowed_host.cache_clear()
    # Django's handler ends the database connection of a request; here it is the test's, inside its transaction.
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    places = ReadingPlaces(threads=16, body_seconds=60.0, bytes_per_second=4096)
    application = SlowClients(FastPath(get_wsgi_application()), places)

    def send(
        query: str,
        *,
        path: str,
        method: str = "GET",
        body: bytes = b"",
        content_type: str = "application/json",
        in_chunks: bool = False,
        **headers: str,
    ) -> Any:
        environ = RequestFactory().generic(method, path).environ
        environ |= {"QUERY_STRING": query, "HTTP_HOST": HOST, "wsgi.input": io.BytesIO(body)}
        environ |= {"CONTENT_LENGTH": str(len(body)) if body else "", "CONTENT_TYPE": content_type}
        if in_chunks:
            del environ["CONTENT_LENGTH"]
            environ |= {"HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input_terminated": True}
        if "wsgi_length" in headers:
            environ["CONTENT_LENGTH"] = str(headers.pop("wsgi_length"))
        environ["wsgi.url_scheme"] = headers.pop("wsgi", "http")
        environ |= {f"HTTP_{name.upper()}": value for name, value in headers.items()}
        begun: dict[str, Any] = {}

        def start_response(status: str, headers: list[tuple[str, str]], error: object = None) -> None:
            begun.update(status=int(status[:3]), headers=dict(headers))

        answer = b"".join(application(environ, start_response))
        return begun["status"], begun["headers"], answer

    yield send
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)
    fast_path._is_allowed_host.cache_clear()
