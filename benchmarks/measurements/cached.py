"""A cached result of usage.api-counts: the access token checked, metrics and log lines on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlencode

from redis import Redis

from benchmarks.load import call_without_pause
from benchmarks.measured import Measured, side_by_side
from benchmarks.stand import PROJECT_NAME, Stand, stored_statement

NAME = "cached"
CALLERS = 16
ARGUMENTS = {"interval": "daily", "project": PROJECT_NAME}


def measure(stand: Stand, *, rounds: int, seconds: float) -> Iterator[Measured]:
    """Yield the service against a bare Django view of the same bytes and FastAPI with redis.asyncio."""
    url = stand.endpoint_url("usage.api-counts", urlencode(ARGUMENTS))
    body = stand.body(url)
    figures = []
    with ExitStack() as stack:
        statement = stored_statement("usage.api-counts", ARGUMENTS)
        django = stack.enter_context(stand.django_peer(statement, body))
        fastapi = stack.enter_context(stand.fastapi_peer(statement))
        with Redis.from_url(str(stand.installation.servers.urls.redis_url)) as redis:
            redis.set(f"peer:usage.api-counts:{ARGUMENTS['interval']}:{ARGUMENTS['project']}", body)
        targets = {
            "service": (url, stand.headers),
            "django": (f"{django.url}/constant", django.headers),
            "fastapi": (f"{fastapi.url}/cached?{urlencode(ARGUMENTS)}", fastapi.headers),
        }
        for target, headers in targets.values():
            call_without_pause(target, headers=headers, connections=CALLERS, seconds=2)
        for _ in range(rounds):
            figures.append(
                {
                    name: call_without_pause(
                        target, headers=headers, connections=CALLERS, seconds=seconds
                    ).requests_per_second
                    for name, (target, headers) in targets.items()
                }
            )
    ours = side_by_side(figures, "service")
    name, note = "usage.api-counts, cached hit", f"{len(body):,} bytes a body"
    for against, label, target in (
        ("django", "a bare Django view of constant bytes", 0.70),
        ("fastapi", "FastAPI + redis.asyncio, token checked", 1.2),
    ):
        theirs = side_by_side(figures, against)
        yield Measured(name, label, "requests/s", ours, theirs, target=target, at_least=True, note=note)
