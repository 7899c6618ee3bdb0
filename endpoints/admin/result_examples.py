"""Ways to get rows: a call, other formats, streams, pages, a live tail. The rules are those of docs/calling.md,
docs/pages.md and docs/tail.md.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from endpoints.admin.call_examples import CallExample, Language, Target, WayToCall, example
from endpoints.admin.example_texts import (
    KEY_HEADERS,
    KEY_OPTION,
    PYTHON_CHECK,
    command,
    curl,
    curl_arguments,
    javascript,
    javascript_value,
    literal,
    python_fields,
    python_headers,
    python_request,
    quoted,
)
from endpoints.results.outcomes import ResultFormat

PAGE_SIZE: Final = 500
_REQUESTS: Final = "import requests  # pip install requests"
# Without --fail a failed attempt that is repeated would leave its body before that of the next one.
_PATIENT_CURL: Final = "curl --silent --show-error --fail --retry 5"
_NEXT: Final = '--data-urlencode "page_token=$next"'


def plain_call(target: Target) -> WayToCall:
    """Return the call in each language, answered in JSON."""
    program = [_REQUESTS, "", *python_request(target), *PYTHON_CHECK, 'for row in response.json()["result"]:']
    examples = (
        example(target, "curl", "curl", Language.SHELL, curl(target)),
        example(target, "python", "Python", Language.PYTHON, "\n".join([*program, "    print(row)"])),
        example(target, "javascript", "JavaScript", Language.JAVASCRIPT, javascript(target, options=KEY_HEADERS)),
    )
    note = "JavaScript in a page may call from the service's own address and from origins in CORS_ALLOWED_ORIGINS."
    return WayToCall("call", "A call", note, examples, takes_query=True)


def other_formats(target: Target, formats: Collection[ResultFormat]) -> WayToCall:
    """Return examples of these formats, each with what reads it."""
    examples: list[CallExample] = []
    if ResultFormat.CSV in formats:
        examples.append(example(target, "csv", "CSV", Language.SHELL, _saved(target, ResultFormat.CSV, "rows.csv")))
    if ResultFormat.NDJSON in formats:
        saved = _saved(target, ResultFormat.NDJSON, "rows.ndjson")
        examples.append(example(target, "ndjson", "NDJSON", Language.SHELL, saved))
    if ResultFormat.PARQUET in formats:
        read = "duckdb -c \"select * from 'rows.parquet'\""
        text = f"{_saved(target, ResultFormat.PARQUET, 'rows.parquet')} &&\n{read}"
        examples.append(example(target, "parquet", "Parquet", Language.SHELL, text))
    if ResultFormat.ARROW in formats:
        examples.append(example(target, "arrow", "Arrow", Language.PYTHON, _arrow(target)))
    note = "An error is JSON in every format."
    if ResultFormat.PARQUET in formats:
        note += " Parquet and Arrow keep the types of the columns; DuckDB, pandas and polars read both."
    return WayToCall("formats", "Other formats", note, tuple(examples), takes_query=True)


def _saved(target: Target, result_format: ResultFormat, name: str) -> str:
    # With --fail an error, which is JSON, does not become the file.
    return curl(target, "--fail", _accept(result_format), f"--output {name}")


def _accept(result_format: ResultFormat) -> str:
    return f"--header {quoted(f'Accept: {result_format}')}"


def _arrow(target: Target) -> str:
    imports = ["import polars  # pip install polars requests", "import requests"]
    request = python_request(target, accept=ResultFormat.ARROW.value)
    return "\n".join([*imports, "", *request, *PYTHON_CHECK, "print(polars.read_ipc_stream(response.content))"])


def streams(target: Target, stream_rows: int) -> WayToCall:
    """Return examples of streams, with the check of the last line."""
    examples = (
        example(target, "csv", "CSV", Language.SHELL, _stream(target, ResultFormat.CSV, "rows.csv", '# {"end":{')),
        example(
            target, "ndjson", "NDJSON", Language.SHELL, _stream(target, ResultFormat.NDJSON, "rows.ndjson", '{"end":{')
        ),
        example(target, "python", "Python", Language.PYTHON, _stream_in_python(target)),
    )
    note = (
        f"CSV and NDJSON are sent while rows arrive, up to {stream_rows:,} rows. The last line says how the stream "
        "ended: without it, rows are missing."
    )
    return WayToCall("streams", "Streams", note, examples, takes_query=True)


def _stream(target: Target, result_format: ResultFormat, name: str, ending: str) -> str:
    # Rows may imitate the last line, but nobody knows the request id of a later answer.
    got = curl(target, "--fail", _accept(result_format), "--dump-header head", f"--output {name}")
    return "\n".join(
        [
            f"{got} &&",
            "id=$(sed -n 's/^x-request-id: *//Ip' head | tr -d '\\r') &&",
            f'  tail -n 1 {name} | grep -F {quoted(ending)} | grep -qF "$id" &&',
            f"sed -i '$d' {name} ||",
            "echo 'The stream is incomplete.' >&2",
        ]
    )


def _stream_in_python(target: Target) -> str:
    return "\n".join(
        [
            "import json",
            "",
            _REQUESTS,
            "",
            *python_request(target, accept=ResultFormat.NDJSON.value, stream=True),
            *PYTHON_CHECK,
            'last = b""',
            "for line in response.iter_lines():",
            "    if last:",
            "        print(json.loads(last))",
            "    last = line",
            'request_id = response.headers["X-Request-ID"].encode()',
            """if not last.startswith(b'{"end":{') or request_id not in last:""",
            '    raise SystemExit("The stream is incomplete.")',
        ]
    )


def pages(target: Target, max_rows: int) -> WayToCall:
    """Return loops over the pages of the stored query."""
    first = replace(target, arguments={**target.arguments, "page_size": min(PAGE_SIZE, max_rows)})
    examples = (
        example(target, "shell", "curl and jq", Language.SHELL, _pages_in_shell(first)),
        example(target, "python", "Python", Language.PYTHON, _pages_in_python(first)),
    )
    note = f"A page has 1 to {max_rows:,} rows. Every row comes once, while new rows are loaded."
    return WayToCall("pages", "Pages", note, examples)


def _pages_in_shell(target: Target) -> str:
    parts = [f"{_PATIENT_CURL} --get {quoted(target.address)}", KEY_OPTION, *curl_arguments(target.arguments), _NEXT]
    return "\n".join(
        [
            "next=",
            'until [ "$next" = null ]; do',
            f"  page=$({command(*parts)}) || break",
            """  printf '%s\\n' "$page" | jq --compact-output '.result[]'""",
            """  next=$(printf '%s\\n' "$page" | jq --raw-output .next)""",
            "done",
        ]
    )


def _pages_in_python(target: Target) -> str:
    request = python_request(target, params="arguments")
    return "\n".join(
        [
            _REQUESTS,
            "",
            "arguments = {",
            *python_fields(target.arguments, indent=4),
            "}",
            "while True:",
            *(f"    {line}" for line in (*request, *PYTHON_CHECK)),
            "    page = response.json()",
            '    for row in page["result"]:',
            "        print(row)",
            '    if page["next"] is None:',
            "        break",
            '    arguments["page_token"] = page["next"]',
        ]
    )


def live_tail(target: Target, table: str, wait_seconds: float) -> WayToCall:
    """Return loops that follow the new rows of a table; a page takes `wait_seconds` if there are none."""
    tail = replace(target, arguments={**target.arguments, "lql": f"f:{table}", "tail": "true"})
    timeout = round(wait_seconds) + target.timeout_seconds
    examples = (
        example(target, "shell", "curl and jq", Language.SHELL, _tail_in_shell(tail)),
        example(target, "python", "Python", Language.PYTHON, _tail_in_python(tail, timeout)),
        example(target, "javascript", "JavaScript", Language.JAVASCRIPT, _tail_in_javascript(tail)),
    )
    note = (
        "The first page has the newest rows; each further one the rows that were stored since. "
        f"Without new rows it comes after {wait_seconds:g} seconds and is empty."
    )
    return WayToCall("tail", "Live tail", note, examples)


def _tail_in_shell(target: Target) -> str:
    # Not --get: the token of a page may be longer than proxies allow in an address.
    parts = [f"{_PATIENT_CURL} {quoted(target.address)}", KEY_OPTION, *curl_arguments(target.arguments), _NEXT]
    return "\n".join(
        [
            "next=",
            f"while page=$({command(*parts)}); do",
            """  printf '%s\\n' "$page" | jq --compact-output '.result | reverse[]'""",
            """  next=$(printf '%s\\n' "$page" | jq --raw-output .next)""",
            "done",
        ]
    )


def _tail_in_python(target: Target, timeout_seconds: int) -> str:
    return "\n".join(
        [
            "import time",
            "",
            _REQUESTS,
            "",
            "arguments = {",
            *python_fields(target.arguments, indent=4),
            "}",
            "while True:",
            "    response = requests.post(",
            f"        {literal(target.address)},",
            f"        headers={python_headers()},",
            "        json=arguments,",
            f"        timeout={timeout_seconds},",
            "    )",
            "    if response.status_code in (429, 503):",
            '        time.sleep(int(response.headers.get("Retry-After", 1)))',
            "        continue",
            *(f"    {line}" for line in PYTHON_CHECK),
            "    page = response.json()",
            '    for row in reversed(page["result"]):',
            "        print(row, flush=True)",
            '    arguments["page_token"] = page["next"]',
        ]
    )


def _tail_in_javascript(target: Target) -> str:
    fields = [f"  {literal(name)}: {javascript_value(value)}," for name, value in target.arguments.items()]
    headers = KEY_HEADERS.removesuffix(" }") + ', "Content-Type": "application/json" }'
    return "\n".join(
        [
            "const query = {",
            *fields,
            "};",
            "for (;;) {",
            f"  const response = await fetch({literal(target.address)}, {{",
            '    method: "POST",',
            f"    {headers},",
            "    body: JSON.stringify(query),",
            "  });",
            "  const page = await response.json();",
            "  if (response.status === 429 || response.status === 503) {",
            '    const seconds = Number(response.headers.get("Retry-After") ?? 1);',
            "    await new Promise((resume) => setTimeout(resume, 1000 * seconds));",
            "    continue;",
            "  }",
            "  if (!response.ok) throw new Error(page.error.message);",
            "  for (const row of page.result.reverse()) console.log(row);",
            "  query.page_token = page.next;",
            "}",
        ]
    )
