"""JSON-RPC messages of the Model Context Protocol, and the revision of it that a message is of.

Sources: JSON-RPC 2.0; https://modelcontextprotocol.io/specification, "Streamable HTTP" and "Versioning and
Compatibility" of 2026-07-28, and the older revisions, whose clients say `initialize` first.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final

from endpoints.access.secrets import Caller
from endpoints.api.arguments import read_json
from endpoints.errors import InvalidRequest, LimitReached

STATELESS: Final = "2026-07-28"  # each request names its revision; there is no `initialize`
WITH_HANDSHAKE: Final = ("2025-11-25", "2025-06-18")
REVISIONS: Final = (STATELESS, *WITH_HANDSHAKE)

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"


class Code(IntEnum):
    """Codes of protocol errors: of JSON-RPC, and those that the specification adds."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    HEADER_MISMATCH = -32020
    UNSUPPORTED_VERSION = -32022


class ProtocolError(Exception):
    """A message that cannot be answered; what goes wrong inside a tool is the result of its call instead."""

    def __init__(self, code: Code, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.status = 404 if code is Code.METHOD_NOT_FOUND else 400
        self.document = {"code": int(code), "message": message} | ({} if data is None else {"data": data})


def require(is_fulfilled: bool, code: Code, message: str, data: object = None) -> None:
    """Raise ProtocolError if something is not as it must be."""
    if not is_fulfilled:
        raise ProtocolError(code, message, data)


@dataclass(slots=True)
class Message:
    """A POST and, as far as it is read, its message: without a method a response, without an id a notification."""

    environ: Mapping[str, Any]  # of WSGI, PEP 3333
    caller: Caller
    request_id: str
    refusal: LimitReached | None = None  # why the POST is one too many
    id: str | int | None = None
    method: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    revision: str = ""

    def read(self, body: bytes) -> None:
        """Take over what the body says. Raises ProtocolError."""
        try:
            document = read_json(body)
        except InvalidRequest as error:
            raise ProtocolError(Code.PARSE_ERROR, error.message, list(error.details) or None) from error
        sent = document if isinstance(document, dict) else {}
        sent_id = sent.get("id")
        is_text = isinstance(sent_id, str) and not any("\ud800" <= character <= "\udfff" for character in sent_id)
        is_number = type(sent_id) is int and -(2**63) <= sent_id < 2**63
        self.id = sent_id if is_text or is_number else None  # only what can be sent back
        must = 'Send one JSON-RPC 2.0 message: an object with "jsonrpc": "2.0".'
        require(sent.get("jsonrpc") == "2.0", Code.INVALID_REQUEST, must)
        must = "An id must be text or an integer of at most 64 bits."
        require("id" not in sent or self.id is not None, Code.INVALID_REQUEST, must)
        if "method" not in sent and ("result" in sent or "error" in sent):
            return
        method, params = sent.get("method"), sent.get("params")
        require(isinstance(method, str), Code.INVALID_REQUEST, "A message needs a method, which is text.")
        require(isinstance(params, dict | None), Code.INVALID_PARAMS, "params must be an object.")
        self.method, self.params = method, params or {}


# --- Revisions --------------------------------------------------------------------------------------------------------
def negotiated(requested: object) -> str:
    """Return the revision that answers `initialize`: the requested one, else the newest that has a handshake."""
    must = "params.protocolVersion must name a revision, such as 2025-11-25."
    require(isinstance(requested, str), Code.INVALID_PARAMS, must)
    return str(requested) if requested in WITH_HANDSHAKE else WITH_HANDSHAKE[0]


def revision_of(message: Message) -> str:
    """Return the revision that the header names, of a handshake the newest that has one. Raises ProtocolError.

    A request repeats it in `_meta`, or comes from an older client. A proxy may decide by the headers, so they must not
    say something else than the body.
    """
    header, meta = message.environ.get, message.params.get("_meta")
    named = header("HTTP_MCP_PROTOCOL_VERSION", "")
    repeated = meta if isinstance(meta, dict) and message.id is not None else {}
    declared = repeated.get(VERSION_KEY)
    if declared is None and message.id is not None and message.method == "initialize":
        return WITH_HANDSHAKE[0]
    must = f"The header MCP-Protocol-Version must be {VERSION_KEY} of _meta."
    require(declared in (None, named), Code.HEADER_MISMATCH, must)
    text = "This revision of the protocol is not supported." if named else "Send the header MCP-Protocol-Version."
    require(named in REVISIONS, Code.UNSUPPORTED_VERSION, text, {"supported": REVISIONS, "requested": named})
    is_refused = named == STATELESS and message.method is None
    require(not is_refused, Code.INVALID_REQUEST, "Send a request or a notification, not a response.")
    if named == STATELESS and message.id is not None:
        must = f"params._meta must contain {VERSION_KEY} and {CAPABILITIES_KEY}."
        require(declared is not None, Code.INVALID_PARAMS, must)
        is_object = isinstance(repeated.get(CAPABILITIES_KEY), dict)
        require(is_object, Code.INVALID_PARAMS, f"params._meta must contain {CAPABILITIES_KEY}, an object.")
        is_same = header("HTTP_MCP_METHOD", "").strip() == message.method
        require(is_same, Code.HEADER_MISMATCH, "The header Mcp-Method must be the method of the body.")
        is_same = message.method != "tools/call" or _decoded(header("HTTP_MCP_NAME")) == message.params.get("name")
        require(is_same, Code.HEADER_MISMATCH, "The header Mcp-Name must be params.name of the body.")
    return str(named)


def _decoded(header: str | None) -> str | None:
    """Return a header's value, which may be =?base64?…?= of its UTF-8; None if that cannot be read."""
    if header is None or not (header.startswith("=?base64?") and header.endswith("?=")):
        return header
    try:
        return base64.b64decode(header[len("=?base64?") : -len("?=")], validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return None
