"""Files of endpoints: read back what was written, stay SQL, and tell every fault with its line."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endpoints.defining.endpoint_files import (
    EndpointFileError,
    FileProblem,
    as_in_file,
    read_endpoint_file,
    write_endpoint_file,
)
from endpoints.definition import Definition
from endpoints.sql.lexemes import lex
from endpoints.sql.parameters import DeclaredParameter, ParameterType, find_parameters

TRICKY = [
    '"""',
    "'''",
    "\\",
    "*/",
    "/*",
    "/*/",
    "[[parameters]]",
    "\n",
    "\t",
    "\r",
    "\x7f",
    "\u2028",
    "é",
    "\ufeff",
    "#",
]
texts = st.lists(st.sampled_from([*TRICKY, "a", " ", "name = 1", '"']), max_size=12).map("".join)
options = texts.filter(bool) | st.none()
parameters = st.builds(
    DeclaredParameter,
    name=st.sampled_from(["a", "b_1"]),
    type=st.sampled_from(ParameterType),
    required=st.booleans(),
    default=options,
    allowed_values=st.lists(texts, max_size=3).map(tuple),
    minimum=options,
    maximum=options,
    pattern=options,
    description=texts,
)
files = st.builds(
    Definition,
    name=texts,
    sql=st.just("select 1") | texts.map(lambda text: f"select {text}"),
    description=texts,
    tenant_parameter=texts,
    max_rows=st.integers(0, 10**9),
    statement_timeout_seconds=st.integers(0, 300),
    planner_settings=texts,
    cache_seconds=st.integers(0, 900),
    warm_every_seconds=st.integers(0, 900),
    sandboxing=st.booleans(),
    default_sandbox_table=texts,
    redact_pii=st.booleans(),
    parameters=st.lists(parameters, max_size=3).map(tuple),
).map(as_in_file)
HEADER = ["/* endpoint", 'name = "a.b"', "*/", "select 1", ""]


def text_of(*settings_lines: str, sql: str = "select 1") -> str:
    return "\n".join(["/* endpoint", *settings_lines, "*/", sql, ""])


def problems_of(text: str) -> list[tuple[int | None, str]]:
    with pytest.raises(EndpointFileError) as caught:
        read_endpoint_file(text)
    return [(problem.line, problem.message) for problem in caught.value.problems]


@settings(max_examples=300, deadline=None)
@given(endpoint=files)
def test_reads_back_what_was_written(endpoint: Definition) -> None:
    text = write_endpoint_file(endpoint)
    assert read_endpoint_file(text) == endpoint
    assert write_endpoint_file(read_endpoint_file(text)) == text


@settings(max_examples=200, deadline=None)
@given(endpoint=files)
def test_line_ends_of_editors_change_nothing(endpoint: Definition) -> None:
    text = write_endpoint_file(endpoint)
    assert read_endpoint_file("\ufeff" + text.replace("\n", "\r\n")) == endpoint


@settings(max_examples=200, deadline=None)
@given(endpoint=files.map(lambda one: replace(one, sql="select @x as x")))
def test_the_header_is_one_comment_for_postgresql(endpoint: Definition) -> None:
    assert find_parameters(write_endpoint_file(endpoint)) == ("x",)
    words = [lexeme.text for lexeme in lex(write_endpoint_file(endpoint)) if lexeme.text.strip()]
    assert words[-4:] == ["select", "@x", "as", "x"]


def test_a_file_is_readable() -> None:
    endpoint = Definition(
        name="errors.by-path",
        description="Failed requests,\nby path.",
        max_rows=50,
        sandboxing=True,
        parameters=(
            DeclaredParameter("project", required=True, pattern=r"[a-z]+\d*"),
            DeclaredParameter("level", type=ParameterType.INTEGER, default="5", allowed_values=("5", "7")),
        ),
        sql="select request_path\nfrom edge_logs",
    )
    assert (
        write_endpoint_file(endpoint)
        == '''\
/* endpoint
name = "errors.by-path"
description = """
Failed requests,
by path."""
tenant_parameter = ""
max_rows = 50
statement_timeout_seconds = 15
stream_rows = 0
planner_settings = ""
page_order = ""
cache_seconds = 0
warm_every_seconds = 0
sandboxing = true
default_sandbox_table = ""
sandbox_dialect = "postgresql"
lql_chart_column = "aggregate"
timestamps_as = "iso"
redact_pii = false
record_argument_values = false

[[parameters]]
name = "project"
type = "text"
required = true
pattern = '[a-z]+\\d*'

[[parameters]]
name = "level"
type = "integer"
default = "5"
allowed_values = ["5", "7"]
*/

select request_path
from edge_logs
'''
    )


def test_what_a_file_leaves_out_is_as_in_a_new_endpoint() -> None:
    assert read_endpoint_file("\n".join(HEADER)) == Definition(name="a.b", sql="select 1")


def test_values_may_be_written_as_toml_has_them() -> None:
    read = read_endpoint_file(
        text_of(
            'name = "a"',
            "[[parameters]]",
            'name = "n"',
            'type = "number"',
            "default = 1.50",
            "minimum = 1",
            "allowed_values = [1.50, 2]",
            "[[parameters]]",
            'name = "d"',
            'type = "date"',
            "minimum = 2025-01-02",
            "maximum = 2025-02-03T04:05:06Z",
            "[[parameters]]",
            'name = "b"',
            'type = "boolean"',
            "default = true",
            'pattern = ""',
        )
    )
    number, day, boolean = read.parameters
    assert (number.default, number.minimum, number.allowed_values) == ("1.50", "1", ("1.50", "2"))
    assert (day.minimum, day.maximum) == ("2025-01-02", "2025-02-03T04:05:06+00:00")
    assert (boolean.default, boolean.pattern) == ("true", None)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "must begin with the line `/* endpoint`"),
        ("select 1", 1, "must begin with the line `/* endpoint`"),
        ("/* endpoint\nname = 'a'\nselect 1", 1, "the header needs an end"),
        (text_of('name = "a"', sql=" \n"), 3, "there is no SQL"),
        (text_of(), None, "the header lacks `name`"),
        (text_of('name = "a"', "max_rows ="), 3, "the header is not TOML: Invalid value"),
        (text_of('name = "a'), 2, "the header is not TOML"),
        (text_of('name = "a"', 'name = "b"'), 3, "the header is not TOML: Cannot overwrite a value"),
        (text_of('name = "a"', 'description = "/* x"'), 3, "`/*` cannot be used in the header"),
        (text_of('name = "a"', 'description = "x */ y"'), 3, "`*/` cannot be used in the header"),
        (text_of('name = "a"', "max_row = 1"), None, "there is no setting `max_row`; did you mean `max_rows`?"),
        (text_of('name = "a"', "zebra = 1"), None, "there is no setting `zebra`"),
        (text_of("name = 1"), None, "`name` must be a text"),
        (text_of('name = "a"', "max_rows = 1.5"), None, "`max_rows` must be an integer"),
        (text_of('name = "a"', "max_rows = true"), None, "`max_rows` must be an integer"),
        (text_of('name = "a"', "sandboxing = 1"), None, "`sandboxing` must be true or false"),
        (text_of('name = "a"', "parameters = 1"), None, "each parameter must begin with a line [[parameters]]"),
        (text_of('name = "a"', "[parameters]", "x = 1"), None, "each parameter must begin with a line [[parameters]]"),
        (
            text_of('name = "a"', "[[parameters]]", 'type = "text"'),
            None,
            "parameter 1 (without a name): it lacks `name`",
        ),
        (text_of('name = "a"', "[[parameters]]", 'name = "p"', 'typ = "text"'), None, "did you mean `type`?"),
        (text_of('name = "a"', "[[parameters]]", 'name = "p"', 'type = "txt"'), None, "did you mean `text`?"),
        (
            text_of('name = "a"', "[[parameters]]", 'name = "p"', 'required = "yes"'),
            None,
            "parameter 1 (p): `required` must be true or",
        ),
        (text_of('name = "a"', "[[parameters]]", 'name = "p"', "allowed_values = 5"), None, "must be a list of texts"),
        (text_of('name = "a"', "[[parameters]]", 'name = "p"', "default = [1]"), None, "`default` must be a text"),
        (text_of('name = "a"', "[[parameters]]", "name = 5"), None, "`name` must be a text"),
    ],
)
def test_tells_a_fault_at_its_line_or_by_its_name(text: str, line: int | None, message: str) -> None:
    ((found, told),) = problems_of(text)
    assert found == line
    assert message in told


def test_tells_every_fault() -> None:
    text = text_of(
        "max_row = 1", "redact_pii = 1",
        "[[parameters]]", 'name = "a"', "wanted = 1",
        "[[parameters]]", 'name = "b"', "wanted = 1",
    )  # fmt: skip
    assert [message.partition(";")[0] for _, message in problems_of(text)] == [
        "the header lacks `name`",
        "there is no setting `max_row`",
        "`redact_pii` must be true or false",
        "parameter 1 (a): a parameter has no `wanted`",
        "parameter 2 (b): a parameter has no `wanted`",
    ]


def test_a_problem_reads_as_a_sentence() -> None:
    assert str(FileProblem(3, "it is wrong")) == "line 3: it is wrong"
    assert str(FileProblem(3, "it is wrong", column=8)) == "line 3, column 8: it is wrong"
    assert str(FileProblem(None, "it is wrong")) == "it is wrong"
