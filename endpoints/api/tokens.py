"""POST /api/tokens: an access token that may issue gets a short-lived token for a browser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson
from django.http import HttpRequest, HttpResponse

from endpoints.access.token_limits import admit
from endpoints.api.authentication import authenticate
from endpoints.api.bodies import read_content
from endpoints.api.replies import JSON, as_endpoint_error, error_response
from endpoints.api.views import AnsweringView
from endpoints.calling.issuing import DEFAULT_SECONDS, IssuedBrowserToken, TokenRequest, issue_browser_token
from endpoints.errors import Detail, InvalidRequest, IssueNotAllowed, MethodNotAllowed, UnsupportedMediaType

METHODS: Final = ("POST", "OPTIONS")
MEDIA_TYPE: Final = "application/json"
FIELDS: Final = ("endpoints", "arguments", "expires_in")
_EXPECTED: Final[Mapping[str, str]] = {
    "endpoints": 'must be a list of names, such as ["logs.all"]',
    "arguments": 'must be an object of texts, such as {"project": "acme"}',
    "expires_in": "must be a whole number of seconds",
}


class TokensView(AnsweringView):
    """Issue a browser token, and answer with it; it is stored nowhere."""

    def answer(self, request: HttpRequest, **of_route: str) -> HttpResponse:
        if request.method == "OPTIONS":
            return HttpResponse(status=204, headers={"Allow": ", ".join(METHODS)})
        try:
            issued = _issue(request)
        except Exception as error:  # noqa: BLE001  # whatever it was, the caller gets the one error body
            return error_response(request, as_endpoint_error(error))
        body = {"result": [{"token": issued.token, "expires_at": f"{issued.expires_at:%Y-%m-%dT%H:%M:%SZ}"}]}
        return HttpResponse(orjson.dumps(body), content_type=JSON, headers={"Cache-Control": "no-store"})


def _issue(request: HttpRequest) -> IssuedBrowserToken:
    caller = authenticate(request.META)
    admit(caller)
    if request.method != "POST":
        raise MethodNotAllowed(str(request.method), METHODS)
    if not caller.may_issue:
        raise IssueNotAllowed  # before the body is read
    if (request.content_type or "").lower() != MEDIA_TYPE:
        raise UnsupportedMediaType([MEDIA_TYPE])
    return issue_browser_token(read_token_request(read_content(request.META)), caller=caller)


def read_token_request(body: bytes) -> TokenRequest:
    """Return what the body asks for. Raises InvalidRequest that lists every field which cannot be read."""
    try:
        sent = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest("The body is not JSON.") from error
    if not isinstance(sent, dict):
        raise InvalidRequest('The body must be a JSON object, such as {"endpoints": ["logs.all"]}.')
    faults: list[Detail] = [
        {"name": name, "reason": f"is not a field; these are: {', '.join(FIELDS)}"}
        for name in sent.keys() - set(FIELDS)
    ]
    faults += [{"name": name, "reason": _EXPECTED[name]} for name in FIELDS if not _is_readable(name, sent)]
    if faults:
        raise InvalidRequest(details=sorted(faults, key=lambda fault: str(fault["name"])))
    return TokenRequest(
        endpoints=tuple(sent["endpoints"]),
        arguments=sent.get("arguments", {}),
        expires_in_seconds=sent.get("expires_in", DEFAULT_SECONDS),
    )


def _is_readable(name: str, sent: dict[str, Any]) -> bool:
    if name not in sent:
        return name != "endpoints"
    value = sent[name]
    match name:
        case "endpoints":
            return isinstance(value, list) and all(isinstance(each, str) for each in value)
        case "arguments":
            return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())
        case _:
            return type(value) is int
