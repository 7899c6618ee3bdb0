"""A pytest plugin (`-p tests.seeded_faults.reports`): writes how each phase of each test ended, a JSON line each.

An exit code alone does not tell a failed test from one whose set-up failed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

VARIABLE = "SEEDED_FAULTS_REPORTS"  # names the file


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[Any]:
    report: pytest.TestReport = yield
    error = "" if call.excinfo is None else call.excinfo.type.__name__
    line = {"node": report.nodeid, "phase": report.when, "outcome": report.outcome, "error": error}
    with Path(os.environ[VARIABLE]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    return report
