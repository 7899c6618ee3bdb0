"""Every failure a caller can see: one class per row of the error table, one JSON body for all.

``message`` and ``details`` are for the caller; the cause belongs in the log, chained with ``raise … from``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any, ClassVar, Final

Detail = Mapping[str, object]


class EndpointError(Exception):
    """A failure with an HTTP status, a stable code, a message and a list of details for the caller.

    `reason` is for operators and the log, if it is known; no answer has it. Copies are equal, but for the traceback.
    """

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal_error"
    default_message: ClassVar[str] = "The service failed to answer. Quote the request id when you report this."
    retry_after_seconds: ClassVar[int | None] = None  # for Retry-After, where the raiser does not know better

    _by_name: ClassVar[dict[str, type[EndpointError]]] = {}

    def __init_subclass__(cls, *, status: int = 0, code: str = "") -> None:
        """A class has its status and code in its head; one that is only for `except` has those of its base."""
        super().__init_subclass__()
        EndpointError._by_name[cls.__name__] = cls
        if code:
            cls.status, cls.code = status, code

    def __init__(
        self,
        message: str = "",
        *,
        details: Sequence[Detail] = (),
        headers: Mapping[str, str] | None = None,
        retry_after_seconds: int | None = None,
        reason: str = "",
    ) -> None:
        self.message = message or self.default_message
        self.details = tuple(details)
        seconds = self.retry_after_seconds if retry_after_seconds is None else retry_after_seconds
        self.headers = {} if seconds is None else {"Retry-After": str(seconds)}
        self.headers.update(headers or {})
        self.reason = reason
        super().__init__(reason or self.message)

    def as_fields(self) -> dict[str, Any]:
        """Return what `from_fields` makes an equal error of, in any process: all but the cause and the traceback.

        Whoever waited for the same work raises one of its own: an exception that is raised in several threads would
        collect all their tracebacks.
        """
        return {
            "class": type(self).__name__,
            "message": self.message,
            "details": [dict(detail) for detail in self.details],
            "headers": self.headers,
            "reason": self.reason,
        }

    @staticmethod
    def from_fields(fields: Mapping[str, Any]) -> EndpointError:
        """Return the error with these fields. Raises ValueError if they are no error's."""
        try:
            error_class = EndpointError._by_name[fields["class"]]
            words = {name: fields[name] for name in ("message", "details", "headers", "reason")}
            # Not through its own __init__, which may take what it words a message from: that is worded already.
            error = error_class.__new__(error_class)
            EndpointError.__init__(error, **words)
        except (KeyError, TypeError) as fault:
            raise ValueError("no error of ours") from fault
        return error

    def __reduce__(self) -> tuple[Any, ...]:
        """Have `copy` make another one of the fields too."""
        return EndpointError.from_fields, (self.as_fields(),)

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


class InvalidRequest(EndpointError, status=400, code="invalid_request"):
    default_message = "The request could not be read."


class InvalidParameters(EndpointError, status=400, code="invalid_parameters"):
    default_message = "Some arguments are missing or not valid; each is listed in details."


class SandboxDisabled(EndpointError, status=400, code="sandbox_disabled"):
    default_message = "This endpoint does not accept `sql` or `lql`."


class AmbiguousSandboxQuery(EndpointError, status=400, code="ambiguous_sandbox_query"):
    default_message = "Send either `sql` or `lql`, not both."


class SandboxViolation(EndpointError, status=400, code="sandbox_violation"):
    default_message = "The query uses something that sandbox queries may not use."


class InvalidSQL(EndpointError, status=400, code="invalid_sql"):
    default_message = "The sandbox query does not run."


class InvalidLQL(EndpointError, status=400, code="invalid_lql"):
    default_message = "The LQL query cannot be read."


class InvalidPageToken(EndpointError, status=400, code="invalid_page_token"):
    """One message for every reason: what a page token contains, and whose it is, is the service's own."""

    default_message = (
        "The page token does not continue this call. Send it as the page before returned it, with the same arguments, "
        "format and redaction; after a change of the endpoint or the access token, begin again without it."
    )

    def __init__(self) -> None:
        super().__init__(details=[{"name": "page_token", "reason": "is not of a page of this call"}])


class InvalidRows(EndpointError, status=400, code="invalid_rows"):
    """Rows of a load that cannot be stored; `details` has the index and the reason of each listed one."""


class ResultTooLarge(EndpointError, status=400, code="result_too_large"):
    """A stored query's result is over its budget; of a sandbox query that is an InvalidSQL or InvalidLQL."""


class QueryTooCostly(EndpointError, status=400, code="query_too_costly"):
    """A sandbox query needed more memory or disk space than PostgreSQL gives it."""


class PagesNotAvailable(EndpointError, status=400, code="pages_not_available"):
    """The endpoint declares no order of pages, or the call is one of a sandbox query, which has none."""

    default_message = (
        "This endpoint has no pages, because it declares no order of its rows: leave out `page_size` and `page_token`."
    )


class NotAuthenticated(EndpointError, status=401, code="not_authenticated"):
    """One message for every reason, so that an answer never tells which access tokens exist."""

    default_message = "Send a valid access token in the X-API-KEY header."

    def __init__(self) -> None:
        super().__init__(headers={"WWW-Authenticate": 'Bearer realm="log query endpoints"'})


class ArgumentNotAllowed(EndpointError, status=403, code="argument_not_allowed"):
    """The access token is bound to another value of this parameter; names the parameter, never the value."""

    def __init__(self, parameter_name: str) -> None:
        super().__init__(
            f"This access token may not use this value of `{parameter_name}`.",
            details=[{"name": parameter_name, "reason": "the access token is bound to another value"}],
        )


class PurgeNotAllowed(EndpointError, status=403, code="purge_not_allowed"):
    default_message = "This access token may not remove cached results."


class LoadNotAllowed(EndpointError, status=403, code="load_not_allowed"):
    default_message = "This access token may not load rows."


class OriginNotAllowed(EndpointError, status=403, code="origin_not_allowed"):
    """A page of another origin sent the request, which the setting CORS_ALLOWED_ORIGINS does not list."""

    default_message = "Pages of this origin may not call this service; its operator may add it to CORS_ALLOWED_ORIGINS."


class IssueNotAllowed(EndpointError, status=403, code="issue_not_allowed"):
    default_message = "This access token may not issue browser tokens."


class HTTPSRequired(EndpointError, status=403, code="https_required"):
    """An access token came over plain HTTP, where the service demands HTTPS: a redirect would hide that."""

    default_message = (
        "This service takes access tokens over HTTPS alone. This one was sent in the clear: consider it exposed, "
        "revoke it, and send a new one to the address with https://."
    )


class EndpointNotFound(EndpointError, status=404, code="endpoint_not_found"):
    default_message = "There is no such endpoint, or this access token may not call it."


class LogSourceNotFound(EndpointError, status=404, code="log_source_not_found"):
    default_message = "There is no log source with this name."


class CallNotFound(EndpointError, status=404, code="call_not_found"):
    default_message = "No call with this request id runs with this access token."


class RouteNotFound(EndpointError, status=404, code="not_found"):
    default_message = "There is nothing at this address."


class MethodNotAllowed(EndpointError, status=405, code="method_not_allowed"):
    def __init__(self, method: str, allowed: Sequence[str]) -> None:
        allow = ", ".join(allowed)
        super().__init__(f"{method} is not allowed here; use {allow}.", headers={"Allow": allow})


class NotAcceptable(EndpointError, status=406, code="not_acceptable"):
    def __init__(self, available: Sequence[str], missing: Sequence[str] = ()) -> None:
        lacks = " It lacks the extra [arrow], which writes {}.".format(" and ".join(missing)) if missing else ""
        super().__init__(
            f"The Accept header allows none of the formats this service writes.{lacks}",
            details=[{"media_type": media_type} for media_type in available],
        )


class RequestTimeout(EndpointError, status=408, code="request_timeout"):
    """The body came too slowly, or not at all; the connection is closed."""

    def __init__(self, body_seconds: float) -> None:
        super().__init__(
            f"The body arrived too slowly: send it without pauses, within {body_seconds:g} s.",
            headers={"Connection": "close"},
        )


class CallEnded(EndpointError):
    """Nobody wants the result of the call any more; it says nothing about the query, nor to those who wait for it."""


class CallCancelled(CallEnded, status=409, code="cancelled"):
    default_message = "The call was cancelled with the access token that made it."


class ClientLeft(CallEnded, status=499, code="client_left"):
    """The client closed the connection, so nobody reads this; it stands in the log, with the status that nginx uses."""

    default_message = "The client closed the connection before it had its answer."


class RequestTooLarge(EndpointError, status=413, code="request_too_large"):
    default_message = "The request is larger than this service accepts."


class UnsupportedMediaType(EndpointError, status=415, code="unsupported_media_type"):
    def __init__(self, accepted: Sequence[str]) -> None:
        super().__init__(
            f"This service does not read the body's content type; send {' or '.join(accepted)}.",
            details=[{"media_type": media_type} for media_type in accepted],
        )


class UnsupportedEncoding(EndpointError, status=415, code="unsupported_content_encoding"):
    """RFC 9110 section 12.5.3: the answer says which content encodings are read."""

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
    counted: ClassVar[str] = ""  # what the limit is a number of, if it is one of what runs at the same time
    retry_after_seconds: ClassVar[int] = 1

    def __init__(
        self,
        value: float,
        message: str = "",
        *,
        retry_after_seconds: int | None = None,
        window_seconds: int = 0,
        policy: str = "",
    ) -> None:
        message = message or f"This access token may have {value} {self.counted} running at the same time."
        seconds = self.retry_after_seconds if retry_after_seconds is None else retry_after_seconds
        window: Detail = {"window_seconds": window_seconds} if window_seconds else {}
        figures: Detail = {"limit": self.limit, "value": value, "remaining": 0, **window}
        parameters = policy or f'q={value:.0f};qu="concurrent-requests"'
        super().__init__(
            f"{message} Try again in {seconds} s.",
            details=[{**figures, "retry_after_seconds": seconds}],
            headers={
                "RateLimit-Policy": f'"{self.limit}";{parameters}',
                "RateLimit": f'"{self.limit}";r=0;t={seconds}',
            },
            retry_after_seconds=seconds,
        )


_LIMITS_OF_CALLS: Final = {1: "calls_a_second", 60: "calls_a_minute", 3600: "calls_an_hour", 86_400: "calls_a_day"}


class RateLimited(LimitReached, status=429, code="rate_limited"):
    def __init__(self, *, calls: int, window_seconds: int, retry_after_seconds: int) -> None:
        self.limit = _LIMITS_OF_CALLS[window_seconds]
        words = self.limit.replace("_", " ")
        super().__init__(
            calls,
            f"This access token may make {calls} {words}.",
            retry_after_seconds=retry_after_seconds,
            window_seconds=window_seconds,
            policy=f"q={calls};w={window_seconds}",
        )


class TooManyCalls(LimitReached, status=429, code="too_many_calls"):
    limit = "calls_at_once"
    counted = "uncached calls"


class TooManySandboxQueries(LimitReached, status=429, code="too_many_sandbox_queries"):
    limit = "sandbox_queries_at_once"
    counted = "sandbox queries"


class TooManyStreams(LimitReached, status=429, code="too_many_streams"):
    limit = "streams_at_once"
    counted = "streams"
    retry_after_seconds = 5


class SandboxSuspended(LimitReached, status=429, code="sandbox_suspended"):
    """A sandbox query of this access token overran a moment ago: the statement timeout, its memory or disk space."""

    limit = "overrun_seconds"

    def __init__(self, value: float, *, retry_after_seconds: int) -> None:
        message = (
            "A sandbox query of this access token ran longer than the endpoint allows, or needed more memory or disk "
            f"space than there is, so its sandbox queries are refused for {value:g} s."
        )
        # For so long it may have none.
        policy = f"q=0;w={ceil(value)}"
        super().__init__(value, message, retry_after_seconds=retry_after_seconds, policy=policy)


class HeaderTooLarge(EndpointError, status=431, code="header_too_large"):
    def __init__(self, name: str, max_bytes: int) -> None:
        super().__init__(f"The header {name} has more than {max_bytes} bytes.", headers={"Connection": "close"})


class StoredQueryFailed(EndpointError, status=500, code="stored_query_failed"):
    """The operator's SQL failed: no detail for the caller, all of it in the log under the request id."""

    default_message = "The stored query failed. Its operator finds the cause in the log under this request id."


class InternalError(EndpointError):
    pass


class DatabaseUnavailable(EndpointError, status=503, code="database_unavailable"):
    default_message = "The database cannot be reached at the moment."
    retry_after_seconds = 5


class Overloaded(EndpointError, status=503, code="overloaded"):
    default_message = "Every database connection is busy."
    retry_after_seconds = 1


class CacheNotReachable(EndpointError, status=503, code="cache_unavailable"):
    """Only for purging and cancelling: a call itself goes on without the cache."""

    default_message = "Redis does not answer, so cached results may still be there."
    retry_after_seconds = 5


class QueryTimeout(EndpointError, status=504, code="query_timeout"):
    def __init__(self, timeout_seconds: float) -> None:
        super().__init__(f"The query ran longer than {timeout_seconds:g} s and was cancelled.")
