"""Every failure a caller can see: one class per row of the error table, one JSON body for all.

::

    EndpointError
    ├── InvalidRequest            400 invalid_request
    ├── InvalidParameters         400 invalid_parameters
    ├── SandboxDisabled           400 sandbox_disabled
    ├── AmbiguousSandboxQuery     400 ambiguous_sandbox_query
    ├── SandboxViolation          400 sandbox_violation
    ├── InvalidSQL                400 invalid_sql
    ├── InvalidLQL                400 invalid_lql
    ├── InvalidRows               400 invalid_rows
    ├── ResultTooLarge            400 result_too_large
    ├── QueryTooCostly            400 query_too_costly
    ├── PagesNotAvailable         400 pages_not_available
    ├── InvalidPageToken          400 invalid_page_token
    ├── NotAuthenticated          401 not_authenticated
    ├── ArgumentNotAllowed        403 argument_not_allowed
    ├── PurgeNotAllowed           403 purge_not_allowed
    ├── LoadNotAllowed            403 load_not_allowed
    ├── OriginNotAllowed          403 origin_not_allowed
    ├── IssueNotAllowed           403 issue_not_allowed
    ├── HTTPSRequired             403 https_required
    ├── EndpointNotFound          404 endpoint_not_found
    ├── LogSourceNotFound         404 log_source_not_found
    ├── CallNotFound              404 call_not_found
    ├── RouteNotFound             404 not_found
    ├── MethodNotAllowed          405 method_not_allowed
    ├── NotAcceptable             406 not_acceptable
    ├── RequestTimeout            408 request_timeout
    ├── CallEnded
    │   ├── CallCancelled         409 cancelled
    │   └── ClientLeft            499 client_left
    ├── RequestTooLarge           413 request_too_large
    ├── UnsupportedMediaType      415 unsupported_media_type
    ├── UnsupportedEncoding       415 unsupported_content_encoding
    ├── LimitReached
    │   ├── RateLimited           429 rate_limited
    │   ├── TooManyCalls          429 too_many_calls
    │   ├── TooManySandboxQueries 429 too_many_sandbox_queries
    │   ├── TooManyStreams        429 too_many_streams
    │   └── SandboxSuspended      429 sandbox_suspended
    ├── HeaderTooLarge            431 header_too_large
    ├── StoredQueryFailed         500 stored_query_failed
    ├── InternalError             500 internal_error
    ├── DatabaseUnavailable       503 database_unavailable
    ├── Overloaded                503 overloaded
    ├── CacheNotReachable         503 cache_unavailable
    └── QueryTimeout              504 query_timeout

``message`` and ``details`` are for the caller; the cause belongs in the log, chained with ``raise … from``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import ClassVar, Final

Detail = Mapping[str, object]


class EndpointError(Exception):
    """A failure with an HTTP status, a stable code, a message and a list of details for the caller."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal_error"
    default_message: ClassVar[str] = "The service failed to answer. Quote the request id when you report this."

    def __init__(
        self,
        message: str = "",
        *,
        details: Sequence[Detail] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.message = message or self.default_message
        self.details = tuple(details)
        self.headers = dict(headers or {})
        super().__init__(self.message)

    def body(self, request_id: str) -> dict[str, object]:
        """Return the one error body of the service (service.md section 3)."""
        return {
            "error": {
                "code": self.code,
                "message": self.message,
                "details": [dict(detail) for detail in self.details],
                "request_id": request_id,
            }
        }


class InvalidRequest(EndpointError):
    status = 400
    code = "invalid_request"
    default_message = "The request could not be read."


class InvalidParameters(EndpointError):
    status = 400
    code = "invalid_parameters"
    default_message = "Some arguments are missing or not valid; each is listed in details."


class SandboxDisabled(EndpointError):
    status = 400
    code = "sandbox_disabled"
    default_message = "This endpoint does not accept `sql` or `lql`."


class AmbiguousSandboxQuery(EndpointError):
    status = 400
    code = "ambiguous_sandbox_query"
    default_message = "Send either `sql` or `lql`, not both."


class SandboxViolation(EndpointError):
    status = 400
    code = "sandbox_violation"
    default_message = "The query uses something that sandbox queries may not use."


class InvalidSQL(EndpointError):
    status = 400
    code = "invalid_sql"
    default_message = "The sandbox query does not run."


class InvalidLQL(EndpointError):
    status = 400
    code = "invalid_lql"
    default_message = "The LQL query cannot be read."


class InvalidPageToken(EndpointError):
    """One message for every reason: what a page token contains, and whose it is, is the service's own."""

    status = 400
    code = "invalid_page_token"
    default_message = (
        "The page token does not continue this call. Send it as the page before returned it, with the same arguments, "
        "format and redaction; after a change of the endpoint or the access token, begin again without it."
    )

    def __init__(self) -> None:
        super().__init__(details=[{"name": "page_token", "reason": "is not of a page of this call"}])


class InvalidRows(EndpointError):
    """Rows of a load that cannot be stored; `details` has the index and the reason of each listed one."""

    status = 400
    code = "invalid_rows"


class ResultTooLarge(EndpointError):
    """A stored query's result is over its budget; of a sandbox query that is an InvalidSQL or InvalidLQL."""

    status = 400
    code = "result_too_large"


class QueryTooCostly(EndpointError):
    """A sandbox query needed more memory or disk space than PostgreSQL gives it."""

    status = 400
    code = "query_too_costly"


class PagesNotAvailable(EndpointError):
    """The endpoint declares no order of pages, or the call is one of a sandbox query, which has none."""

    status = 400
    code = "pages_not_available"
    default_message = (
        "This endpoint has no pages, because it declares no order of its rows: leave out `page_size` and `page_token`."
    )


class NotAuthenticated(EndpointError):
    """One message for every reason, so that an answer never tells which access tokens exist."""

    status = 401
    code = "not_authenticated"
    default_message = "Send a valid access token in the X-API-KEY header."

    def __init__(self) -> None:
        super().__init__(headers={"WWW-Authenticate": 'Bearer realm="log query endpoints"'})


class ArgumentNotAllowed(EndpointError):
    """The access token is bound to another value of this parameter; names the parameter, never the value."""

    status = 403
    code = "argument_not_allowed"

    def __init__(self, parameter_name: str) -> None:
        super().__init__(
            f"This access token may not use this value of `{parameter_name}`.",
            details=[{"name": parameter_name, "reason": "the access token is bound to another value"}],
        )


class PurgeNotAllowed(EndpointError):
    status = 403
    code = "purge_not_allowed"
    default_message = "This access token may not remove cached results."


class LoadNotAllowed(EndpointError):
    status = 403
    code = "load_not_allowed"
    default_message = "This access token may not load rows."


class OriginNotAllowed(EndpointError):
    """A page of another origin sent the request, which the setting CORS_ALLOWED_ORIGINS does not list."""

    status = 403
    code = "origin_not_allowed"
    default_message = "Pages of this origin may not call this service; its operator may add it to CORS_ALLOWED_ORIGINS."


class IssueNotAllowed(EndpointError):
    status = 403
    code = "issue_not_allowed"
    default_message = "This access token may not issue browser tokens."


class HTTPSRequired(EndpointError):
    """An access token came over plain HTTP, where the service demands HTTPS: a redirect would hide that."""

    status = 403
    code = "https_required"
    default_message = (
        "This service takes access tokens over HTTPS alone. This one was sent in the clear: consider it exposed, "
        "revoke it, and send a new one to the address with https://."
    )


class EndpointNotFound(EndpointError):
    status = 404
    code = "endpoint_not_found"
    default_message = "There is no such endpoint, or this access token may not call it."


class LogSourceNotFound(EndpointError):
    status = 404
    code = "log_source_not_found"
    default_message = "There is no log source with this name."


class CallNotFound(EndpointError):
    status = 404
    code = "call_not_found"
    default_message = "No call with this request id runs with this access token."


class RouteNotFound(EndpointError):
    status = 404
    code = "not_found"
    default_message = "There is nothing at this address."


class MethodNotAllowed(EndpointError):
    status = 405
    code = "method_not_allowed"

    def __init__(self, method: str, allowed: Sequence[str]) -> None:
        allow = ", ".join(allowed)
        super().__init__(f"{method} is not allowed here; use {allow}.", headers={"Allow": allow})


class NotAcceptable(EndpointError):
    status = 406
    code = "not_acceptable"

    def __init__(self, available: Sequence[str], missing: Sequence[str] = ()) -> None:
        lacks = " It lacks the extra [arrow], which writes {}.".format(" and ".join(missing)) if missing else ""
        super().__init__(
            f"The Accept header allows none of the formats this service writes.{lacks}",
            details=[{"media_type": media_type} for media_type in available],
        )


class RequestTimeout(EndpointError):
    """The body came too slowly, or not at all; the connection is closed."""

    status = 408
    code = "request_timeout"

    def __init__(self, body_seconds: float) -> None:
        super().__init__(
            f"The body arrived too slowly: send it without pauses, within {body_seconds:g} s.",
            headers={"Connection": "close"},
        )


class CallEnded(EndpointError):
    """Nobody wants the result of the call any more; it says nothing about the query, nor to those who wait for it."""


class CallCancelled(CallEnded):
    status = 409
    code = "cancelled"
    default_message = "The call was cancelled with the access token that made it."


class ClientLeft(CallEnded):
    """The client closed the connection, so nobody reads this; it stands in the log, with the status that nginx uses."""

    status = 499
    code = "client_left"
    default_message = "The client closed the connection before it had its answer."


class RequestTooLarge(EndpointError):
    status = 413
    code = "request_too_large"
    default_message = "The request is larger than this service accepts."


class UnsupportedMediaType(EndpointError):
    status = 415
    code = "unsupported_media_type"

    def __init__(self, accepted: Sequence[str]) -> None:
        super().__init__(
            f"This service does not read the body's content type; send {' or '.join(accepted)}.",
            details=[{"media_type": media_type} for media_type in accepted],
        )


class UnsupportedEncoding(EndpointError):
    """RFC 9110 section 12.5.3: the answer says which content encodings are read."""

    status = 415
    code = "unsupported_content_encoding"

    def __init__(self, accepted: Sequence[str]) -> None:
        super().__init__(
            f"This service does not read the body's content encoding; send {' or '.join(accepted)}, or none.",
            headers={"Accept-Encoding": ", ".join(accepted)},
        )


class LimitReached(EndpointError):
    """A limit of the caller's access token: it says nothing about what was asked for, nor about other callers.

    The answer names the limit, its value, what is left of it, its window, and when to try again; in headers too
    (draft-ietf-httpapi-ratelimit-headers-09). `policy` has the parameters of RateLimit-Policy: without it the limit is
    one of what runs at the same time, which has no window.
    """

    limit: str = ""  # as the admin and `details` call it

    def __init__(
        self, message: str, *, value: float, retry_after_seconds: int, window_seconds: int = 0, policy: str = ""
    ) -> None:
        window: Detail = {"window_seconds": window_seconds} if window_seconds else {}
        figures: Detail = {"limit": self.limit, "value": value, "remaining": 0, **window}
        parameters = policy or f'q={value:.0f};qu="concurrent-requests"'
        super().__init__(
            f"{message} Try again in {retry_after_seconds} s.",
            details=[{**figures, "retry_after_seconds": retry_after_seconds}],
            headers={
                "Retry-After": str(retry_after_seconds),
                "RateLimit-Policy": f'"{self.limit}";{parameters}',
                "RateLimit": f'"{self.limit}";r=0;t={retry_after_seconds}',
            },
        )


_LIMITS_OF_CALLS: Final = {1: "calls_a_second", 60: "calls_a_minute", 3600: "calls_an_hour", 86_400: "calls_a_day"}


class RateLimited(LimitReached):
    status = 429
    code = "rate_limited"

    def __init__(self, *, calls: int, window_seconds: int, retry_after_seconds: int) -> None:
        self.limit = _LIMITS_OF_CALLS[window_seconds]
        words = self.limit.replace("_", " ")
        message = f"This access token may make {calls} {words}."
        super().__init__(
            message,
            value=calls,
            retry_after_seconds=retry_after_seconds,
            window_seconds=window_seconds,
            policy=f"q={calls};w={window_seconds}",
        )


class TooManyCalls(LimitReached):
    status = 429
    code = "too_many_calls"
    limit = "calls_at_once"

    def __init__(self, value: int, *, retry_after_seconds: int = 1) -> None:
        message = f"This access token may have {value} uncached calls running at the same time."
        super().__init__(message, value=value, retry_after_seconds=retry_after_seconds)


class TooManySandboxQueries(LimitReached):
    status = 429
    code = "too_many_sandbox_queries"
    limit = "sandbox_queries_at_once"

    def __init__(self, value: int, *, retry_after_seconds: int = 1) -> None:
        message = f"This access token may have {value} sandbox queries running at the same time."
        super().__init__(message, value=value, retry_after_seconds=retry_after_seconds)


class TooManyStreams(LimitReached):
    status = 429
    code = "too_many_streams"
    limit = "streams_at_once"

    def __init__(self, value: int, *, retry_after_seconds: int = 5) -> None:
        message = f"This access token may have {value} streams running at the same time."
        super().__init__(message, value=value, retry_after_seconds=retry_after_seconds)


class SandboxSuspended(LimitReached):
    """A sandbox query of this access token overran a moment ago: the statement timeout, its memory or disk space."""

    status = 429
    code = "sandbox_suspended"
    limit = "overrun_seconds"

    def __init__(self, value: float, *, retry_after_seconds: int) -> None:
        message = (
            "A sandbox query of this access token ran longer than the endpoint allows, or needed more memory or disk "
            f"space than there is, so its sandbox queries are refused for {value:g} s."
        )
        # For so long it may have none.
        policy = f"q=0;w={ceil(value)}"
        super().__init__(message, value=value, retry_after_seconds=retry_after_seconds, policy=policy)


class HeaderTooLarge(EndpointError):
    status = 431
    code = "header_too_large"

    def __init__(self, name: str, max_bytes: int) -> None:
        super().__init__(f"The header {name} has more than {max_bytes} bytes.", headers={"Connection": "close"})


class StoredQueryFailed(EndpointError):
    """The operator's SQL failed: no detail for the caller, all of it in the log under the request id."""

    status = 500
    code = "stored_query_failed"
    default_message = "The stored query failed. Its operator finds the cause in the log under this request id."


class InternalError(EndpointError):
    pass


class DatabaseUnavailable(EndpointError):
    status = 503
    code = "database_unavailable"

    def __init__(self, retry_after_seconds: int = 5, *, reason: str = "") -> None:
        super().__init__(
            "The database cannot be reached at the moment.",
            headers={"Retry-After": str(retry_after_seconds)},
        )
        self.reason = reason  # for operators, if it is known, and for the log
        self.args = (reason or self.message,)


class Overloaded(EndpointError):
    status = 503
    code = "overloaded"
    default_message = "Every database connection is busy."

    def __init__(self, retry_after_seconds: int = 1, *, message: str = "") -> None:
        super().__init__(
            message,
            headers={"Retry-After": str(retry_after_seconds)},
        )


class CacheNotReachable(EndpointError):
    """Only for purging and cancelling: a call itself goes on without the cache."""

    status = 503
    code = "cache_unavailable"

    def __init__(self, retry_after_seconds: int = 5, *, message: str = "") -> None:
        super().__init__(
            message or "Redis does not answer, so cached results may still be there.",
            headers={"Retry-After": str(retry_after_seconds)},
        )


class QueryTimeout(EndpointError):
    status = 504
    code = "query_timeout"

    def __init__(self, timeout_seconds: float) -> None:
        super().__init__(f"The query ran longer than {timeout_seconds:g} s and was cancelled.")
