"""The README's way of a newcomer, walked: a fresh checkout, the demo, an endpoint of one's own, a token, the calls.

It must be possible in ten minutes, reading included. What the README has people read up to its section HTTP, code too,
is counted at 200 words a minute, and every field and click of the admin as five seconds: 3.4 minutes and 1. The waits
are printed (`pytest -s`). Measured on two quiet cores: 21 s to install the pinned dependencies from pip's cache, which
this test leaves out, 12 until the demo was up with its 20,000 rows, 8 for what followed: 5 minutes with the reading. On
two cores that seven other runs kept busy it was 5.4 minutes, 2.0 and 1.1, so 9.5 for a person who reads meanwhile.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import pytest
from playwright.sync_api import Browser, Page, expect

from config import embedded
from tests.browser.conftest import PATIENCE_MILLISECONDS
from tests.browser.editing import NEW_ENDPOINT, cell, field, rows, type_sql, wait_until_checked
from tests.files import PROJECT
from tests.live.installation import free_port

README: Final = (PROJECT / "README.md").read_text(encoding="utf-8")
NAME: Final = "errors.by-path"
WORDS_A_MINUTE: Final = 200
SECONDS_A_STEP: Final = 5  # to find a field or a button, and to fill it in or to click it
STEPS_IN_THE_ADMIN: Final = 12
LEFT_OUT: Final = (".git", ".venv", ".local", "__pycache__", ".*_cache")
# What one run says otherwise than another; the page writes … for it.
_VARIES: Final = ((r"in \d+\.\d{3} s", "in … s"), (r'"request_id":"[^"]*"', '"request_id":"…"'))


@dataclass(frozen=True, slots=True)
class Typed:
    """A command that the page has people type, and the answer that it shows, if it shows one."""

    command: str
    answer: str


@pytest.fixture
def checkout() -> Iterator[Path]:
    """A copy of the project's files with the installed dependencies beside it, and nothing of earlier runs."""
    # Not tmp_path: pytest closes its folders to other accounts, and root's servers run as another one.
    folder = Path(tempfile.mkdtemp(prefix="endpoints-first-hour-"))
    folder.chmod(0o755)
    copy = folder / "log-query-endpoints"
    shutil.copytree(PROJECT, copy, ignore=shutil.ignore_patterns(*LEFT_OUT))
    (copy / ".venv").symlink_to((PROJECT / ".venv").resolve())
    yield copy
    embedded.stop(copy / ".local")
    shutil.rmtree(folder)


def of_a_person() -> dict[str, str]:
    """Return the environment of somebody who has set nothing yet."""
    ours = ("ENDPOINTS_", "DJANGO_", "PG", "LOGS_", "DATABASE_URL", "REDIS_URL", "SECRET_KEY", "HTTPS_ONLY", "DEBUG")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)} | {"COLUMNS": "100"}


def announced(demo: IO[str]) -> str:
    """Return what the demo says until it is up."""
    said = ""
    for line in demo:
        said += line
        if line.startswith("Ctrl-C"):
            return said
    raise AssertionError(said)


def section(title: str) -> str:
    return README.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def blocks(text: str) -> list[str]:
    """Return the indented blocks of a page, without their indentation."""
    found = re.findall(r"(?m)(?:^ {4}.*\n)+", text)
    return [re.sub(r"(?m)^ {4}", "", block) for block in found]


def typed_in(block: str) -> list[Typed]:
    """Return the commands of a block: behind `$ `, each with its answer; or the block as a whole, without one."""
    if not block.startswith("$ "):
        return [Typed(block, "")]
    parts = re.split(r"(?m)^\$ ", block)[1:]
    return [Typed(command, answer) for command, _, answer in (part.partition("\n") for part in parts)]


def in_a_terminal(typed: list[Typed], folder: Path) -> list[str]:
    """Return what one shell prints for each command."""
    mark = "— end of an answer —"
    script = "".join(f"{each.command}\necho '{mark}'\n" for each in typed)
    done = subprocess.run(
        ["/bin/sh"], input=script, cwd=folder, env=of_a_person(), text=True, timeout=300, check=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    # curl ends a body without a line break.
    return [answer.lstrip("\n") for answer in done.stdout.split(mark)[:-1]]


def as_on_the_page(text: str) -> str:
    for varies, instead in _VARIES:
        text = re.sub(varies, instead, text)
    return text.strip()


def add_the_endpoint(page: Page, sql: str) -> None:
    page.goto(NEW_ENDPOINT)
    field(page, "name").fill(NAME)
    type_sql(page, sql)
    field(page, "tenant_parameter").fill("project")
    expect(rows(page)).to_have_count(2)
    project, status = rows(page).all()
    expect(cell(project, "name")).to_have_value("project")
    cell(project, "required").check()
    cell(status, "type").select_option("integer")
    cell(status, "default").fill("400")
    wait_until_checked(page, "No problems: it can be saved.")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("was added successfully")).to_be_visible()


def test_a_newcomer_gets_rows_of_an_endpoint_of_their_own(checkout: Path, browser: Browser) -> None:
    port = free_port()
    own = section("Your own first endpoint").replace(":8000/", f":{port}/").replace("/tmp/", f"{checkout.parent}/")
    load, *calls = (typed_in(block) for block in blocks(own))
    started = time.monotonic()
    # As written, but for the port, and without installing what is installed.
    order = ["make", "--old-file=.venv/demo.stamp", "demo", f"PORT={port}", "ROWS_PER_SECOND=0"]
    demo = subprocess.Popen(
        order, cwd=checkout, env=of_a_person(), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip
    try:
        assert demo.stdout is not None
        said = announced(demo.stdout)
        up_after = time.monotonic() - started
        login = re.search(r"^Admin:  (\S+)/admin/   (\S+) / (\S+)$", said, re.MULTILINE)
        assert login is not None, said

        at_the_terminal = time.monotonic()
        (loaded,) = in_a_terminal(load, checkout)
        assert "3 rows loaded" in loaded
        assert len(loaded.splitlines()) == 1, "no warnings"
        context = browser.new_context(base_url=login[1])
        context.set_default_timeout(PATIENCE_MILLISECONDS)
        page = context.new_page()
        page.goto("/admin/")
        page.get_by_label("Username").fill(login[2])
        page.get_by_label("Password").fill(login[3])
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_label("Username")).to_have_count(0)
        add_the_endpoint(page, blocks(README)[0].partition("\n\n")[0])
        context.close()

        every = [each for block in calls for each in block]
        for each, answer in zip(every, in_a_terminal(every, checkout), strict=True):
            if each.answer:
                assert as_on_the_page(answer) == as_on_the_page(each.answer), each.command
        waited = up_after + time.monotonic() - at_the_terminal
    finally:
        with suppress(ProcessLookupError):
            os.killpg(demo.pid, signal.SIGINT)
        demo.wait(timeout=120)
        assert demo.stdout is not None
        demo.stdout.close()
    print(f"demo up after {up_after:.0f} s; waits together {waited:.0f} s; {own_time():.1f} minutes of one's own")  # noqa: T201  # the measurement


def own_time() -> float:
    """Return the minutes that a person reads, types and clicks on the README's way."""
    words = len(README.partition("\n## HTTP\n")[0].split())
    return words / WORDS_A_MINUTE + STEPS_IN_THE_ADMIN * SECONDS_A_STEP / 60


def test_reading_and_typing_leave_two_minutes_for_waits() -> None:
    assert own_time() <= 8
