"""What the service does, each verb once: the API, the admin, tasks and commands call these and nothing below them."""

from __future__ import annotations

from endpoints.cache import CacheUnavailable
from endpoints.services.access import (
    IssuedAccessToken,
    admit,
    authenticate_access_token,
    endpoints_out_of_reach,
    issue_access_token,
    new_access_token_secret,
    revoke_access_tokens,
)
from endpoints.services.cached_results import CacheState, Served
from endpoints.services.calls import Answer, check_log_database, find_endpoint, run_endpoint, visible_endpoints
from endpoints.services.purging import CacheReport, Purged, cache_reports, purge_cache
from endpoints.services.recipes import Call
from endpoints.services.sandbox_schemas import delete_endpoints, drop_old_sandbox_schemas
from endpoints.services.saving import check_endpoint, save_endpoint
from endpoints.services.warming import WarmRun, warm_endpoint

__all__ = [
    "Answer",
    "CacheReport",
    "CacheState",
    "CacheUnavailable",
    "Call",
    "IssuedAccessToken",
    "Purged",
    "Served",
    "WarmRun",
    "admit",
    "authenticate_access_token",
    "cache_reports",
    "check_endpoint",
    "check_log_database",
    "delete_endpoints",
    "drop_old_sandbox_schemas",
    "endpoints_out_of_reach",
    "find_endpoint",
    "issue_access_token",
    "new_access_token_secret",
    "purge_cache",
    "revoke_access_tokens",
    "run_endpoint",
    "save_endpoint",
    "visible_endpoints",
    "warm_endpoint",
]
