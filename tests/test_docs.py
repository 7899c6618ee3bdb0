"""The docs say what the code does: settings, errors, value forms, functions, commands and links."""

from __future__ import annotations

import ast
import re
import tomllib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.core.management import get_commands, load_command_class

import endpoints.results.encoding
from endpoints.definition import SETTINGS, Setting
from endpoints.errors import EndpointError
from tests.generated_docs import SANDBOX, with_function_list

PROJECT = Path(__file__).resolve().parent.parent
DOCS = PROJECT / "docs"
PAGES = [
    *(PROJECT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "googlesql/README.md")),
    *sorted(DOCS.rglob("*.md")),
]
OWN_COMMANDS = sorted(
    name for name, application in get_commands().items() if application in ("endpoints", "logsources")
)


def read(path):
    return path.read_text(encoding="utf-8")


def table_rows(text):
    """Return the cells of every line of every table, headings included."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


# --- Settings ---------------------------------------------------------------------------------------------------------


def variables_read():
    """Return the default of each env.…("NAME", default=…) and switch(…) of the settings, in the words of the docs."""
    urls = ("database_url", "logs_database_url", "logs_gate_url", "redis_url")
    names = {
        "DEBUG": False,
        "BASE_DIR": Path(),
        "_DEBUG_SECRET_KEY": "",
        "_embedded": SimpleNamespace(**dict.fromkeys(urls, "embedded")),
        "_NOWHERE": "",
        "str": str,
    }
    found = {}
    for call in ast.walk(ast.parse(read(PROJECT / "config" / "settings.py"))):
        if isinstance(call, ast.Call) and ast.unparse(call.func).startswith(("env.", "switch")):
            (default,) = [keyword.value for keyword in call.keywords if keyword.arg == "default"]
            value = eval(ast.unparse(default), {"__builtins__": {}}, names)  # our own settings
            found[call.args[0].value] = in_words(value)
    return found


def in_words(value):
    if value in ("", []):
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_lists_every_environment_variable_with_its_default():
    rows = [row for row in table_rows(read(DOCS / "settings.md")) if row[0].startswith("`")]
    documented = {name.strip("`"): default.partition(" (")[0].strip("`") for name, default, *_ in rows}
    assert len(rows) == len(documented)
    assert documented == variables_read()


def test_reads_a_default_that_depends_on_debug():
    assert variables_read()["HTTPS_ONLY"] == "true"


def default_in_words(setting):
    """Return how the docs write the default of an endpoint's setting."""
    if setting.choices:
        return dict(setting.choices)[setting.default].lower()
    return str(setting.default) if setting.default else {bool: "off", int: "off", str: "none"}[setting.type]


def undocumented(settings, text):
    """Return the names of an endpoint's settings that have no row, or one with another default."""
    table = table_rows(text.partition("## Other settings\n")[2].partition("\n## ")[0])
    rows = {name.strip(): row[1].lower() for row in table if len(row) > 2 for name in row[0].split(",")}
    missing = []
    for setting in settings:
        names = (setting.label, re.sub(r" \(.*\)| every", "", setting.title or ""))
        default = next((rows[name] for name in names if name in rows), "")
        if default_in_words(setting) not in default:
            missing.append(setting.name)
    return missing


# A name and what it returns: the page begins with them.
SETTINGS_IN_THE_TABLE = [setting for name, setting in SETTINGS.items() if name not in ("name", "description")]


def test_lists_every_setting_of_an_endpoint_with_its_default():
    assert undocumented(SETTINGS_IN_THE_TABLE, read(DOCS / "endpoints.md")) == []


@pytest.mark.parametrize(
    "setting",
    [
        Setting(0, "New.", "", name="new_limit", label="new limit"),
        replace(SETTINGS["max_rows"], default=999),
        replace(SETTINGS["sandboxing"], default=True),
    ],
    ids=["new", "another number", "another switch"],
)
def test_misses_a_setting_without_a_row(setting):
    assert undocumented([*SETTINGS_IN_THE_TABLE, setting], read(DOCS / "endpoints.md")) == [setting.name]


# --- Errors and values ------------------------------------------------------------------------------------------------


def error_classes(base=EndpointError):
    return {kind for child in base.__subclasses__() for kind in (child, *error_classes(child))}


def test_lists_every_error_with_its_status():
    rows = [row for row in table_rows(read(DOCS / "calling.md")) if row[0].isdigit()]
    documented = [(int(status), code.strip("`")) for status, code, *_ in rows]
    assert sorted(documented) == sorted({(kind.status, kind.code) for kind in error_classes()})


def test_lists_the_json_form_of_every_type():
    module_table = [
        [cell.strip() for cell in re.split(r"  +", line)]
        for line in endpoints.results.encoding.__doc__.splitlines()
        if re.match(r"[A-Za-z].*\S {2,}\S", line)
    ]
    documented = table_rows(read(DOCS / "calling.md"))
    assert len(module_table) > 10
    assert [row for row in module_table if row not in documented] == []


def test_lists_every_allowed_function():
    """Where it fails: `python -m tests.generated_docs` writes the list anew."""
    assert with_function_list(read(SANDBOX)) == read(SANDBOX)


def test_refuses_a_page_without_markers():
    with pytest.raises(ValueError, match="markers"):
        with_function_list("# Sandbox\n")


# --- Commands ---------------------------------------------------------------------------------------------------------


def mentioned(pattern):
    return sorted({(name, page.name) for page in PAGES for name in re.findall(pattern, read(page), re.MULTILINE)})


@pytest.mark.parametrize(("command", "page"), mentioned(r"manage\.py ([a-z_]+)"))
def test_mentions_commands_that_exist(command, page):
    assert command in get_commands()


@pytest.mark.parametrize(("target", "page"), mentioned(r"(?:^ {4}|`)make ([a-z-]+)"))
def test_mentions_make_targets_that_exist(target, page):
    assert re.search(rf"^{target}:", read(PROJECT / "Makefile"), re.MULTILINE)


@pytest.mark.parametrize("command", OWN_COMMANDS)
def test_mentions_every_command_of_its_own(command):
    assert any(command in read(page) for page in PAGES)


@pytest.mark.parametrize("name", OWN_COMMANDS)
def test_shows_an_example_in_the_help_of_every_command(name):
    parser = load_command_class(get_commands()[name], name).create_parser("manage.py", name)
    text = parser.format_help().removeprefix(parser.format_usage())
    assert "example" in text.lower()
    assert f"manage.py {name}" in " ".join(text.split())


# --- Pages ------------------------------------------------------------------------------------------------------------


def without_code(text):
    return re.sub(r"^ {4}.*$|`[^`\n]*`", "", text, flags=re.MULTILINE)


def anchors(page):
    """Return what GitHub names the headings of a page."""
    titles = re.findall(r"^#+ (.+)$", read(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def relative_links():
    return [
        pytest.param(page, link, id=f"{page.name}-{link}")
        for page in PAGES
        for link in re.findall(r"\]\(([^)\s]+)\)", without_code(read(page)))
        if not link.startswith(("http://", "https://"))
    ]


@pytest.mark.parametrize(("page", "link"), relative_links())
def test_links_to_what_exists(page, link):
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    assert target.is_relative_to(PROJECT)
    assert target.exists()
    if anchor:
        assert anchor in anchors(target)


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.name)
def test_reaches_every_page_from_another(page):
    targets = {
        (source.parent / link.partition("#")[0]).resolve() for source, link in (p.values for p in relative_links())
    }
    assert page in targets


def test_keeps_the_readme_short():
    assert len(read(PROJECT / "README.md").splitlines()) <= 150


def test_the_layers_of_development_md_are_those_of_the_import_contract() -> None:
    contracts = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    import_layers = next(each["layers"] for each in contracts if each["type"] == "layers")
    text = (PROJECT / "docs" / "development.md").read_text()
    assert "\n".join(f"    {layer}" for layer in import_layers) in text


def test_every_file_that_development_md_names_is_there() -> None:
    text = (PROJECT / "docs" / "development.md").read_text()
    named = re.findall(r"[`' ]((?:endpoints|logsources|config|tests|docs|fixtures)/[\w./]*\w/?)(?![\w*{])", text)
    assert len(named) > 30
    assert [name for name in named if not (PROJECT / name).exists()] == []


def test_development_md_says_what_each_dependency_is_for() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    extras = [each for name, needed in project["optional-dependencies"].items() if name != "dev" for each in needed]
    packages = {re.split(r"[\[<>=]", each)[0] for each in (*project["dependencies"], *extras)} - {project["name"]}
    text = (PROJECT / "docs" / "development.md").read_text()
    table = text[text.index("## Dependencies") : text.index("## Documentation")]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| ")]
    listed = {word for cell in cells for word in re.findall(r"[a-z][\w-]*", re.sub(r"\(.*\)", "", cell))}
    # `drf-spectacular, -sidecar` stands for both.
    listed |= {f"drf-spectacular-{word}" for word in listed} | {f"opentelemetry-{word}" for word in listed}
    assert packages - listed == set()
