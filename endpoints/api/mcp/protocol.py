"""JSON-RPC messages of the Model Context Protocol, and the revision of it that a message is of.

Sources: JSON-RPC 2.0; the specification of 2026-07-28, "Streamable HTTP" and "Versioning and Compatibility"; the same
pages of the older revisions, whose clients say `initialize` first. No answer depends on an earlier request.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final

Environ = Mapping[str, Any]  # of WSGI, PEP 3333
MessageId = str | int | None

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
_ENCODED: Final = ("=?base64?", "?=")


@dataclass(frozen=True, slots=True)
class Revision:
    """A revision of the specification, and in what its messages differ from those of the others."""

    name: str
    is_stateless: bool = False  # each request names its revision; there is no `initialize`


REVISIONS: Final[Mapping[str, Revision]] = {
    revision.name: revision
    for revision in (
        Revision("2026-07-28", is_stateless=True),
        Revision("2025-11-25"),
        Revision("2025-06-18"),
    )
}
NEWEST_WITH_HANDSHAKE: Final = REVISIONS["2025-11-25"]


class Code(IntEnum):
    """Codes of protocol errors: of JSON-RPC, and those that the specification adds."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    HEADER_MISMATCH = -32020
    UNSUPPORTED_VERSION = -32022


_STATUSES: Final[Mapping[Code, int]] = {Code.METHOD_NOT_FOUND: 404}


class ProtocolError(Exception):
    """A message that cannot be answered; what goes wrong inside a tool is the result of its call instead."""

    def __init__(self, code: Code, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def status_for(self, revision: Revision | None) -> int:
        """Return the HTTP status; older revisions answer a request that could be read with 200."""
        if revision is not None and not revision.is_stateless:
            return 200
        return _STATUSES.get(self.code, 400)

    def document(self, message_id: MessageId) -> dict[str, object]:
        """Return the JSON-RPC response."""
        error = {"code": int(self.code), "message": self.message}
        if self.data is not None:
            error["data"] = self.data
        return {"jsonrpc": "2.0", "id": message_id, "error": error}


@dataclass(frozen=True, slots=True)
class Message:
    """A request or, without an id, a notification."""

    method: str
    params: Mapping[str, Any] = field(default_factory=dict)
    id: MessageId = None

    @property
    def is_notification(self) -> bool:
        return self.id is None


def id_of(document: object) -> MessageId:
    """Return the id of a request, None if there is no proper one: text, or an integer of 64 bits."""
    sent = document.get("id") if isinstance(document, dict) else None
    if isinstance(sent, str):
        return None if any("\ud800" <= character <= "\udfff" for character in sent) else sent
    if isinstance(sent, int) and not isinstance(sent, bool) and -(2**63) <= sent < 2**63:
        return sent
    return None


def read_message(document: object) -> Message | None:
    """Return the request or notification in a JSON document, None for a response. Raises ProtocolError."""
    if not isinstance(document, dict) or document.get("jsonrpc") != "2.0":
        raise ProtocolError(Code.INVALID_REQUEST, 'Send one JSON-RPC 2.0 message: an object with "jsonrpc": "2.0".')
    message_id = id_of(document)
    if "id" in document and message_id is None:
        raise ProtocolError(Code.INVALID_REQUEST, "An id must be text or an integer of at most 64 bits.")
    if "method" not in document and ("result" in document or "error" in document):
        return None
    method, params = document.get("method"), document.get("params")
    if not isinstance(method, str):
        raise ProtocolError(Code.INVALID_REQUEST, "A message needs a method, which is text.")
    if not isinstance(params, dict | None):
        raise ProtocolError(Code.INVALID_PARAMS, "params must be an object.")
    return Message(method, params or {}, message_id)


# --- Revisions --------------------------------------------------------------------------------------------------------
def negotiated(requested: object) -> Revision:
    """Return the revision that answers `initialize`: the requested one, else the newest that has a handshake.

    Raises ProtocolError if no revision is requested.
    """
    if not isinstance(requested, str):
        raise ProtocolError(Code.INVALID_PARAMS, "params.protocolVersion must name a revision, such as 2025-11-25.")
    revision = REVISIONS.get(requested, NEWEST_WITH_HANDSHAKE)
    return NEWEST_WITH_HANDSHAKE if revision.is_stateless else revision


def revision_of_headers(environ: Environ) -> Revision:
    """Return the revision of the header, all that a notification or a response has. Raises ProtocolError."""
    name = environ.get("HTTP_MCP_PROTOCOL_VERSION", "")
    if name not in REVISIONS:
        data = {"supported": list(REVISIONS), "requested": name}
        message = "This revision of the protocol is not supported." if name else "Send the header MCP-Protocol-Version."
        raise ProtocolError(Code.UNSUPPORTED_VERSION, message, data)
    return REVISIONS[name]


def revision_of(message: Message, environ: Environ) -> Revision:
    """Return the revision of a request: header and `_meta` must agree, and so must the headers that repeat its body.

    Raises ProtocolError.
    """
    sent = environ.get("HTTP_MCP_PROTOCOL_VERSION", "")
    meta = message.params.get("_meta")
    declared = meta.get(VERSION_KEY) if isinstance(meta, dict) else None
    if declared is None:
        if message.method == "initialize":
            return NEWEST_WITH_HANDSHAKE
        revision = revision_of_headers(environ)
        if revision.is_stateless:
            raise ProtocolError(Code.INVALID_PARAMS, f"params._meta must contain {VERSION_KEY} and {CAPABILITIES_KEY}.")
        return revision
    if sent != declared:
        raise ProtocolError(Code.HEADER_MISMATCH, f"The header MCP-Protocol-Version must be {VERSION_KEY} of _meta.")
    revision = revision_of_headers(environ)
    if revision.is_stateless:
        _check_request(message, environ)
    return revision


def _check_request(message: Message, environ: Environ) -> None:
    """Refuse a request whose headers say something else than its body: a proxy may have decided by the headers."""
    if not isinstance(message.params["_meta"].get(CAPABILITIES_KEY), dict):
        raise ProtocolError(Code.INVALID_PARAMS, f"params._meta must contain {CAPABILITIES_KEY}, an object.")
    if environ.get("HTTP_MCP_METHOD", "").strip() != message.method:
        raise ProtocolError(Code.HEADER_MISMATCH, "The header Mcp-Method must be the method of the body.")
    if message.method == "tools/call" and _decoded(environ.get("HTTP_MCP_NAME")) != message.params.get("name"):
        raise ProtocolError(Code.HEADER_MISMATCH, "The header Mcp-Name must be params.name of the body.")


def _decoded(header: str | None) -> str | None:
    """Return a header's value, which may be =?base64?…?= of its UTF-8; None if that cannot be read."""
    prefix, suffix = _ENCODED
    if header is None or not (header.startswith(prefix) and header.endswith(suffix)):
        return header
    try:
        return base64.b64decode(header[len(prefix) : -len(suffix)], validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return None
