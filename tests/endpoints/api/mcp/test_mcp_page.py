"""docs/mcp.md says what /mcp does, and its recipes are files as the programs read them."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from endpoints.api.mcp.protocol import REVISIONS, Code
from endpoints.api.mcp.tools import RESULT_BYTES, RESULT_ROWS, TOOLS_A_PAGE
from tests.test_docs import DOCS, read

PAGE: Final = read(DOCS / "mcp.md")


def recipes() -> list[dict[str, Any]]:
    """Return the JSON documents of the page that configure a program."""
    blocks = re.findall(r"(?:^ {4}.*\n)+", PAGE, re.MULTILINE)
    return [json.loads(block) for block in blocks if block.startswith("    {\n")]


def test_every_recipe_sends_the_access_token_to_the_route() -> None:
    found = recipes()
    assert len(found) == 3
    for recipe in found:
        (server,) = (recipe.get("mcpServers") or recipe["servers"]).values()
        assert server["url"] == "http://127.0.0.1:8000/mcp"
        assert server["headers"]["Authorization"].startswith("Bearer ${")


def test_asks_for_every_secret_that_a_recipe_names() -> None:
    (asking,) = [recipe for recipe in recipes() if "inputs" in recipe]
    (secret,) = asking["inputs"]
    assert secret["password"] is True
    assert f"${{input:{secret['id']}}}" in json.dumps(asking["servers"])


def test_lists_the_revisions_and_the_limits() -> None:
    rows = [line for line in PAGE.splitlines() if re.match(r"\| 20\d\d-", line)]
    named = [name for row in rows for name in re.findall(r"20\d\d-\d\d-\d\d", row.split("|")[1])]
    assert named == list(REVISIONS)
    assert f"at most {RESULT_ROWS} rows and {RESULT_BYTES // 1024} KiB" in PAGE
    assert f"at most {RESULT_ROWS} rows and {RESULT_BYTES} bytes" in PAGE
    assert f"More than {TOOLS_A_PAGE} tools" in PAGE


def test_lists_every_code() -> None:
    assert set(map(int, re.findall(r"(?<!\d)-32\d{3}", PAGE))) == set(Code)
