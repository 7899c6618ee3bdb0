"""Health checks: does this process live, and does everything that it needs answer?"""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import redis
import structlog
from django.db import Error as DatabaseError
from django.db import connections
from django.http import HttpRequest, HttpResponse, JsonResponse
from django_redis import get_redis_connection

from config.deadlines import answer_within
from endpoints.calling.calls import check_log_database
from endpoints.errors import EndpointError, Overloaded

STATE_DATABASE_SECONDS = 0.5  # the log database has its own time limit, and probes wait for a second or two
OK, BUSY, UNAVAILABLE = "ok", "busy", "unavailable"

logger = structlog.get_logger(__name__)


def livez(request: HttpRequest) -> HttpResponse:
    """200 as long as this process answers at all."""
    return JsonResponse({"status": "ok"}, headers={"Cache-Control": "no-store"})


def readyz(request: HttpRequest) -> HttpResponse:
    """200 when both databases and Redis answer, else 503; `checks` says which does not. Reasons go to the log.

    A process whose connections all run queries is `busy` and ready: taken out, its load would fall on the others.
    """
    checks = {
        "database": _state("database", _check_state_database),
        "log_database": _state("log_database", check_log_database),
        "redis": _state("redis", _check_redis),
    }
    ready = UNAVAILABLE not in checks.values()
    body = {"status": OK if ready else UNAVAILABLE, "checks": checks}
    return JsonResponse(body, status=200 if ready else 503, headers={"Cache-Control": "no-store"})


def _state(name: str, check: Callable[[], None]) -> str:
    try:
        check()
    except Overloaded:
        return BUSY
    except (DatabaseError, EndpointError, psycopg.Error, redis.RedisError, OSError) as error:
        logger.warning("not_ready", check=name, reason=f"{type(error).__name__}: {error}")
        return UNAVAILABLE
    return OK


def _check_state_database() -> None:
    with answer_within(STATE_DATABASE_SECONDS), connections["default"].cursor() as cursor:
        cursor.execute("SELECT 1")


def _check_redis() -> None:
    get_redis_connection("default").ping()
