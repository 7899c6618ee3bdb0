"""`manage.py doctor` on a whole installation: in order, and with parts of it broken."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.files import PROJECT
from tests.live.installation import Installation


@pytest.fixture
def function_open(installation: Installation) -> Iterator[None]:
    installation.servers.execute("GRANT EXECUTE ON FUNCTION pg_sleep(float8) TO sandbox_reader")
    yield
    installation.servers.execute("REVOKE EXECUTE ON FUNCTION pg_sleep(float8) FROM sandbox_reader")


def doctor(installation: Installation) -> tuple[list[str], str, int]:
    """Return the lines of its page, its last word and its exit status."""
    done = subprocess.run(
        [sys.executable, "manage.py", "doctor"],
        cwd=PROJECT,
        env=installation.environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.stdout.splitlines(), done.stderr.strip(), done.returncode


def test_finds_nothing_wrong_with_what_works(installation: Installation) -> None:
    lines, _, _ = doctor(installation)
    for line in (
        "ok    Django database: Answers.",
        "ok    Log database: Answers.",
        "ok    Redis: Answers.",
        "ok    Migrations of Django: All are applied.",
        "ok    Migrations of the log database: All are applied.",
        "ok    Clock, Redis: as here.",
    ):
        assert line in lines
    assert any(line.startswith("ok    Guarantees of the sandbox: ") for line in lines)
    assert any(line.startswith("ok    Partitions ahead: ") for line in lines)
    assert any(line.startswith("warn  Settings: HTTPS_ONLY is off") for line in lines), "drills use plain HTTP"


def test_a_guarantee_that_fails_is_named_with_what_to_do(installation: Installation, function_open: None) -> None:
    lines, last_word, status = doctor(installation)
    assert status == 1
    assert "failed" in last_word
    (found,) = [index for index, line in enumerate(lines) if line.startswith("FAIL  Guarantee functions closed")]
    assert "pg_sleep" in lines[found]
    assert "repair_logs" in lines[found + 1]


def test_without_redis_the_rest_is_still_looked_at(installation: Installation) -> None:
    with installation.servers.redis_killed():
        lines, _, status = doctor(installation)
    assert status == 1
    (found,) = [index for index, line in enumerate(lines) if line.startswith("FAIL  Redis: ")]
    assert "REDIS_URL" in lines[found + 1]
    assert "ok    Log database: Answers." in lines
    assert any(line.startswith("ok    Version, Log database: ") for line in lines)


def test_without_the_databases_it_says_so_in_words(installation: Installation) -> None:
    with installation.servers.postgres_killed():
        lines, last_word, status = doctor(installation)
    assert status == 1
    assert any(line.startswith("FAIL  Django database: ") for line in lines)
    assert any(line.startswith("FAIL  Log database: ") for line in lines)
    assert "Traceback" not in last_word
