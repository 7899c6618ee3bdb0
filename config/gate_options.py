"""The start-up options of the gate's sessions: the service's own, and those that `options=` of LOGS_GATE_URL adds.

libpq takes only one text of options, so an `options=` in the URL would otherwise replace the service's own: times would
come in another zone, bytes in another form, and transactions could write.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from django.core.exceptions import ImproperlyConfigured

GATE_OPTIONS: Final[Mapping[str, str]] = {
    "TimeZone": "UTC",
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "bytea_output": "hex",
    "default_transaction_read_only": "on",
}
_WORD: Final = re.compile(r"(?:\\.|[^\s\\])+", re.DOTALL)  # "Connection Strings", options: a backslash keeps a space


def with_gate_options(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the gate's connection parameters with the service's own options after those of the URL.

    Raises ImproperlyConfigured if the URL contradicts one of the service's own options or cannot be read.
    """
    given = str(parameters.get("options") or "")
    own = {name.lower(): value for name, value in GATE_OPTIONS.items()}
    for name, value in _settings(given):
        wanted = own.get(name.lower())
        if wanted is not None and value.lower() != wanted.lower():
            raise ImproperlyConfigured(
                f"LOGS_GATE_URL: options= sets {name} to {value!r}, but the service needs {wanted!r}. Leave it out."
            )
    # If an option comes twice, PostgreSQL takes the last.
    ours = " ".join(f"-c {name}={value}" for name, value in GATE_OPTIONS.items())
    return {**parameters, "options": f"{given} {ours}".strip()}


def _settings(options: str) -> Iterator[tuple[str, str]]:
    """Yield name and value of each setting: `-c name=value`, `-cname=value` or `--name=value` (postgres, "-c")."""
    words = iter(_WORD.findall(options))
    for word in words:
        if word.startswith("--"):
            text = word[2:]
        elif word.startswith("-c"):
            text = word[2:] or next(words, "")
        else:
            raise _unreadable(word)
        name, equals, value = re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL).partition("=")
        if not equals or not name:
            raise _unreadable(word)
        yield name.replace("-", "_"), value


def _unreadable(word: str) -> ImproperlyConfigured:
    return ImproperlyConfigured(
        f"LOGS_GATE_URL: options= cannot be read at {word!r}; write settings as -c name=value, such as "
        "options=-c%20work_mem%3D8MB."
    )
