"""Every way to call that the page "Usage" shows does what it says: each example is filled in, copied and run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import ConsoleMessage, Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.pictures import take_pictures
from tests.browser.site import Site
from tests.live.calls import until

NAME: Final = "browser.ways"
SQL: Final = """
with edge_logs as (
  select t.timestamp, t.id, t.event_message, t.metadata from logs.edge_logs as t where t.project = @project
)
select id, timestamp, event_message from edge_logs order by timestamp desc, id desc
"""
PAGE_ROWS: Final = 20
AWKWARD: Final = 'it\'s "a" \\ $HOME `x` ü'
SECONDS: Final = 60

# Programs that a machine for tests may lack, as far as the examples use them.
DUCKDB: Final = """
import duckdb, sys
assert sys.argv[1] == "-c", sys.argv
print(duckdb.sql(f"select count(*) from ({sys.argv[2]})").fetchall()[0][0])
"""
CLAUDE: Final = """
import json, sys, urllib.request
*command, address, option, header = sys.argv[1:]
assert command == ["mcp", "add", "--transport", "http", "logs"] and option == "--header", sys.argv
name, _, value = header.partition(": ")
headers = {name: value, "Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()
headers["MCP-Protocol-Version"] = "2025-06-18"
answer = urllib.request.urlopen(urllib.request.Request(address, body, headers))
print(*(tool["name"] for tool in json.load(answer)["result"]["tools"]), sep="\\n")
"""


@pytest.fixture(scope="module")
def endpoint(site: Site) -> str:
    """The name of an endpoint for which every way is possible."""
    settings = {"stream_rows": 100_000, "max_rows": PAGE_ROWS, "page_order": "timestamp desc, id desc"}
    parameters = {"project": "text"}
    site.installation.save(NAME, SQL, parameters=parameters, sandboxing=True, tenant_parameter="project", **settings)
    return NAME


@pytest.fixture
def ids(site: Site, endpoint: str) -> list[str]:
    """The ids of the rows there are at this moment, as a stream has them: other tests load some."""
    with site.installation.caller() as caller:
        *lines, _ = caller.query(endpoint, {"project": "acme"}, accept="application/x-ndjson").body.splitlines()
    assert len(lines) > PAGE_ROWS, "several pages"
    return [json.loads(line)["id"] for line in lines]


class Shown:
    """The page of an endpoint, and a folder in which its examples are run."""

    def __init__(self, page: Page, site: Site, folder: Path) -> None:
        self.page, self._site, self._folder = page, site, folder

    def fill_in(self, secret: str = "", **arguments: str) -> None:
        self.page.get_by_label("Access token", exact=True).fill(secret or self._site.secret)
        for name, value in arguments.items():
            self.page.get_by_label(f"@{name}").fill(value)

    def example(self, way: str, language: str = "") -> str:
        """Choose a way and a language, and return the example."""
        self.page.get_by_role("tab", name=way, exact=True).click()
        panel = self.page.get_by_role("tabpanel", name=way, exact=True)
        if language:
            panel.get_by_role("tab", name=language, exact=True).click()
        code = panel.get_by_role("code")
        expect(code).to_have_count(1)
        return str(code.text_content())

    def run(self, way: str, language: str = "") -> str:
        """Run an example and return what it writes."""
        text = self.example(way, language)
        done = subprocess.run(
            self.command(text), input=text, env=self.environment, cwd=self._folder,
            capture_output=True, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (text, done.stdout, done.stderr)
        return done.stdout

    def command(self, text: str) -> list[str]:
        return [sys.executable, "-"] if "import requests" in text else ["/bin/sh"]

    @property
    def environment(self) -> dict[str, str]:
        """The programs of this environment, and those that are written here, before all others."""
        programs = f"{self._folder}{os.pathsep}{Path(sys.executable).parent}"
        return {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}


@pytest.fixture
def show(open_page: OpenPage, site: Site, endpoint: str, tmp_path: Path) -> Callable[..., Shown]:
    for name, program in (("duckdb", DUCKDB), ("claude", CLAUDE)):
        (tmp_path / name).write_text(f"#!{sys.executable}\n{program}", encoding="utf-8")
        (tmp_path / name).chmod(0o755)

    def open_one(name: str = endpoint, **how: object) -> Shown:
        page = open_page("/admin/", **how)  # type: ignore[arg-type]
        row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=name))
        row.get_by_role("link", name="Usage").click()
        return Shown(page, site, tmp_path)

    return open_one


def load(site: Site, message: str) -> None:
    secret = site.console.do("issue", name=f"shipper of {message}", may_load=True)
    row = {"timestamp": datetime.now(UTC).isoformat(), "event_message": message, "project": "acme"}
    with site.installation.caller(secret=secret) as caller:
        answer = caller.request(
            "POST", "/api/logs?source=edge_logs", body=json.dumps([row]).encode(), Content_Type="application/json"
        )
    assert answer.status == 200, answer.body


def test_other_formats(show: Callable[..., Shown], tmp_path: Path) -> None:
    shown = show("logs.all")
    shown.fill_in(project="acme")
    shown.run("Other formats", "CSV")
    header, *_ = (tmp_path / "rows.csv").read_text(encoding="utf-8").splitlines()
    assert "event_message" in header
    shown.run("Other formats", "NDJSON")
    rows = (tmp_path / "rows.ndjson").read_text(encoding="utf-8").splitlines()
    assert {"id", "event_message"} <= json.loads(rows[0]).keys()
    assert shown.run("Other formats", "Parquet").split() == [str(len(rows))]
    assert f"shape: ({len(rows)}, " in shown.run("Other formats", "Arrow")


def test_streams(show: Callable[..., Shown], tmp_path: Path, ids: list[str]) -> None:
    shown = show()
    shown.fill_in(project="acme")
    shown.run("Streams", "CSV")
    assert [line.split(",")[0] for line in (tmp_path / "rows.csv").read_text().splitlines()] == ["id", *ids]
    shown.run("Streams", "NDJSON")
    assert [json.loads(line)["id"] for line in (tmp_path / "rows.ndjson").read_text().splitlines()] == ids
    assert all(f"'{id_}'" in line for id_, line in zip(ids, shown.run("Streams", "Python").splitlines(), strict=True))
    # Streams are no longer among the other formats.
    shown.page.get_by_role("tab", name="Other formats").click()
    expect(shown.page.get_by_role("tabpanel", name="Other formats").get_by_role("tab")).to_have_text(
        ["Parquet", "Arrow"]
    )


def test_a_stream_that_fails_is_said_to_be_incomplete(show: Callable[..., Shown], tmp_path: Path) -> None:
    shown = show()
    shown.fill_in("lqe_0123456789ab_unknown", project="acme")
    (tmp_path / "rows.csv").write_text('of a call before\n# {"end":{}}\n', encoding="utf-8")
    done = subprocess.run(
        ["/bin/sh"], input=shown.example("Streams", "CSV"), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "The stream is incomplete." in done.stderr


@pytest.mark.needs("jq")
def test_pages(show: Callable[..., Shown], ids: list[str]) -> None:
    shown = show()
    shown.fill_in(project="acme")
    assert [json.loads(line)["id"] for line in shown.run("Pages", "curl and jq").splitlines()] == ids
    lines = shown.run("Pages", "Python").splitlines()
    assert all(f"'{id_}'" in line for id_, line in zip(ids, lines, strict=True))


@pytest.mark.parametrize("language", [pytest.param("curl and jq", marks=pytest.mark.needs("jq")), "Python"])
def test_a_tail_shows_a_row_that_comes(show: Callable[..., Shown], site: Site, tmp_path: Path, language: str) -> None:
    shown = show()
    shown.fill_in(project="acme")
    text = shown.example("Live tail", language)
    (tmp_path / "program").write_text(text, encoding="utf-8")
    written = tmp_path / "written"
    message = f"for {language}"
    with written.open("wb") as output:
        command = [shown.command(text)[0], "program"]
        program = subprocess.Popen(command, cwd=tmp_path, stdout=output, env=shown.environment, start_new_session=True)
        try:
            until(lambda: written.stat().st_size > 0, seconds=SECONDS)  # the newest rows
            load(site, message)
            until(lambda: message in written.read_text(encoding="utf-8"), seconds=SECONDS)
        finally:
            os.killpg(program.pid, 9)
            program.wait()


def test_a_tail_in_javascript(show: Callable[..., Shown], site: Site) -> None:
    shown = show()
    shown.fill_in(project="acme")
    text = shown.example("Live tail", "JavaScript")
    heard: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        heard.extend(str(argument.json_value()) for argument in message.args)

    shown.page.on("console", hear)
    # Stopped from outside, as a page is when it is left.
    shown.page.evaluate(
        f"void (window.stopped = (async () => {{ {text.replace('for (;;)', 'while (!window.enough)')} }})())"
    )

    def heard_of(message: str) -> bool:
        shown.page.wait_for_timeout(100)
        return any(message in each for each in heard)

    until(lambda: heard_of("event_message"), seconds=SECONDS)
    load(site, "for JavaScript")
    until(lambda: heard_of("for JavaScript"), seconds=SECONDS)
    shown.page.evaluate("window.enough = true")
    load(site, "the last one")  # ends the request that waits
    shown.page.evaluate("window.stopped")


def test_a_browser_token(show: Callable[..., Shown], site: Site) -> None:
    shown = show()
    secret = site.console.do("issue", name="backend of usage", may_issue=True)
    shown.fill_in(secret, project="acme")
    issued = json.loads(shown.run("Browser token", "Your backend"))["result"][0]
    shown.page.route("**/my-backend/log-token", lambda route: route.fulfill(json=issued))
    program = shown.example("Browser token", "The page").replace("console.log(answer.result)", "return answer.result")
    rows = shown.page.evaluate(f"(async () => {{ {program} }})()")
    assert len(rows) == PAGE_ROWS
    # It is bound to the project that was filled in.
    with site.installation.caller(secret=issued["token"]) as visitor:
        assert visitor.query(NAME, {"project": "globex"}).code == "argument_not_allowed"
        assert visitor.query("logs.all", {"project": "acme"}).status == 404
    # What is filled in stays one value, whatever JSON and the shell make of its characters.
    shown.fill_in(secret, project=AWKWARD)
    token = json.loads(shown.run("Browser token", "Your backend"))["result"][0]["token"]
    with site.installation.caller(secret=token) as visitor:
        assert visitor.query(NAME, {"project": AWKWARD}).status == 200
        assert visitor.query(NAME, {"project": "acme"}).code == "argument_not_allowed"


def test_an_agent_has_the_tool(show: Callable[..., Shown], endpoint: str) -> None:
    shown = show()
    shown.fill_in()
    assert endpoint in shown.run("Agent (MCP)").split()
    expect(shown.page.get_by_text(f"as the tool {endpoint},")).to_be_visible()


def test_cancelling(show: Callable[..., Shown], site: Site) -> None:
    name = "browser.slow"
    site.installation.save(name, "SELECT pg_sleep(25) AS slept")
    shown = show(name)
    shown.fill_in()
    written = shown.run("Cancelling", "curl")
    assert '"cancelled":true' in written
    assert '"code":"cancelled"' in written
    program = shown.example("Cancelling", "JavaScript").replace("timeout(5000)", "timeout(500)")
    assert shown.page.evaluate(f"(async () => {{ {program} }})().catch((error) => error.name)") == "TimeoutError"
    site.console.do("delete", name=name)


def test_a_typed_client(show: Callable[..., Shown], site: Site, endpoint: str, tmp_path: Path) -> None:
    shown = show()
    shown.fill_in(site.console.do("issue", name="typed client of usage", endpoint_names=[endpoint]))
    shown.run("Typed clients", "Python")
    assert (tmp_path / "logs_client" / "api" / "endpoints" / "get_browser_ways.py").exists()
    expect(shown.page.get_by_text("the function get_browser_ways.")).to_be_visible()
    assert "npx openapi-typescript openapi.json" in shown.example("Typed clients", "TypeScript")


def test_a_trace(show: Callable[..., Shown], site: Site, tmp_path: Path) -> None:
    shown = show()
    shown.fill_in(project="acme")
    (tmp_path / "openssl").write_text("#!/bin/sh\nprintf %0$((2 * $3))d 7\n", encoding="utf-8")
    (tmp_path / "openssl").chmod(0o755)
    assert len(json.loads(shown.run("Trace"))["result"]) == PAGE_ROWS
    trace_id = f"{7:032}"
    until(lambda: trace_id in site.installation.web.log.read_text(encoding="utf-8"), seconds=20)


def test_the_ways_fit_and_can_be_used_by_everybody(
    show: Callable[..., Shown], check_accessibility: Callable[[Page], None]
) -> None:
    shown = show()
    ways = shown.page.get_by_role("tablist", name="Ways to call").get_by_role("tab")
    for name in ways.all_inner_texts():
        shown.page.get_by_role("tab", name=name, exact=True).click()
        take_pictures(shown.page, f"usage-{name.lower().replace(' ', '-')}")
        check_accessibility(shown.page)


def test_the_way_stays_when_another_query_is_chosen(show: Callable[..., Shown]) -> None:
    shown = show()
    shown.example("Streams", "NDJSON")
    shown.page.get_by_role("link", name="A query in LQL").click()
    expect(shown.page.get_by_role("tab", name="Streams")).to_have_attribute("aria-selected", "true")
    assert "lql=f:edge_logs" in shown.example("Streams", "NDJSON")
    shown.page.reload()
    expect(shown.page.get_by_role("tab", name="Streams")).to_have_attribute("aria-selected", "true")
    # Pages are those of the stored query, and a tail has a query of its own.
    for way in ("Pages", "Live tail"):
        assert "t:last@1hour" not in shown.example(way, "Python")
        expect(shown.page.get_by_role("link", name="A query in LQL")).to_be_hidden()
