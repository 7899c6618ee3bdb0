"""An endpoint as one readable file: its settings and parameters as TOML in a leading SQL comment, then its SQL.

::

    /* endpoint
    name = "errors.by-path"
    tenant_parameter = "project"
    max_rows = 1000

    [[parameters]]
    name = "project"
    required = true
    */

    select request_path from edge_logs where project = @project

Any editor shows it as SQL, and PostgreSQL itself takes the header for a comment. `read_endpoint_file` and
`write_endpoint_file` are inverse: what one writes the other reads back unchanged.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import date, datetime, time
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

from endpoints.definition import SETTINGS, Definition
from endpoints.sql.parameters import DeclaredParameter, ParameterType

# --- Endpoint file lines ----------------------------------------------------------------------------------------------
FIRST_LINE: Final = "/* endpoint"
LAST_LINE: Final = "*/"
_LINE_ENDS: Final = re.compile(r"\r\n?")


@dataclass(frozen=True, slots=True)
class FileLines:
    """The header, its opening comment included, and what follows the line that ends it."""

    header: Sequence[str]
    rest: Sequence[str]
    header_ends: bool = True

    @property
    def begin_as_they_should(self) -> bool:
        return [line.rstrip() for line in self.header[:1]] == [FIRST_LINE]

    @property
    def sql(self) -> str:
        return "\n".join(self.rest)

    def of_sql(self, line: int, column: int) -> tuple[int, int]:
        """Return line and column in the file, from 1, of a place in its SQL, which begins with its first letter."""
        blank = next((number for number, text in enumerate(self.rest) if text.strip()), 0)
        first = self.rest[blank] if self.rest else ""
        indent = len(first) - len(first.lstrip()) if line == 1 else 0
        return len(self.header) + 1 + blank + line, indent + column


def find_lines(text: str) -> FileLines:
    """Return the two parts of a file; if its header has no end, it is all header."""
    lines = _LINE_ENDS.sub("\n", text.removeprefix("\ufeff")).split("\n")
    end = next((number for number, line in enumerate(lines) if line.rstrip() == LAST_LINE), None)
    return FileLines(lines, [], header_ends=False) if end is None else FileLines(lines[:end], lines[end + 1 :])


# --- Endpoint files ---------------------------------------------------------------------------------------------------
_TOML_PLACE: Final = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_WANTED: Final[Mapping[type, str]] = {bool: "true or false", int: "an integer", str: "a text"}


class FileProblem(NamedTuple):
    """What is wrong in a file; line and column count from 1, and are None where the message names the place."""

    line: int | None
    message: str
    column: int | None = None

    def __str__(self) -> str:
        if self.line is None:
            return self.message
        column = "" if self.column is None else f", column {self.column}"
        return f"line {self.line}{column}: {self.message}"


class EndpointFileError(ValueError):
    """A text that is not the file of an endpoint, with every problem."""

    def __init__(self, problems: tuple[FileProblem, ...]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems


_PARAMETER_KEYS: Final = tuple(one.name for one in fields(DeclaredParameter))


def as_in_file(endpoint: Definition) -> Definition:
    """Return the definition as a file contains it: `\\n` as the only line end, and no blank ends.

    Browsers and editors disagree about both.
    """
    return replace(endpoint, sql=_normal(endpoint.sql), description=_normal(endpoint.description))


def _normal(text: str) -> str:
    return re.sub(r"\r\n?", "\n", text).strip()


def write_endpoint_file(endpoint: Definition) -> str:
    """Return the text of the file; every setting is in it, of parameters what is not the default."""
    endpoint = as_in_file(endpoint)
    lines = [FIRST_LINE, *(f"{name} = {_toml(getattr(endpoint, name))}" for name in SETTINGS)]
    for parameter in endpoint.parameters:
        lines += ["", "[[parameters]]", *_parameter_lines(parameter)]
    return "\n".join([*lines, LAST_LINE, "", endpoint.sql, ""])


def _parameter_lines(parameter: DeclaredParameter) -> Iterator[str]:
    plain = DeclaredParameter(parameter.name)
    for name in _PARAMETER_KEYS:
        value = getattr(parameter, name)
        if name in ("name", "type") or value != getattr(plain, name):
            yield f"{name} = {_toml(value)}"


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return _toml_text(str(value))


def _toml_text(text: str) -> str:
    """Return a TOML string that ends no SQL comment and opens none (PostgreSQL nests them)."""
    opens_or_ends = "*/" in text or "/*" in text
    printable = all(character.isprintable() for character in text)
    if "\\" in text and printable and not opens_or_ends and "'" not in text:
        return f"'{text}'"  # a regular expression stays readable
    if "\n" in text:
        lines = "\n".join(map(_escaped, text.split("\n")))
        return f'"""\n{lines}"""'
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("*/", "*\\u002F").replace("/*", "/\\u002A")
    return "".join(character if character.isprintable() else f"\\U{ord(character):08X}" for character in text)


def read_endpoint_file(text: str) -> Definition:
    """Return what a file contains. Raises EndpointFileError with every problem."""
    lines = find_lines(text)
    if not lines.begin_as_they_should:
        raise EndpointFileError((FileProblem(1, f"the file of an endpoint must begin with the line `{FIRST_LINE}`"),))
    if not lines.header_ends:
        raise EndpointFileError((FileProblem(1, f"the header needs an end: a line with only `{LAST_LINE}`"),))
    document = _read_header(lines.header)
    problems = [FileProblem(None, message) for message in _faults(document)]
    if not lines.sql.strip():
        problems.append(FileProblem(len(lines.header) + 1, "there is no SQL after the header"))
    if problems:
        raise EndpointFileError(tuple(problems))
    parameters = tuple(_declared(fields) for fields in document.pop("parameters", ()))
    return as_in_file(Definition(**document, sql=lines.sql, parameters=parameters))


def _read_header(header: Sequence[str]) -> dict[str, Any]:
    for place, text in enumerate(header[1:], start=2):
        # A comment that opens in the header would continue after it, and one that ends in it would make the rest SQL.
        for mark, spelled in (("/*", "/\\u002A"), ("*/", "*\\u002F")):
            if mark in text:
                message = f"`{mark}` cannot be used in the header, which is a comment; in a string, write {spelled}"
                raise EndpointFileError((FileProblem(place, message),))
    try:
        # An empty line for the first one: line numbers stay. Numbers with a fraction keep their digits.
        return tomllib.loads("\n".join(["", *header[1:]]), parse_float=str)
    except tomllib.TOMLDecodeError as error:
        found = _TOML_PLACE.search(str(error))
        line = int(found[1]) if found and found[1] else len(header)
        message = _TOML_PLACE.sub("", str(error))
        raise EndpointFileError((FileProblem(line, f"the header is not TOML: {message}"),)) from error


def _faults(document: Mapping[str, Any]) -> Iterator[str]:
    if "name" not in document:
        yield "the header lacks `name`"
    for key, value in document.items():
        if key == "parameters":
            yield from _faults_of_parameters(value)
        elif key not in SETTINGS:
            yield f"there is no setting `{key}`{_near(key, (*SETTINGS, 'parameters'))}"
        elif type(value) is not SETTINGS[key].type:
            yield f"`{key}` must be {_WANTED[SETTINGS[key].type]}"


def _faults_of_parameters(value: Any) -> Iterator[str]:
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        yield "each parameter must begin with a line [[parameters]]"
        return
    for number, given in enumerate(value, start=1):
        which = f"parameter {number} ({given.get('name', 'without a name')})"
        if "name" not in given:
            yield f"{which}: it lacks `name`"
        for key, one in given.items():
            if key not in _PARAMETER_KEYS:
                yield f"{which}: a parameter has no `{key}`{_near(key, _PARAMETER_KEYS)}"
            elif reason := _parameter_reason(key, one):
                yield f"{which}: {reason}"


def _parameter_reason(key: str, given: Any) -> str:
    if key == "type":
        types = [one.value for one in ParameterType]
        return "" if given in types else f"`type` must be one of {', '.join(types)}{_near(str(given), types)}"
    if key == "required":
        return "" if isinstance(given, bool) else "`required` must be true or false"
    if key == "allowed_values":
        return "" if isinstance(given, list) and all(map(_is_scalar, given)) else f"`{key}` must be a list of texts"
    if key in ("name", "description", "pattern"):
        return "" if isinstance(given, str) else f"`{key}` must be a text"
    return "" if _is_scalar(given) else f"`{key}` must be a text"


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | int | bool | date | time)  # a datetime is a date


def _near(word: str, words: tuple[str, ...] | list[str]) -> str:
    near = get_close_matches(word, words, n=1)
    return f"; did you mean `{near[0]}`?" if near else ""


def _declared(given: Mapping[str, Any]) -> DeclaredParameter:
    values = {key: value if key in ("type", "required") else _text(value) for key, value in given.items()}
    if "allowed_values" in given:
        values["allowed_values"] = tuple(map(_text, given["allowed_values"]))
    for key in ("default", "minimum", "maximum", "pattern"):
        values[key] = values.get(key) or None  # as in the admin: blank is none
    return DeclaredParameter.from_json(values)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime | date | time) else str(value)
