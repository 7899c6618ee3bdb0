"""A client that openapi-python-client makes of the document: type-checked, and run against the service."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.endpoints.api.documents import validate
from tests.files import PROJECT
from tests.live.installation import Installation

PROGRAMS: Final = PROJECT / "tests" / "clients" / "programs"
PROGRAM: Final = "every_endpoint.py"
SECONDS: Final = 300  # mypy has no cache at first
# The generator says so of what it leaves out: bodies that are lines, and those of OpenTelemetry.
LEFT_OUT: Final = ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-protobuf")
WRONG: Final = {
    "an argument of another type": ("get_logs_all.sync(client=client, project=1)", "arg-type"),
    "a required argument that is missing": ("get_usage_api_counts.sync(client=client, project='a')", "call-arg"),
    "a value that is not allowed": ("IntervalOfUsageApiCounts.WEEKLY", "attr-defined"),
    "a page size that is a text": ("get_logs_all.sync(client=client, project='a', page_size='7')", "arg-type"),
    "a column that is not there": ("LogsAllRow.from_dict({}).event_mesage", "attr-defined"),
    "a column that may be null": ("len(LogsAllRow.from_dict({}).event_message)", "arg-type"),
}


def run(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    arguments = [sys.executable, *command]
    return subprocess.run(arguments, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)


def check_types(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run mypy, strictly for the program; of the client it takes the types as they are."""
    return run("-m", "mypy", "--config-file=", "--strict", "--follow-imports=silent", program, folder=folder)


@pytest.fixture(scope="module")
def secret(running_installation: Installation) -> str:
    """The secret of an access token that may do everything."""
    running_installation.servers.start()  # the drill before may have left them in any state
    running_installation.wait_until_ready()
    console = running_installation.console
    issued: str = console.do("issue", name="client", may_purge=True, may_load=True, may_issue=True)
    return issued


@pytest.fixture(scope="module")
def client(running_installation: Installation, secret: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a generated client and of the program that uses it."""
    folder = tmp_path_factory.mktemp("client")
    with running_installation.caller(secret=secret) as caller:
        described: dict[str, Any] = json.loads(caller.request("GET", "/api/openapi.json").body)
    validate(described)
    # Without the other endpoints that drills have saved.
    kept = ("logs.all", "usage.api-counts", "logs", "tokens", "{request_id}")
    described["paths"] = {path: item for path, item in described["paths"].items() if path.rsplit("/", 1)[1] in kept}
    (folder / "openapi.json").write_text(json.dumps(described), encoding="utf-8")
    # It would format the client with ruff.
    (folder / "options.json").write_text(json.dumps({"post_hooks": []}), encoding="utf-8")
    options = ("--path", "openapi.json", "--config", "options.json", "--meta", "none", "--output-path", "logs_client")
    generated = run("-m", "openapi_python_client", "generate", *options, folder=folder)
    assert generated.returncode == 0, generated.stdout + generated.stderr
    said = generated.stdout + generated.stderr
    assert (
        said.count("WARNING parsing")
        == len(LEFT_OUT)
        == sum(said.count(f"Unsupported content type {each}\n") for each in LEFT_OUT)
    )
    (folder / PROGRAM).write_text((PROGRAMS / PROGRAM).read_text(encoding="utf-8"), encoding="utf-8")
    return folder


def test_a_program_with_the_generated_client_has_the_right_types(client: Path) -> None:
    checked = check_types(PROGRAM, client)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_mistakes_are_errors_of_types(client: Path) -> None:
    imports = (
        "from logs_client import AuthenticatedClient\n"
        "from logs_client.api.endpoints import get_logs_all, get_usage_api_counts\n"
        "from logs_client.models import IntervalOfUsageApiCounts, LogsAllRow\n"
        "client = AuthenticatedClient(base_url='', token='')\n"
    )
    lines = [expression for expression, _ in WRONG.values()]
    (client / "mistakes.py").write_text(imports + "\n".join(lines) + "\n", encoding="utf-8")
    said = check_types("mistakes.py", client).stdout
    first = imports.count("\n") + 1
    for number, (what, (_, code)) in enumerate(WRONG.items(), start=first):
        (line,) = (line for line in said.splitlines() if line.startswith(f"mistakes.py:{number}: error"))
        assert f"[{code}]" in line, what


def test_the_program_gets_rows_results_and_errors(client: Path, installation: Installation, secret: str) -> None:
    ran = run(PROGRAM, f"http://127.0.0.1:{installation.port}", secret, folder=client)
    assert ran.returncode == 0, ran.stdout + ran.stderr
