"""The attacks on the sandbox, sent as BigQuery: the translation is one more way in, and opens nothing."""

from __future__ import annotations

import json

import pytest

from endpoints.dialects import DIALECTS
from endpoints.errors import EndpointError
from endpoints.results.outcomes import Column
from tests.files import CASES
from tests.fuzz.oracle import complaints, parses

COLUMNS = (
    Column("timestamp", "timestamp with time zone"),
    Column("id", "uuid"),
    Column("event_message", "text"),
    Column("metadata", "jsonb"),
)
NAMES = ("edge_logs", "auth_logs", "database_logs", "function_logs")
TABLES = dict.fromkeys(NAMES, COLUMNS)
BIGQUERY = DIALECTS["bigquery"]
ATTACKS = [json.loads(line) for line in (CASES / "attacks.jsonl").read_text(encoding="utf-8").splitlines()]


# What is no attack in BigQuery's dialect, and why. Nothing but rows of the tables, and constants, can come back.
ANOTHER_TEXT = "a backslash escapes, # begins a comment, AUTH_USER is the text's own CTE in any case"
A_FIELD = "a name behind a dot is a field of a record there, and becomes ->, never a call"
CHEAPER = "costs time, which PostgreSQL's limits end, or is taken off"
HARMLESS = {
    **dict.fromkeys(("A110", "A133"), ANOTHER_TEXT),
    **dict.fromkeys(("A609", "A614", "A625", "A626", "A627", "A641", "A650", "A657"), A_FIELD),
    **dict.fromkeys(("A146", "A812", "A876", "A877"), CHEAPER),
}


@pytest.mark.parametrize("attack", [pytest.param(attack, id=attack["id"]) for attack in ATTACKS])
def test_refuses_it(attack):
    if attack["id"] in HARMLESS:
        query, _ = BIGQUERY.check(attack["sql"], tables=TABLES)
        assert parses(query.sql)
        assert complaints(query.sql, frozenset(NAMES)) == []
        return
    with pytest.raises(EndpointError) as raised:
        BIGQUERY.check(attack["sql"], tables=TABLES)
    assert raised.value.status in (400, 413)
