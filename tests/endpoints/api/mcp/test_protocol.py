"""Messages and revisions of the Model Context Protocol, without a service."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from mcp.shared.inbound import encode_header_value
from mcp_types import jsonrpc
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS

from endpoints.access.secrets import Caller
from endpoints.api.mcp.protocol import (
    CAPABILITIES_KEY,
    REVISIONS,
    STATELESS,
    VERSION_KEY,
    Code,
    Message,
    ProtocolError,
    negotiated,
    revision_of,
)

META: dict[str, Any] = {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {}}
HEADERS = {"HTTP_MCP_PROTOCOL_VERSION": "2026-07-28", "HTTP_MCP_METHOD": "tools/list"}
CALL_HEADERS = {**HEADERS, "HTTP_MCP_METHOD": "tools/call", "HTTP_MCP_NAME": "logs.all"}


def read(document: object) -> Message:
    message = post()
    message.read(json.dumps(document).encode())
    return message


def post(headers: Mapping[str, str] | None = None, **said: Any) -> Message:
    return Message(headers or {}, Caller("caller", "0123456789ab"), "request", **said)


def request(method: str, params: dict[str, Any], headers: Mapping[str, str]) -> Message:
    return post(headers, id=1, method=method, params=params)


def code_of(refused: pytest.ExceptionInfo[ProtocolError]) -> Code:
    return refused.value.code


def test_knows_the_revisions_of_the_official_package_since_structured_content() -> None:
    assert set(REVISIONS) == set(KNOWN_PROTOCOL_VERSIONS) - {"2024-11-05", "2025-03-26"}


def test_has_the_codes_of_the_official_package() -> None:
    assert {code.name: int(code) for code in Code} == {
        "PARSE_ERROR": jsonrpc.PARSE_ERROR,
        "INVALID_REQUEST": jsonrpc.INVALID_REQUEST,
        "METHOD_NOT_FOUND": jsonrpc.METHOD_NOT_FOUND,
        "INVALID_PARAMS": jsonrpc.INVALID_PARAMS,
        "HEADER_MISMATCH": jsonrpc.HEADER_MISMATCH,
        "UNSUPPORTED_VERSION": jsonrpc.UNSUPPORTED_PROTOCOL_VERSION,
    }


# --- Messages ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("message_id", [0, -1, 2**63 - 1, "", "a", "ü"])
def test_reads_a_request(message_id: object) -> None:
    document = {"jsonrpc": "2.0", "id": message_id, "method": "ping", "params": {"x": 1}}
    assert read(document) == post(id=message_id, method="ping", params={"x": 1})


@pytest.mark.parametrize("params", [{}, {"params": {}}, {"params": None}])
def test_reads_a_notification(params: dict[str, Any]) -> None:
    message = read({"jsonrpc": "2.0", "method": "notifications/initialized", **params})
    assert message == post(id=None, method="notifications/initialized", params={})


@pytest.mark.parametrize("answer", [{"result": {}}, {"error": {"code": 1, "message": "x"}}])
def test_recognises_a_response(answer: dict[str, Any]) -> None:
    assert read({"jsonrpc": "2.0", "id": 1, **answer}) == post(id=1, method=None, params={})


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ("ping", Code.INVALID_REQUEST),
        (None, Code.INVALID_REQUEST),
        ([], Code.INVALID_REQUEST),
        ({}, Code.INVALID_REQUEST),
        ({"id": 1, "method": "ping"}, Code.INVALID_REQUEST),
        ({"jsonrpc": "1.0", "id": 1, "method": "ping"}, Code.INVALID_REQUEST),
        ({"jsonrpc": 2.0, "id": 1, "method": "ping"}, Code.INVALID_REQUEST),
        ({"jsonrpc": "2.0", "id": 1}, Code.INVALID_REQUEST),
        ({"jsonrpc": "2.0", "id": 1, "method": 1}, Code.INVALID_REQUEST),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}, Code.INVALID_PARAMS),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": "x"}, Code.INVALID_PARAMS),
    ],
)
def test_refuses_what_is_no_message(document: object, code: Code) -> None:
    with pytest.raises(ProtocolError) as refused:
        read(document)
    assert code_of(refused) is code


@pytest.mark.parametrize("message_id", [None, True, 1.5, 2**63, -(2**63) - 1, [], {}, "\ud800"])
def test_refuses_ids_that_cannot_be_sent_back(message_id: object) -> None:
    message = post()
    with pytest.raises(ProtocolError) as refused:
        message.read(json.dumps({"jsonrpc": "2.0", "id": message_id, "method": "ping"}).encode())
    assert (code_of(refused), message.id) == (Code.INVALID_REQUEST, None)


# --- Revisions --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("requested", "answered"),
    [
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),  # it has no handshake
        ("2025-03-26", "2025-11-25"),
        ("2024-11-05", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
        ("", "2025-11-25"),
    ],
)
def test_negotiates_in_the_handshake(requested: str, answered: str) -> None:
    assert negotiated(requested) == answered


@pytest.mark.parametrize("requested", [None, 20251125, ["2025-11-25"]])
def test_refuses_a_handshake_without_a_revision(requested: object) -> None:
    with pytest.raises(ProtocolError) as refused:
        negotiated(requested)
    assert code_of(refused) is Code.INVALID_PARAMS


@pytest.mark.parametrize(
    ("params", "headers", "name"),
    [
        ({}, {"HTTP_MCP_PROTOCOL_VERSION": "2025-06-18"}, "2025-06-18"),
        ({"_meta": {"progressToken": 1}}, {"HTTP_MCP_PROTOCOL_VERSION": "2025-11-25"}, "2025-11-25"),
        ({"_meta": None}, {"HTTP_MCP_PROTOCOL_VERSION": "2025-11-25"}, "2025-11-25"),
        ({"_meta": META}, HEADERS, "2026-07-28"),
        ({"_meta": {VERSION_KEY: "2025-11-25"}}, {"HTTP_MCP_PROTOCOL_VERSION": "2025-11-25"}, "2025-11-25"),
    ],
)
def test_finds_the_revision_of_a_request(params: dict[str, Any], headers: dict[str, str], name: str) -> None:
    assert revision_of(request("tools/list", params, headers)) == name


@pytest.mark.parametrize(
    ("params", "headers", "code"),
    [
        ({}, {}, Code.UNSUPPORTED_VERSION),
        ({}, {"HTTP_MCP_PROTOCOL_VERSION": ""}, Code.UNSUPPORTED_VERSION),
        ({}, {"HTTP_MCP_PROTOCOL_VERSION": "2025-03-26"}, Code.UNSUPPORTED_VERSION),
        ({}, {"HTTP_MCP_PROTOCOL_VERSION": "1900-01-01"}, Code.UNSUPPORTED_VERSION),
        ({}, {"HTTP_MCP_PROTOCOL_VERSION": "2024-11-05"}, Code.UNSUPPORTED_VERSION),
        (
            {"_meta": {**META, VERSION_KEY: "1900-01-01"}},
            {"HTTP_MCP_PROTOCOL_VERSION": "1900-01-01"},
            Code.UNSUPPORTED_VERSION,
        ),
        ({}, HEADERS, Code.INVALID_PARAMS),
        ({"_meta": {}}, HEADERS, Code.INVALID_PARAMS),
        ({"_meta": {VERSION_KEY: "2026-07-28"}}, HEADERS, Code.INVALID_PARAMS),
        ({"_meta": {**META, CAPABILITIES_KEY: []}}, HEADERS, Code.INVALID_PARAMS),
        ({"_meta": META}, {}, Code.HEADER_MISMATCH),
        ({"_meta": META}, {**HEADERS, "HTTP_MCP_PROTOCOL_VERSION": "2025-11-25"}, Code.HEADER_MISMATCH),
        ({"_meta": {**META, VERSION_KEY: "2025-11-25"}}, HEADERS, Code.HEADER_MISMATCH),
        ({"_meta": {**META, VERSION_KEY: 20260728}}, HEADERS, Code.HEADER_MISMATCH),
        ({"_meta": META}, {"HTTP_MCP_PROTOCOL_VERSION": "2026-07-28"}, Code.HEADER_MISMATCH),
        ({"_meta": META}, {**HEADERS, "HTTP_MCP_METHOD": "tools/call"}, Code.HEADER_MISMATCH),
        ({"_meta": META}, {**HEADERS, "HTTP_MCP_METHOD": "TOOLS/LIST"}, Code.HEADER_MISMATCH),
    ],
)
def test_refuses_revisions_and_headers_that_do_not_fit(
    params: dict[str, Any], headers: dict[str, str], code: Code
) -> None:
    with pytest.raises(ProtocolError) as refused:
        revision_of(request("tools/list", params, headers))
    assert code_of(refused) is code


def test_lists_the_supported_revisions() -> None:
    with pytest.raises(ProtocolError) as refused:
        revision_of(post({"HTTP_MCP_PROTOCOL_VERSION": "1900-01-01"}, method="notifications/initialized"))
    assert refused.value.document["data"] == {"supported": REVISIONS, "requested": "1900-01-01"}


@pytest.mark.parametrize("name", ["logs.all", "größe", " padded ", "=?base64?x?="])
def test_reads_a_name_as_the_official_client_encodes_it(name: str) -> None:
    headers = {**CALL_HEADERS, "HTTP_MCP_NAME": encode_header_value(name)}
    assert revision_of(request("tools/call", {"_meta": META, "name": name}, headers)) == STATELESS


@pytest.mark.parametrize(
    "header", [None, "", "logs", "LOGS.ALL", "=?base64?bG9ncw==?=", "=?base64?***?=", "=?base64?/w==?="]
)
def test_refuses_a_name_that_is_not_that_of_the_body(header: str | None) -> None:
    headers = {name: value for name, value in {**CALL_HEADERS, "HTTP_MCP_NAME": header}.items() if value is not None}
    with pytest.raises(ProtocolError) as refused:
        revision_of(request("tools/call", {"_meta": META, "name": "logs.all"}, headers))
    assert code_of(refused) is Code.HEADER_MISMATCH


@pytest.mark.parametrize("code", list(Code))
def test_every_code_has_a_status(code: Code) -> None:
    assert ProtocolError(code, "no").status == (404 if code is Code.METHOD_NOT_FOUND else 400)
