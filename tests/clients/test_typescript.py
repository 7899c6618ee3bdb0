"""Types that openapi-typescript makes of the document: a program compiled with them, and run against the service.

The packages come from npm, so these tests run only where they are asked for (`make test-clients`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.files import PROJECT
from tests.live.installation import Installation

PROGRAMS: Final = PROJECT / "tests" / "clients" / "programs"
FILES: Final = ("package.json", "tsconfig.json", "every_endpoint.ts")
SECONDS: Final = 300


@pytest.fixture(scope="module")
def installation() -> Iterator[Installation]:
    with Installation(rows=300, days=1) as installation:
        yield installation


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the program and with the packages that it needs."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed here (apt install npm)")
    folder = tmp_path_factory.mktemp("npm")
    for name in FILES:
        shutil.copy(PROGRAMS / name, folder)
    run("npm", "install", "--no-fund", "--no-audit", "--loglevel=error", folder=folder)
    return folder


def run(*command: str, folder: Path) -> str:
    found = f"{folder / 'node_modules' / '.bin'}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": found},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_a_program_in_typescript_compiles_and_gets_rows_results_and_errors(
    installation: Installation, node: Path
) -> None:
    secret = installation.console.do("issue", name="client", may_purge=True, may_load=True, may_issue=True)
    with installation.caller(secret=secret) as caller:
        (node / "openapi.json").write_bytes(caller.request("GET", "/api/openapi.json").body)
    run("openapi-typescript", "openapi.json", "--output", "logs.ts", folder=node)
    # Each mistake that the program shows must be one to the compiler: it refuses an expected error that is none.
    run("tsc", "--project", "tsconfig.json", folder=node)
    run("node", "built/every_endpoint.js", f"http://127.0.0.1:{installation.port}", secret, folder=node)
