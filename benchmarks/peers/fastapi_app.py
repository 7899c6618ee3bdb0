"""What a user of FastAPI would write with care: asyncpg with orjson, and cached bytes from redis.asyncio.

Served by uvicorn with uvloop and httptools from a virtual environment of its own (requirements.lock beside this file).
The rows' jsonb is never parsed: asyncpg hands its text over, orjson puts it in as it is.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import asyncpg
import orjson
import redis.asyncio as redis
from fastapi import FastAPI, Header, HTTPException, Response

STATEMENT = os.environ["PEER_STATEMENT"]
ARGUMENTS = json.loads(os.environ["PEER_ARGUMENTS"])
TOKEN_HASH = os.environ["PEER_TOKEN_HASH"]
CACHE_NAME = "peer:usage.api-counts:"


async def prepare_connection(connection: asyncpg.Connection) -> None:
    await connection.set_type_codec(
        "jsonb", schema="pg_catalog", format="text", encoder=str, decoder=lambda text: orjson.Fragment(text.encode())
    )


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    # PGHOST, PGUSER and so on say where.
    app.state.pool = await asyncpg.create_pool(min_size=8, max_size=8, init=prepare_connection)
    app.state.redis = redis.from_url(os.environ["REDIS_URL"])
    yield
    await app.state.pool.close()
    await app.state.redis.aclose()


app = FastAPI(lifespan=lifespan, openapi_url=None)


def check_token(secret: str) -> None:
    if not hmac.compare_digest(hashlib.sha256(secret.encode()).hexdigest(), TOKEN_HASH):
        raise HTTPException(401)


def _default(value: Any) -> Any:
    if isinstance(value, asyncpg.pgproto.pgproto.UUID):
        return str(value)
    raise TypeError


@app.get("/rows")
async def rows(x_api_key: str = Header()) -> Response:
    check_token(x_api_key)
    arguments = [
        datetime.fromisoformat(value) if isinstance(value, str) and "T" in value else value for value in ARGUMENTS
    ]
    records = await app.state.pool.fetch(STATEMENT, *arguments)
    return Response(
        orjson.dumps({"result": [dict(record) for record in records]}, default=_default), media_type="application/json"
    )


@app.get("/cached")
async def cached(interval: str, project: str, x_api_key: str = Header()) -> Response:
    check_token(x_api_key)
    body = await app.state.redis.get(f"{CACHE_NAME}{interval}:{project}")
    if body is None:
        raise HTTPException(404)
    return Response(body, media_type="application/json")
