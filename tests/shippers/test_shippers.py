"""Real shippers and loggers, with the configuration of the docs, against a running service: each line arrives once.

The packages come from npm, PyPI and Debian, so these tests run only where they are asked for (`make test-shippers`).
With ENDPOINTS_RECORD_SHIPPERS=yes the requests are written to tests/cases/shippers, which the ordinary suite replays.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psycopg
import pytest

from tests.files import CASES
from tests.live.calls import until
from tests.live.installation import Installation
from tests.shippers.recorder import Recorder, recording
from tests.shippers.sent import EXPECTED, LINES, PROGRAMS

RECORDS: Final = os.environ.get("ENDPOINTS_RECORD_SHIPPERS") == "yes"
INSTALL_SECONDS: Final = 300
RUN_SECONDS: Final = 60


@pytest.fixture(scope="session")
def installation() -> Iterator[Installation]:
    with Installation(rows=9, days=1) as installation:
        yield installation


@pytest.fixture(scope="session")
def secret(installation: Installation) -> str:
    """The access token of the docs: one log source, a default project, and nothing else."""
    options = {"may_load": True, "load_sources": ["edge_logs"], "default_project": "shop", "no_endpoints": True}
    issued: str = installation.console.do("issue", name="shipper", **options)
    return issued


@pytest.fixture(scope="session")
def node_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the programs for Node import."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed here (apt install npm)")
    folder = tmp_path_factory.mktemp("npm")
    shutil.copy(PROGRAMS / "package.json", folder)
    run(["npm", "install", "--no-fund", "--no-audit", "--loglevel=error"], folder, seconds=INSTALL_SECONDS)
    return folder / "node_modules"


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with OpenTelemetry's SDK."""
    folder = tmp_path_factory.mktemp("python")
    run([sys.executable, "-m", "venv", str(folder)], folder, seconds=INSTALL_SECONDS)
    program = folder / "bin" / "python"
    requirements = str(PROGRAMS / "requirements.txt")
    pip = [str(program), "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "-r", requirements]
    run(pip, folder, seconds=INSTALL_SECONDS)
    return program


@pytest.fixture
def log_table(installation: Installation) -> Iterator[psycopg.Connection]:
    with psycopg.connect(str(installation.servers.urls.superuser_url), autocommit=True) as connection:
        connection.execute("TRUNCATE logs.edge_logs")
        yield connection


def run(
    command: list[str], folder: Path, *, seconds: float = RUN_SECONDS, stdin: str | None = None, **variables: str
) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    result = subprocess.run(
        command,
        cwd=folder,
        env={**environment, **variables},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def variables_of(recorder: Recorder, secret: str) -> dict[str, str]:
    """Return the environment of the docs."""
    return {
        "LOGS_URL": recorder.url,
        "LOGS_TOKEN": secret,
        "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": f"{recorder.url}/v1/logs",
        "OTEL_EXPORTER_OTLP_LOGS_HEADERS": f"X-API-KEY={secret}",
        "LINES": "\n".join(LINES),
    }


def arrived(table: psycopg.Connection) -> Counter[str]:
    rows = table.execute("SELECT event_message, count(*) FROM logs.edge_logs WHERE project = 'shop' GROUP BY 1")
    return Counter(dict(rows.fetchall()))


def finish(name: str, recorder: Recorder) -> None:
    """Check the service's answers, and write the requests down if that is wanted."""
    assert set(recorder.statuses) == {200}
    if RECORDS:
        path = CASES / "shippers" / f"{name}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"{request.as_line()}\n" for request in recorder.requests), encoding="utf-8")


@pytest.mark.parametrize("program", ["pino", "winston"])
def test_loggers_of_node(
    installation: Installation, secret: str, node_modules: Path, log_table: psycopg.Connection, program: str
) -> None:
    with recording(installation.port) as recorder:
        variables = variables_of(recorder, secret) | {"NODE_PATH": str(node_modules)}
        run(["node", str(PROGRAMS / f"{program}.cjs")], node_modules, **variables)
    assert arrived(log_table) == EXPECTED
    finish(program, recorder)


# Without and with an answer that is lost: the exporter sends the same again.
@pytest.mark.parametrize("loses_first_answer", [False, True])
@pytest.mark.parametrize("form", ["http", "proto"])
def test_opentelemetry_for_javascript(
    installation: Installation,
    secret: str,
    node_modules: Path,
    log_table: psycopg.Connection,
    form: str,
    loses_first_answer: bool,
) -> None:
    with recording(installation.port, loses_first_answer=loses_first_answer) as recorder:
        variables = variables_of(recorder, secret) | {"NODE_PATH": str(node_modules), "FORM": form}
        run(["node", str(PROGRAMS / "opentelemetry.cjs")], node_modules, **variables)
    assert arrived(log_table) == EXPECTED
    assert len(recorder.requests) == 1 + loses_first_answer
    if not loses_first_answer:
        finish(f"opentelemetry_javascript_{form}", recorder)


@pytest.mark.parametrize("loses_first_answer", [False, True])
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_opentelemetry_for_python(
    installation: Installation,
    secret: str,
    python: Path,
    log_table: psycopg.Connection,
    compression: str,
    loses_first_answer: bool,
) -> None:
    with recording(installation.port, loses_first_answer=loses_first_answer) as recorder:
        variables = variables_of(recorder, secret) | {"OTEL_EXPORTER_OTLP_LOGS_COMPRESSION": compression}
        program = (PROGRAMS / "opentelemetry_sdk.py").read_text(encoding="utf-8")
        # From standard input: each record names its file, and the records are kept.
        run([str(python), "-"], python.parent, stdin=program, **variables)
    assert arrived(log_table) == EXPECTED
    assert len(recorder.requests) == 1 + loses_first_answer
    if not loses_first_answer:
        finish(f"opentelemetry_python_{compression}", recorder)


@pytest.mark.parametrize("loses_first_answer", [False, True])
def test_syslog_ng(
    installation: Installation, secret: str, log_table: psycopg.Connection, tmp_path: Path, loses_first_answer: bool
) -> None:
    program = shutil.which("syslog-ng")
    if program is None:
        pytest.skip("syslog-ng is not installed here (apt install syslog-ng-core syslog-ng-mod-http)")
    log_file = tmp_path / "app.log"
    log_file.write_text("".join(f"{line}\n" for line in ["order placed", *LINES]), encoding="utf-8")
    with recording(installation.port, loses_first_answer=loses_first_answer) as recorder:
        variables = {**os.environ, **variables_of(recorder, secret), "LOG_FILE": str(log_file)}
        files = [
            f"--{option}={tmp_path / name}"
            for option, name in (("persist-file", "p"), ("pidfile", "i"), ("control", "c"))
        ]
        command = [program, "--foreground", "--no-caps", f"--cfgfile={PROGRAMS / 'syslog-ng.conf'}", *files]
        with subprocess.Popen(command, env=variables, cwd=tmp_path) as process:
            try:
                until(lambda: len(recorder.statuses) > loses_first_answer, seconds=RUN_SECONDS)
                until(lambda: arrived(log_table) == EXPECTED, seconds=RUN_SECONDS)
            finally:
                process.terminate()
                process.wait(RUN_SECONDS)
    assert arrived(log_table) == EXPECTED
    if not loses_first_answer:
        finish("syslog_ng", recorder)
