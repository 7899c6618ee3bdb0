"""What the service does, each verb once: the API, the admin, tasks and commands call these and nothing below them."""

from __future__ import annotations

from endpoints.services.access import (
    IssuedAccessToken,
    authenticate_access_token,
    endpoints_out_of_reach,
    issue_access_token,
    new_access_token_secret,
    revoke_access_tokens,
)
from endpoints.services.calls import Answer, Call, check_log_database, find_endpoint, run_endpoint, visible_endpoints
from endpoints.services.sandbox_schemas import delete_endpoints, drop_old_sandbox_schemas
from endpoints.services.saving import check_endpoint, save_endpoint

__all__ = [
    "Answer",
    "Call",
    "IssuedAccessToken",
    "authenticate_access_token",
    "check_endpoint",
    "check_log_database",
    "delete_endpoints",
    "drop_old_sandbox_schemas",
    "endpoints_out_of_reach",
    "find_endpoint",
    "issue_access_token",
    "new_access_token_secret",
    "revoke_access_tokens",
    "run_endpoint",
    "save_endpoint",
    "visible_endpoints",
]
