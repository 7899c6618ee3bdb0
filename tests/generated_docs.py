"""The parts of the docs that are written from the code: `python -m tests.generated_docs` writes them anew."""

from __future__ import annotations

import re
from pathlib import Path

from logsources.allowed_functions import FUNCTION_GROUPS

PROJECT = Path(__file__).resolve().parent.parent
SANDBOX = PROJECT / "docs" / "sandbox.md"
_FUNCTIONS = re.compile(r"(<!-- functions: [^\n]* -->\n).*?(<!-- /functions -->\n)", re.DOTALL)


def function_list() -> str:
    """Return the functions of sandbox queries in Markdown, in the groups of the code."""
    paragraphs = [
        f"**{group.title}.** {group.purpose}\n\n{', '.join(f'`{name}`' for name in sorted(group.names))}\n"
        for group in FUNCTION_GROUPS
    ]
    return "\n" + "\n".join(paragraphs) + "\n"


def with_function_list(document: str) -> str:
    """Return the document with the list between its markers. Raises ValueError unless they are there once."""
    written, count = _FUNCTIONS.subn(lambda match: match[1] + function_list() + match[2], document)
    if count != 1:
        raise ValueError(f"the markers of the function list were found {count} times")
    return written


if __name__ == "__main__":
    SANDBOX.write_text(with_function_list(SANDBOX.read_text(encoding="utf-8")), encoding="utf-8")
