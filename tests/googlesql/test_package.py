"""The package stands alone: what it imports and when, and what it knows of PostgreSQL that its host knows too."""

from __future__ import annotations

import ast
import doctest
import subprocess
import sys

from googlesql.function_names import WINDOWED
from logsources.allowed_functions import AGGREGATES, WINDOW_FUNCTIONS
from tests.files import PROJECT

FILES = sorted((PROJECT / "googlesql").rglob("*.py"))


def imported(source: str) -> set[str]:
    nodes = list(ast.walk(ast.parse(source)))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in names}


def test_imports_sqlglot_and_the_standard_library() -> None:
    found = set().union(*(imported(path.read_text(encoding="utf-8")) for path in FILES))
    assert found - sys.stdlib_module_names == {"googlesql", "sqlglot"}


def test_loads_sqlglot_with_the_first_translation() -> None:
    program = (
        "import sys, googlesql; before = 'sqlglot' in sys.modules\n"
        "googlesql.translate('select 1', {}, {}, moments='iso', functions=frozenset())\n"
        "print(before, 'sqlglot' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert run.stdout == "False True\n"


def test_knows_every_function_that_takes_over() -> None:
    assert AGGREGATES.names | WINDOW_FUNCTIONS.names == WINDOWED


def test_the_readme_does_what_it_says() -> None:
    failed, tried = doctest.testfile(str(PROJECT / "googlesql" / "README.md"), module_relative=False)
    assert (failed, tried > 5) == (0, True)
