"""A log shipper: a client whose access token loads rows and does nothing else."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from django.test import Client

from endpoints.access.access_tokens import issue_access_token


@pytest.fixture
def shipper(log_database: psycopg.Connection[Any]) -> Client:
    secret = issue_access_token(name="shipper", may_load=True, no_endpoints=True).secret
    return Client(headers={"X-API-KEY": secret})
