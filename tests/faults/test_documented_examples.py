"""Every command of the README and the docs runs as it stands, page by page, on an installation like the demo's."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.documented_examples import FIRST, LEFT_OUT, Example, examples, pages
from tests.documented_queries import documented_queries
from tests.files import PROJECT
from tests.live.installation import Installation

PAGE_SECONDS: Final = 600  # no command waits for so long
END: Final = "=== end of an example"
# What its readers put in where an example ends in …
ACCESS_TOKEN: Final = (
    re.compile(r"lqe_[0-9a-f]{12}_…"),
    "$(.venv/bin/python manage.py create_access_token 'my laptop' --bind project=acme)",
)
NEXT_PAGE: Final = (
    re.compile(r"page_token=\w+…'"),
    'page_token=\'"$(sed -n \'s/.*"next":"\\([^"]*\\)".*/\\1/p\' printed)"',
)
# Endpoints that the README and docs/operators.md have their readers add in the admin.
ENDPOINTS: Final = [
    {
        "name": "errors.by-path",
        "sql_file": "README.md",
        "tenant_parameter": "project",
        "parameters": [
            {"name": "project", "type": "text", "required": True},
            {"name": "min_status", "type": "integer", "default": "400"},
        ],
    },
    {
        "name": "errors.by-hour",
        "sql_file": "operators.md",
        "tenant_parameter": "project",
        "parameters": [{"name": "project", "type": "text", "required": True}],
    },
]

pytestmark = pytest.mark.needs("jq")


class Reader:
    """Pastes the commands of the pages, in a folder that is to them the one of the code."""

    def __init__(self, installation: Installation, folder: Path) -> None:
        self._installation, self._folder = installation, folder
        for name in ("manage.py", "fixtures"):
            (folder / name).symlink_to(PROJECT / name)
        programs = folder / ".venv" / "bin"
        programs.mkdir(parents=True)
        (programs / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n', encoding="utf-8")
        (programs / "python").chmod(0o755)

    def prepare(self) -> None:
        """Do what the pages have their readers do in the admin, and load the rows of the README."""
        made = self._folder / "made"
        made.mkdir()
        queries = dict(reversed(documented_queries()))  # the first of a page
        for endpoint in ENDPOINTS:
            (made / str(endpoint["sql_file"])).write_text(queries[str(endpoint["sql_file"])], encoding="utf-8")
        (made / "log_sources.json").write_text("[]", encoding="utf-8")
        (made / "endpoints.json").write_text(json.dumps(ENDPOINTS), encoding="utf-8")
        (rows,) = [each.command for each in examples("README.md") if "load_logs" in each.command]
        self.run(f"set -e\n.venv/bin/python manage.py load_fixtures made\n{rows}\necho prepared").index("prepared")

    def paste(self, page: str) -> list[tuple[Example, int, str]]:
        """Return each command of a page that is run with its exit status and what it has printed."""
        run = [each for each in examples(page) if not each.left_out]
        kept = "declare -p BASE TOKEN PATH > kept" if page == FIRST else ". ./kept"
        lines = [self._step(each) for each in run]
        printed = self.run("\n".join([*lines, kept] if page == FIRST else [kept, *lines]))
        parts = re.split(rf"\n{re.escape(END)} (\d+)\n", printed)
        assert len(parts) == 2 * len(run) + 1, printed
        return [(each, int(parts[2 * n + 1]), parts[2 * n].strip()) for n, each in enumerate(run)]

    def run(self, commands: str) -> str:
        (self._folder / "pasted").write_text(
            commands.replace("127.0.0.1:8000", f"127.0.0.1:{self._installation.port}"), encoding="utf-8"
        )
        ended = subprocess.run(
            ["bash", "pasted"],
            cwd=self._folder,
            env=self._installation.environment | {"COLUMNS": "160"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PAGE_SECONDS,
            check=False,
        )
        return ended.stdout

    @staticmethod
    def _step(example: Example) -> str:
        command = example.command
        for placeholder, value in (ACCESS_TOKEN, NEXT_PAGE):
            command = placeholder.sub(lambda found, value=value: value, command)  # type: ignore[misc]
        grouped = f"{{\n{command}\n}} > said 2>&1"
        if re.search(r"^while ", command, re.MULTILINE):  # it never ends: until it has said something
            grouped += "& loop=$!; until [ -s said ]; do sleep 0.05; done; kill $loop; wait $loop; true"
        return f"{grouped}\nended=$?; cp said printed; cat said; printf '\\n%s %s\\n' '{END}' $ended"


def problem_with(example: Example, status: int, printed: str) -> str:
    """Say what is otherwise than the page says, "" if nothing is."""
    if bool(status) is not ("CommandError" in example.printed):
        return f"exit status {status}"
    told, said = code_of(example.printed), code_of(printed)
    if told != said:
        return f"error {said or 'none'} instead of {told or 'none'}"
    if '{"result":[{' in example.printed and '{"result":[{' not in printed:
        return "no rows"
    first = example.printed.partition("\n")[0].split()  # of a table, whose columns are as wide as their cells
    if re.fullmatch(r"[A-Za-z ]+[:.]?|\d{3}", " ".join(first)) and " ".join(first) not in " ".join(printed.split()):
        return f"does not print {' '.join(first)!r}"
    return ""


def code_of(printed: str) -> str:
    found = re.search(r'^\{"error":\{"code":"(\w+)"', printed, re.MULTILINE)
    return found[1] if found else ""


def test_every_example_runs_as_it_stands(tmp_path: Path) -> None:
    found = []
    with Installation() as installation:
        reader = Reader(installation, tmp_path)
        reader.prepare()
        for page in pages():
            found += [
                f"{example}: {problem}\n    {example.command}\n    {printed[:300]}"
                for example, status, printed in reader.paste(page)
                if (problem := problem_with(example, status, printed))
            ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("told", "status", "printed", "problem"),
    [
        ("", 0, "anything", ""),
        ("", 0, '{"error":{"code":"x"}}', "error x instead of none"),
        ("", 7, "", "exit status 7"),
        ("CommandError: no.", 1, "CommandError: no.", ""),
        ("CommandError: no.", 0, "", "exit status 0"),
        ('{"result":[{"a":1},…]}', 0, '{"result":[{"a":2}]}', ""),
        ('{"result":[{"a":1},…]}', 0, '{"result":[]}', "no rows"),
        ('{"error":{"code":"x",…', 0, '{"error":{"code":"x"}}', ""),
        ('{"error":{"code":"x",…', 0, '{"result":[]}', "error none instead of x"),
        ("400", 0, "200", "does not print '400'"),
    ],
)
def test_tells_an_example_that_does_not(told: str, status: int, printed: str, problem: str) -> None:
    assert problem_with(Example("a.md", 1, "a", told), status, printed) == problem


def test_few_examples_are_left_out_each_for_a_reason() -> None:
    everything: list[Any] = [each for page in pages() for each in examples(page)]
    assert len(LEFT_OUT) <= 10
    assert {each.left_out for each in everything} - {""} == {why for _, _, why in LEFT_OUT}
    assert len([each for each in everything if not each.left_out]) > 60
