"""The Link header of an answer in pages: RFC 8288, with the relation `next` and a relative reference (RFC 3986).

    Link: <?project=shop&page_token=rT4…>; rel="next"

A client that follows it sends the same headers again: the access token, Accept, the redaction of the page before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import urlencode

from endpoints.calling.pages import PAGE_TOKEN
from endpoints.calling.query_requests import Call
from endpoints.sql.coercion import canonical_text
from endpoints.sql.parameters import DeclaredParameter, ParameterType

# nginx, for one, reads 4 kB of headers unless told otherwise; arguments may also come from a body of 1 MiB.
MAX_ARGUMENTS_CHARACTERS: Final = 2_000


def link_to_next_page(call: Call, parameters: Sequence[DeclaredParameter], page_token: str) -> str:
    """Return the value of the header: the arguments that the caller sent, and the token.

    Longer arguments are left out: a client repeats the body that they came from. Arguments that the access token is
    bound to are no part of it, unless the caller sent them, nor is `page_size`, which the token remembers.
    """
    arguments = urlencode([*_sent(call, parameters)])
    if len(arguments) > MAX_ARGUMENTS_CHARACTERS:
        arguments = ""
    return f'<?{arguments}{"&" if arguments else ""}{PAGE_TOKEN}={page_token}>; rel="next"'


def _sent(call: Call, parameters: Sequence[DeclaredParameter]) -> Iterator[tuple[str, str]]:
    if call.named_format:  # a page token is good for the format of its page alone
        yield "format", call.named_format
    for parameter in parameters:
        value = call.arguments.get(parameter.name)
        for element in value if isinstance(value, list | tuple) else (value,):
            if element is not None:
                yield parameter.name, canonical_text(ParameterType.TEXT, element)
