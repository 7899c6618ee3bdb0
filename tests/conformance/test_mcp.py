"""The official conformance suite of the Model Context Protocol against a running service.

The suite comes from npm, so this runs only where it is asked for (`make test-conformance`).
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest

from tests.live.installation import Installation

INSTALL_SECONDS: Final = 300
RUN_SECONDS: Final = 120
HANDSHAKE: Final = ("2025-06-18", "2025-11-25")
STATELESS: Final = "2026-07-28"
# Of each scenario the revisions that it is about; scenarios of what this server does not offer are left out: prompts,
# resources, completion, logging, sampling, elicitation, images, sound, progress, sessions, subscriptions, tasks.
SCENARIOS: Final[Mapping[str, tuple[str, ...]]] = {
    "server-initialize": HANDSHAKE,
    "ping": HANDSHAKE,
    "tools-list": (*HANDSHAKE, STATELESS),
    "tools-call-simple-text": (*HANDSHAKE, STATELESS),
    "tools-call-error": (*HANDSHAKE, STATELESS),
    "dns-rebinding-protection": ("2025-11-25", STATELESS),
    "server-stateless": (STATELESS,),
    "caching": (STATELESS,),
    "http-header-validation": (STATELESS,),
}
# Checks of these scenarios that are about such things too.
NOT_OFFERED: Final[Mapping[str, frozenset[str]]] = {
    "server-stateless": frozenset(
        {
            "sep-2575-server-rejects-undeclared-capability",  # no tool needs a capability of the client
            "sep-2575-missing-capability-http-400",
            "sep-2575-server-sends-subscription-ack",
            "sep-2575-server-tags-subscription-id",
            "sep-2575-server-honors-notification-filter",
            "sep-2575-server-sends-prompts-list-changed-on-subscription",
            "sep-2575-server-sends-tools-list-changed-on-subscription",
        }
    ),
    "caching": frozenset(
        {
            "sep-2549-prompts-list-caching-hints",
            "sep-2549-resources-list-caching-hints",
            "sep-2549-resources-templates-list-caching-hints",
            "sep-2549-resources-read-caching-hints",
        }
    ),
}


@pytest.fixture(scope="session")
def installation() -> Iterator[Installation]:
    with Installation(rows=9, days=1) as installation:
        # The tools that the suite calls.
        installation.save("test_simple_text", "SELECT 'This is a simple text response for testing.' AS text")
        installation.save("test_logging_tool", "SELECT 1 AS one")
        installation.save("test_streaming_elicitation", "SELECT 1 AS one")
        installation.save("test_error_handling", "SELECT 1 / (random() * 0)::int AS nothing")
        yield installation


@pytest.fixture(scope="session")
def node_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The suite, and the Node.js that it needs."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed here (apt install npm)")
    folder = tmp_path_factory.mktemp("npm")
    shutil.copy(Path(__file__).parent / "package.json", folder)
    command = ["npm", "install", "--no-fund", "--no-audit", "--loglevel=error"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=INSTALL_SECONDS)
    return folder / "node_modules"


@contextmanager
def with_access_token(port: int, secret: str) -> Iterator[int]:
    """Yield the port of a proxy that adds the access token: the suite itself sends none."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=RUN_SECONDS)
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                connection.putheader(name, value)
            connection.putheader("X-API-KEY", secret)
            connection.endheaders(body)
            answer = connection.getresponse()
            content = answer.read()
            connection.close()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("connection", "date", "server", "transfer-encoding", "content-length"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_DELETE = do_POST

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(scope="session")
def port(installation: Installation) -> Iterator[int]:
    with (
        installation.another_web(ALLOWED_HOSTS="127.0.0.1,localhost") as (_, port),
        with_access_token(port, installation.secret) as proxy,
    ):
        yield proxy


@pytest.mark.parametrize(
    ("scenario", "revision"), [(name, revision) for name, revisions in SCENARIOS.items() for revision in revisions]
)
def test_passes_every_check(node_modules: Path, port: int, tmp_path: Path, scenario: str, revision: str) -> None:
    suite = node_modules / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    options = ["--url", f"http://localhost:{port}/mcp", "--scenario", scenario, "--spec-version", revision]
    result = subprocess.run(
        [str(node_modules / ".bin" / "node"), str(suite), "server", *options, "--output-dir", str(tmp_path)],
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    files = list(tmp_path.rglob("checks.json"))
    assert files, result.stdout + result.stderr
    checks = [check for file in files for check in json.loads(file.read_text(encoding="utf-8"))]
    failed = {check["id"]: check.get("errorMessage") for check in checks if check["status"] not in ("SUCCESS", "INFO")}
    assert any(check["status"] == "SUCCESS" for check in checks), checks
    assert failed.keys() == NOT_OFFERED.get(scenario, frozenset()), failed
