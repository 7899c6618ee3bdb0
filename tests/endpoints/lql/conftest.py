"""The table that queries run over."""

from __future__ import annotations

import os
from collections.abc import Iterator

import psycopg
import pytest
from django.db import connections

from endpoints.lql.lowering import LQLTable
from endpoints.results.outcomes import Column
from tests.endpoints.lql.evaluation import Evaluation
from tests.endpoints.lql.live_table import NOW, TYPES, LiveTable


@pytest.fixture(scope="session")
def live_table(django_db_setup: None) -> Iterator[LiveTable]:
    """The table, made for this session of tests; its connection's time zone is not UTC on purpose."""
    columns = ", ".join(f'"{name}" {type_}' for name, type_ in TYPES.items())
    database = connections["logs"].settings_dict["NAME"]
    with psycopg.connect(os.environ["LOGS_SUPERUSER_URL"], dbname=database, autocommit=True) as connection:
        connection.execute(f"CREATE TEMP TABLE lql_rows ({columns})")
        connection.execute("SET TimeZone = 'Asia/Kolkata'")
        table = LQLTable("lql_rows", tuple(Column(name, type_) for name, type_ in TYPES.items()))
        yield LiveTable(connection, table, Evaluation(TYPES, NOW))
