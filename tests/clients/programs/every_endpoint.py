"""Calls every endpoint that ships, with a client that openapi-python-client has made of the service's own document.

docs/clients.md shows lines of it. Called as `python every_endpoint.py <address of the service> <access token>`.
"""

from __future__ import annotations

import datetime
import sys

from logs_client import AuthenticatedClient
from logs_client.api.cache import purge_usage_api_counts
from logs_client.api.calls import cancel_call
from logs_client.api.endpoints import get_logs_all, get_usage_api_counts, post_logs_all, post_usage_api_counts
from logs_client.api.sandbox import sandbox_get_logs_all, sandbox_post_logs_all, sandbox_post_usage_api_counts
from logs_client.api.tokens import issue_browser_token
from logs_client.models import (
    BrowserTokenRequest,
    BrowserTokenRequestArguments,
    BrowserTokenResult,
    Error,
    ErrorCode,
    IntervalOfUsageApiCounts,
    LogsAllArguments,
    LogsAllForm,
    LogsAllQuery,
    LogsAllRow,
    LogsAllRows,
    PurgedResult,
    SandboxRows,
    UsageApiCountsArguments,
    UsageApiCountsQuery,
    UsageApiCountsRows,
)
from logs_client.types import UNSET, Unset


def main(address: str, access_token: str) -> None:
    with AuthenticatedClient(base_url=address, token=access_token) as client:
        read_rows(client)
        read_pages(client)
        count_requests(client)
        send_sandbox_queries(client)
        begin_tail(client)
        read_errors(client)
        issue_token(client, address)
        removed = purge_usage_api_counts.sync(client=client)
        assert isinstance(removed, PurgedResult)
        assert removed.result[0].endpoint == "usage.api-counts"


def read_rows(client: AuthenticatedClient) -> None:
    since = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=7)
    answer = get_logs_all.sync(client=client, project="acme", iso_timestamp_start=since)
    assert isinstance(answer, LogsAllRows), answer
    for row in answer.result:
        moment: datetime.datetime | None = row.timestamp
        message: str | None = row.event_message
        assert moment is not None
        assert message is not None
        assert moment > since
    assert answer.result
    for body in (LogsAllArguments(project="acme"), LogsAllForm(project="acme")):
        posted = post_logs_all.sync(client=client, body=body)
        assert isinstance(posted, LogsAllRows), posted
        assert len(posted.result) == len(answer.result)
    known = get_logs_all.sync_detailed(client=client, project="acme")
    again = get_logs_all.sync_detailed(client=client, project="acme", if_none_match=known.headers["ETag"])
    assert (known.status_code, again.status_code) == (200, 304)


def read_pages(client: AuthenticatedClient) -> None:
    rows: list[LogsAllRow] = []
    page_token: str | Unset = UNSET
    while True:
        page = get_logs_all.sync(client=client, project="acme", page_size=7, page_token=page_token)
        assert isinstance(page, LogsAllRows), page
        rows += page.result
        if not page.next_:
            break
        page_token = page.next_
    counted = sandbox_get_logs_all.sync(client=client, project="acme", sql="select count(*) as n from edge_logs")
    assert isinstance(counted, SandboxRows), counted
    assert len({row.id for row in rows}) == len(rows) == counted.result[0]["n"]
    assert len(rows) > 7
    first = post_logs_all.sync(client=client, body=LogsAllArguments(project="acme", page_size=7))
    assert isinstance(first, LogsAllRows), first
    assert first.result == rows[:7]
    assert first.next_


def count_requests(client: AuthenticatedClient) -> None:
    daily = IntervalOfUsageApiCounts.DAILY
    answer = get_usage_api_counts.sync(client=client, interval=daily, project="acme", svc_endpoint_redact_pii=True)
    assert isinstance(answer, UsageApiCountsRows), answer
    total: int = sum(row.total_rest_requests or 0 for row in answer.result)
    assert total >= 0
    body = UsageApiCountsArguments(interval=daily, project="acme")
    posted = post_usage_api_counts.sync(client=client, body=body)
    assert isinstance(posted, UsageApiCountsRows), posted
    assert len(posted.result) == len(answer.result)


def send_sandbox_queries(client: AuthenticatedClient) -> None:
    sql = "select count(*) as n from edge_logs"
    counted = sandbox_get_logs_all.sync(client=client, project="acme", sql=sql)
    posted = sandbox_post_logs_all.sync(client=client, body=LogsAllQuery(project="acme", lql="c:count(*)"))
    assert isinstance(counted, SandboxRows), counted
    assert isinstance(posted, SandboxRows), posted
    number: object = counted.result[0]["n"]
    assert isinstance(number, int)
    query = UsageApiCountsQuery(
        interval=IntervalOfUsageApiCounts.HOURLY, project="acme", sql="select count(*) as buckets from dates"
    )
    buckets = sandbox_post_usage_api_counts.sync(client=client, body=query)
    assert isinstance(buckets, SandboxRows), buckets


def begin_tail(client: AuthenticatedClient) -> None:
    body = LogsAllQuery(project="acme", lql="s:event_message", tail=True)
    page = sandbox_post_logs_all.sync(client=client, body=body)
    assert isinstance(page, SandboxRows), page
    assert page.result
    page_token: str | Unset = page.next_
    assert page_token


def read_errors(client: AuthenticatedClient) -> None:
    refused = sandbox_get_logs_all.sync(client=client, project="acme", sql="select * from pg_class")
    assert isinstance(refused, Error), refused
    assert refused.error.code is ErrorCode.SANDBOX_VIOLATION
    line = refused.error.details[0].line
    assert isinstance(line, int)
    assert line == 1
    stranger = AuthenticatedClient(base_url=str(client.get_httpx_client().base_url), token="lqe_0")
    unknown = get_logs_all.sync(client=stranger, project="acme")
    assert isinstance(unknown, Error), unknown
    assert unknown.error.code is ErrorCode.NOT_AUTHENTICATED
    over = cancel_call.sync(client=client, request_id="report-7")
    assert isinstance(over, Error), over
    assert over.error.code is ErrorCode.CALL_NOT_FOUND
    named = get_logs_all.sync_detailed(client=client, project="acme", x_request_id="report-7")
    assert named.headers["X-Request-ID"] == "report-7"


def issue_token(client: AuthenticatedClient, address: str) -> None:
    arguments = BrowserTokenRequestArguments.from_dict({"project": "acme"})
    wanted = BrowserTokenRequest(endpoints=["logs.all"], arguments=arguments, expires_in=60)
    issued = issue_browser_token.sync(client=client, body=wanted)
    assert isinstance(issued, BrowserTokenResult), issued
    assert issued.result[0].expires_at > datetime.datetime.now(datetime.UTC)
    page = AuthenticatedClient(base_url=address, token=issued.result[0].token)
    allowed = get_logs_all.sync(client=page, project="acme")
    assert isinstance(allowed, LogsAllRows), allowed
    refused = get_logs_all.sync(client=page, project="shop")
    assert isinstance(refused, Error), refused
    assert refused.error.code is ErrorCode.ARGUMENT_NOT_ALLOWED


if __name__ == "__main__":
    main(*sys.argv[1:])
