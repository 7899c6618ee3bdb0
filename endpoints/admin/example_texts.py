"""Calls as people write them: commands of a shell with curl, Python with requests, JavaScript with fetch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from endpoints.admin.call_examples import ACCESS_TOKEN, Target, Value


# --- A shell ----------------------------------------------------------------------------------------------------------
def curl(target: Target, *options: str) -> str:
    """Return the call as a command; `options` are written as the shell needs them."""
    return command(f"curl --get {quoted(target.address)}", KEY_OPTION, *options, *curl_arguments(target.arguments))


def command(*parts: str) -> str:
    """Return a command with each part in a line of its own."""
    return " \\\n  ".join(parts)


def curl_arguments(arguments: Mapping[str, Value]) -> list[str]:
    """Return curl's options for arguments: after `--get` they are sent in the query string, otherwise as a form."""
    return [f"--data-urlencode {quoted(f'{name}={value}')}" for name, value in pairs(arguments)]


def quoted(text: str) -> str:
    """Return a word of the shell, always in quotes: a later value may need them."""
    return "'" + text.replace("'", "'\\''") + "'"


def pairs(arguments: Mapping[str, Value]) -> list[tuple[str, str]]:
    """Return the fields of a query string: everything as text, a list as its name several times."""
    fields: list[tuple[str, str]] = []
    for name, value in arguments.items():
        for element in value if isinstance(value, list) else [value]:
            fields.append((name, str(element).lower() if isinstance(element, bool) else str(element)))
    return fields


KEY_OPTION: Final = f"--header {quoted(f'X-API-KEY: {ACCESS_TOKEN}')}"


# --- Python -----------------------------------------------------------------------------------------------------------
# Ends the program with the message of the error, if there is one.
PYTHON_CHECK: Final = ("if not response.ok:", '    raise SystemExit(response.json()["error"]["message"])')


def python_request(target: Target, *, accept: str = "", params: str = "", stream: bool = False) -> list[str]:
    """Return the lines that call and name the `response`; `params` is a variable with the arguments."""
    arguments = ["    params={", *python_fields(target.arguments), "    },"] if target.arguments else []
    return [
        "response = requests.get(",
        f"    {literal(target.address)},",
        f"    headers={python_headers(accept)},",
        *([f"    params={params},"] if params else arguments),
        *(["    stream=True,"] if stream else []),
        f"    timeout={target.timeout_seconds},",
        ")",
    ]


def python_headers(accept: str = "") -> str:
    """Return the dictionary of the headers; `accept` is a media type."""
    return json.dumps({"X-API-KEY": ACCESS_TOKEN} | ({"Accept": accept} if accept else {}))


def python_fields(arguments: Mapping[str, Value], *, indent: int = 8) -> list[str]:
    """Return arguments as the lines of a dictionary."""
    return [" " * indent + f"{literal(name)}: {_python_literal(value)}," for name, value in arguments.items()]


def _python_literal(value: Value) -> str:
    return str(value) if isinstance(value, bool | int | Decimal) else json.dumps(value, ensure_ascii=False)


# --- JavaScript -------------------------------------------------------------------------------------------------------
def javascript(target: Target, *, options: str) -> str:
    """Return the call with fetch; `options` are fields of fetch's second argument."""
    lines = [f"const address = new URL({literal(target.address)});"]
    if target.arguments:
        fields = [f"  [{literal(name)}, {literal(value)}]," for name, value in pairs(target.arguments)]
        lines += ["address.search = new URLSearchParams([", *fields, "]);"]
    return "\n".join(
        [
            *lines,
            "const response = await fetch(address, {",
            f"  {options},",
            "});",
            "const answer = await response.json();",
            "if (!response.ok) throw new Error(answer.error.message);",
            "console.log(answer.result);",
        ]
    )


def javascript_value(value: Value) -> str:
    """Return a value as JavaScript and JSON write it."""
    return str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)


def literal(text: str) -> str:
    """Return a text as both Python and JavaScript write it."""
    return json.dumps(text, ensure_ascii=False)


KEY_HEADERS: Final = f"headers: {{ {literal('X-API-KEY')}: {literal(ACCESS_TOKEN)} }}"
