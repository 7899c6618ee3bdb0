"""The examples are right for every kind of parameter, and whatever is filled in stays one value."""

from __future__ import annotations

import ast
import json
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from django.test import RequestFactory
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from endpoints.admin.call_examples import (
    ACCESS_TOKEN,
    CallExample,
    Value,
    call_examples,
    calling_context,
    example_arguments,
    placeholders,
)
from endpoints.defining.saving import save_endpoint
from endpoints.models import Endpoint
from endpoints.sql.parameters import DeclaredParameter, ParameterType, coerce_arguments

NOW = datetime(2026, 3, 14, 9, 15, tzinfo=UTC)
ADDRESS = "https://logs.example/api/endpoints/query/logs.all"
AWKWARD = 'it\'s "a" \\ $HOME `x` ü <b> {{ sent }}'


def examples(arguments: Mapping[str, Value]) -> dict[str, CallExample]:
    return {example.language: example for example in call_examples(ADDRESS, arguments, timeout_seconds=20)}


def text_of(example: CallExample) -> str:
    return "".join(example.pieces)


def words_of(example: CallExample) -> list[str]:
    """Return what a shell makes of the example: the arguments of curl."""
    program = "curl() { for word do printf '%s\\0' \"$word\"; done; }\n" + text_of(example)
    run = subprocess.run(["/bin/sh"], input=program.encode(), capture_output=True, check=True)
    return run.stdout.decode().split("\0")[:-1]


@pytest.mark.parametrize(
    ("parameter", "expected"),
    [
        (DeclaredParameter("p", required=True), "SOME_P"),
        (DeclaredParameter("p"), None),
        (DeclaredParameter("p", allowed_values=("hourly", "daily")), "hourly"),
        (DeclaredParameter("p", default="main"), "main"),
        (DeclaredParameter("p", ParameterType.INTEGER), None),
        (DeclaredParameter("p", ParameterType.INTEGER, required=True), 1),
        (DeclaredParameter("p", ParameterType.INTEGER, minimum="10", maximum="20"), 10),
        (DeclaredParameter("p", ParameterType.INTEGER, maximum="-5"), -5),
        (DeclaredParameter("p", ParameterType.NUMBER, default="0.50"), Decimal("0.50")),
        (DeclaredParameter("p", ParameterType.BOOLEAN, required=True), True),
        (DeclaredParameter("p", ParameterType.BOOLEAN, default="off"), False),
        (DeclaredParameter("p", ParameterType.TIMESTAMP), "2026-03-13T09:15:00Z"),
        (DeclaredParameter("p", ParameterType.DATE, required=True), "2026-03-13"),
        (DeclaredParameter("p", ParameterType.UUID, required=True), "SOME_P"),
        (DeclaredParameter("p", ParameterType.TEXT_LIST, required=True), ["SOME_P"]),
        (DeclaredParameter("p", ParameterType.TEXT_LIST, allowed_values=("a", "b")), ["a", "b"]),
        (DeclaredParameter("p", ParameterType.TEXT_LIST), None),
    ],
)
def test_an_example_fits_its_parameter(parameter: DeclaredParameter, expected: Value | None) -> None:
    arguments = example_arguments([parameter], now=NOW)
    assert arguments.get("p") == expected
    assert type(arguments.get("p")) is type(expected)
    sent: Any = {name: str(value) if isinstance(value, Decimal) else value for name, value in arguments.items()}
    if expected is not None and parameter.type is not ParameterType.UUID:
        coerce_arguments([parameter], sent)  # raises for what the endpoint would refuse


def test_two_times_are_the_bounds_of_a_day() -> None:
    bounds = [DeclaredParameter(name, ParameterType.TIMESTAMP) for name in ("start", "end")]
    assert example_arguments(bounds, now=NOW) == {"start": "2026-03-13T09:15:00Z", "end": "2026-03-14T09:15:00Z"}


def test_what_only_the_caller_knows_is_marked_everywhere() -> None:
    arguments: dict[str, Value] = {"project": "SOME_PROJECT", "levels": ["SOME_LEVELS"], "unit": "day"}
    assert placeholders(arguments) == {"SOME_PROJECT": "project", "SOME_LEVELS": "levels"}
    for example in examples(arguments).values():
        assert sorted(example.pieces[1::2]) == ["SOME_LEVELS", "SOME_PROJECT", ACCESS_TOKEN]
        assert text_of(example).count("SOME_") == 2


def test_a_call_without_arguments_is_as_short_as_can_be() -> None:
    shown = examples({})
    assert words_of(shown["shell"]) == ["--get", ADDRESS, "--header", f"X-API-KEY: {ACCESS_TOKEN}"]
    assert "params" not in text_of(shown["python"])
    assert "URLSearchParams" not in text_of(shown["javascript"])


# Whatever a default or an allowed value may hold; a lone surrogate cannot even be stored.
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
VALUES = st.one_of(TEXTS, st.integers(), st.booleans(), st.lists(TEXTS, min_size=1, max_size=3))
ARGUMENTS = st.dictionaries(st.from_regex(r"\A[A-Za-z_][A-Za-z0-9_]{0,8}\Z"), VALUES, max_size=4)


def as_pairs(arguments: Mapping[str, Value]) -> list[tuple[str, str]]:
    return [
        (name, str(element).lower() if isinstance(element, bool) else str(element))
        for name, value in arguments.items()
        for element in (value if isinstance(value, list) else [value])
    ]


@hypothesis_settings(max_examples=100, deadline=None)
@given(ARGUMENTS)
def test_the_shell_reads_back_every_argument(arguments: dict[str, Value]) -> None:
    words = words_of(examples(arguments)["shell"])
    sent = [tuple(words[at + 1].split("=", 1)) for at, word in enumerate(words) if word == "--data-urlencode"]
    assert sent == as_pairs(arguments)


@hypothesis_settings(max_examples=200, deadline=None)
@given(ARGUMENTS)
def test_python_reads_back_every_argument(arguments: dict[str, Value]) -> None:
    tree = ast.parse(text_of(examples(arguments)["python"]))
    keywords = {
        keyword.arg: keyword.value for node in ast.walk(tree) if isinstance(node, ast.Call) for keyword in node.keywords
    }
    sent = ast.literal_eval(keywords["params"]) if arguments else {}
    assert sent == arguments
    assert [type(value) for value in sent.values()] == [type(value) for value in arguments.values()]


@hypothesis_settings(max_examples=100, deadline=None)
@given(ARGUMENTS)
def test_javascript_has_every_argument(arguments: dict[str, Value]) -> None:
    text = text_of(examples(arguments)["javascript"])
    lines = [line[2:-1] for line in text.split("\n") if line.startswith("  [")]
    assert [tuple(json.loads(line)) for line in lines] == as_pairs(arguments)


def test_the_texts_are_exact() -> None:
    arguments: dict[str, Value] = {
        "project": AWKWARD,
        "n": 7,
        "exact": Decimal("0.50"),
        "on": True,
        "level": ["a", "b"],
    }
    shown = {language: text_of(example) for language, example in examples(arguments).items()}
    in_json = json.dumps(AWKWARD, ensure_ascii=False)
    in_shell = AWKWARD.replace("'", "'\\''")
    assert (
        shown["shell"]
        == f"""\
curl --get '{ADDRESS}' \\
  --header 'X-API-KEY: YOUR_ACCESS_TOKEN' \\
  --data-urlencode 'project={in_shell}' \\
  --data-urlencode 'n=7' \\
  --data-urlencode 'exact=0.50' \\
  --data-urlencode 'on=true' \\
  --data-urlencode 'level=a' \\
  --data-urlencode 'level=b'"""
    )
    assert (
        shown["python"]
        == f"""\
import requests  # pip install requests

response = requests.get(
    "{ADDRESS}",
    headers={{"X-API-KEY": "YOUR_ACCESS_TOKEN"}},
    params={{
        "project": {in_json},
        "n": 7,
        "exact": 0.50,
        "on": True,
        "level": ["a", "b"],
    }},
    timeout=20,
)
if not response.ok:
    raise SystemExit(response.json()["error"]["message"])
for row in response.json()["result"]:
    print(row)"""
    )
    assert (
        shown["javascript"]
        == f"""\
const address = new URL("{ADDRESS}");
address.search = new URLSearchParams([
  ["project", {in_json}],
  ["n", "7"],
  ["exact", "0.50"],
  ["on", "true"],
  ["level", "a"],
  ["level", "b"],
]);
const response = await fetch(address, {{
  headers: {{ "X-API-KEY": "YOUR_ACCESS_TOKEN" }},
}});
const answer = await response.json();
if (!response.ok) throw new Error(answer.error.message);
console.log(answer.result);"""
    )


@pytest.mark.django_db
@pytest.mark.parametrize("language", ["sql", "lql"])
def test_a_query_of_the_callers_own_is_in_every_language(language: str) -> None:
    request = RequestFactory().get(f"/?query={language}")
    shown = calling_context(request, Endpoint.objects.get(name="logs.all"))["examples"]
    assert [example.label for example in shown] == ["curl", "Python", "JavaScript"]
    assert all(f"{language}" in text_of(example) and "edge_logs" in text_of(example) for example in shown)


@pytest.mark.django_db
def test_the_link_to_the_documentation_names_the_operation(admin_client: Any) -> None:
    shown = calling_context(
        RequestFactory().get("/"), save_endpoint(Endpoint(name="test.ways", sql="SELECT 1 AS one"), [])
    )
    operation = shown["docs_address"].rpartition("/")[2]
    document = admin_client.get(shown["openapi_address"]).json()
    assert document["paths"]["/api/endpoints/query/test.ways"]["get"]["operationId"] == operation == "get_test_ways"
