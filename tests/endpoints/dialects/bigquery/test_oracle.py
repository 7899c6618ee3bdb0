"""The dialect beside GoogleSQL's own engine: what both answer is the same."""

from __future__ import annotations

import json
import os, sys
from collections import Counter
from random import Random
from typing import Any

from psycopg import sql

from endpoints.calling.prepared_queries import sandbox_session
from endpoints.dialects.bigquery import translate
from endpoints.results.encoding import encode_rows
from endpoints.results.outcomes import ResultFormat, TimestampForm
from endpoints.log_database.execution import StatementFailed, run_statement
from tests import files
from tests.fuzz.bigquery_oracle import Comparison, compare
from tests.fuzz.bigquery_queries import Queries
from tests.fuzz.bigquery_rows import METADATA, ROWS, inferred, tables
from tests.fuzz.googlesql import GoogleSQL
from tests.endpoints.dialects.bigquery import conftest
from logsources.databases import owner_connection


def test_x(bigquery: Any) -> None:
    with owner_connection() as owner:
        conftest._fill(owner, ROWS)
    google = GoogleSQL(tables(ROWS, METADATA))
    found = Comparison()
    session = sandbox_session(bigquery.endpoint, bigquery.schema, {"project": "acme"})
    def ours(text):
        st = bigquery.checked(text).statement({"project": "acme"}, max_rows=1000)
        rows = run_statement(st, session, max_rows=1000)
        return json.loads(encode_rows(rows, ResultFormat.JSON, redact=False, timestamps_as=TimestampForm.UNIX_MICROSECONDS))["result"]
    q = Queries(Random(int(os.environ.get("SEED", "1"))))
    fails = Counter()
    for _ in range(int(os.environ.get("TEXTS", "500"))):
        t = q.query()
        try:
            compare(t, google, ours, found)
        except StatementFailed as e:
            fails[f"{e.sqlstate} {e}"[:60]] += 1
            print("FAIL", e.sqlstate, str(e)[:200], t[:300])
    print(found.same, found.invalid.total(), len(found.refused), len(found.different), fails.total())
    for k,v in found.invalid.most_common(): print('INV', v,k)
    c = Counter(found.refused.values())
    for k,v in c.most_common(): print('REF', v, k, [t for t in found.refused if found.refused[t]==k][0][:200])
    for d in found.different: print('DIFF', d)
    assert found.different == []
