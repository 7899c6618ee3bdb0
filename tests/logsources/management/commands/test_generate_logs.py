"""manage.py generate_logs: into the shipped log sources, or out as NDJSON."""

from __future__ import annotations

import io
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from django.core.management import CommandError, call_command
from psycopg import Connection

from logsources.generation import SOURCE_NAMES
from tests.moments import now


def this_second() -> datetime:
    return now().replace(microsecond=0)


def run(**options: Any) -> tuple[str, str]:
    stdout, stderr = io.StringIO(), io.StringIO()
    call_command("generate_logs", stdout=stdout, stderr=stderr, **options)
    return stdout.getvalue(), stderr.getvalue()


def counts(conn: Connection[Any]) -> dict[str, int]:
    found = {}
    for name in SOURCE_NAMES:
        (found[name],) = conn.execute(f"SELECT count(*) FROM logs.{name}").fetchone() or (0,)
    return found


def test_fills_all_nine_log_sources(log_database: Connection[Any]) -> None:
    stdout, _ = run(rows=400, days=7, projects="acme,globex,initech")
    loaded = counts(log_database)
    assert sum(loaded.values()) == 400
    assert min(loaded.values()) > 0
    assert max(loaded, key=lambda name: loaded[name]) == "edge_logs"
    assert stdout.count(" rows loaded, 0 already there") == 9
    for name in SOURCE_NAMES:
        outside = log_database.execute(
            f"SELECT count(*) FROM logs.{name} WHERE project NOT IN ('acme', 'globex', 'initech')"
            " OR timestamp > now() OR timestamp < now() - interval '7 days 1 hour'"
        ).fetchone()
        assert outside == (0,), name


def test_the_same_seed_and_end_add_nothing_the_second_time(log_database: Connection[Any]) -> None:
    options = {"rows": 60, "seed": "s", "until": this_second().isoformat(), "days": 2}
    run(**options)
    stdout, stderr = run(**options)
    assert sum(counts(log_database).values()) == 60
    assert stdout.count(": 0 rows loaded, ") == 9
    assert stderr == f"To get the same rows again: --seed s --until {this_second().isoformat()}\n"


def test_without_a_seed_other_rows_come_and_the_seed_is_shown(log_database: Connection[Any]) -> None:
    seeds = [re.findall(r"--seed (\w+)", run(rows=10, source=["rest_logs"])[1]) for _ in range(2)]
    assert counts(log_database)["rest_logs"] == 20
    assert seeds[0] != seeds[1]


def test_fills_only_the_log_sources_that_are_named(log_database: Connection[Any]) -> None:
    run(rows=30, source=["rest_logs", "pooler_logs"])
    loaded = counts(log_database)
    assert (loaded["rest_logs"], loaded["pooler_logs"]) == (15, 15)
    assert sum(loaded.values()) == 30


def test_writes_ndjson_instead_of_loading(tmp_path: Path) -> None:
    options = {"rows": 20, "source": ["edge_logs"], "seed": "s", "until": "2025-06-02T12:00", "days": 1}
    file = tmp_path / "rows.ndjson"
    on_stdout, _ = run(output="-", **options)
    assert run(output=str(file), **options)[0] == ""
    assert file.read_text() == on_stdout
    rows = [orjson.loads(line) for line in on_stdout.splitlines()]
    assert len(rows) == 20
    until = datetime(2025, 6, 2, 12, tzinfo=UTC)
    assert all(until - timedelta(days=1) < datetime.fromisoformat(row["timestamp"]) <= until for row in rows)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"output": "-"}, "name it with --source"),
        ({"source": ["nope"]}, "Choose among: edge_logs, "),
        ({"days": 0}, "--days must be positive"),
        ({"days": float("nan")}, "--days must be positive"),
        ({"days": 3651}, "at most 3,650"),
        ({"until": "tomorrow"}, "'tomorrow' is not ISO 8601"),
        ({"projects": "acme,,globex"}, "--projects: ''"),
        ({"projects": "Acme Inc"}, "--projects: 'Acme Inc'"),
        ({"output": "/nowhere/rows", "source": ["edge_logs"]}, "No such file"),
    ],
)
def test_refuses_an_order_that_makes_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(CommandError, match=re.escape(message)):
        run(**options)
