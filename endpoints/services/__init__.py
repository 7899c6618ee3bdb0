"""What the service does, each verb once: the API, the admin, tasks and commands call these and nothing below them."""

from __future__ import annotations

from endpoints.cache import CacheUnavailable
from endpoints.cache.usage import Activity
from endpoints.services.access import (
    IssuedAccessToken,
    authenticate_access_token,
    endpoints_out_of_reach,
    issue_access_token,
    new_access_token_secret,
    revoke_access_tokens,
)
from endpoints.services.cached_results import CacheState, Served
from endpoints.services.call_outcomes import (
    Using,
    call_activity,
    endpoint_use,
    note_answered_call,
    note_failed_call,
)
from endpoints.services.callers import Callers, callers_of
from endpoints.services.calls import Answer, check_log_database, find_endpoint, run_endpoint, visible_endpoints
from endpoints.services.installation import (
    Installation,
    Part,
    SourceAge,
    State,
    ago,
    look_at_installation,
    note_worker_heartbeat,
)
from endpoints.services.loading import Load, LoadedRows, LoadTarget, check_load, load_sent_rows
from endpoints.services.purging import CacheReport, Purged, cache_reports, purge_cache
from endpoints.services.recipes import Call
from endpoints.services.roles import keep_roles, permissions_of_roles
from endpoints.services.sandbox_schemas import delete_endpoints, drop_old_sandbox_schemas
from endpoints.services.saving import check_endpoint, save_endpoint
from endpoints.services.schedules import WarmingSchedule, warming_schedule
from endpoints.services.token_limits import LimitsInForce, LimitsUse, admit, limits_in_force, limits_use
from endpoints.services.transfers import (
    ImportOutcome,
    ImportResult,
    export_endpoints,
    exported_file,
    import_endpoint_files,
    import_endpoints,
)
from endpoints.services.versions import compare_versions, lines_of, restore_version
from endpoints.services.warming import WarmRun, warm_endpoint

__all__ = [
    "Activity",
    "Answer",
    "CacheReport",
    "CacheState",
    "CacheUnavailable",
    "Call",
    "Callers",
    "ImportOutcome",
    "ImportResult",
    "Installation",
    "IssuedAccessToken",
    "LimitsInForce",
    "LimitsUse",
    "Load",
    "LoadTarget",
    "LoadedRows",
    "Part",
    "Purged",
    "Served",
    "SourceAge",
    "State",
    "Using",
    "WarmRun",
    "WarmingSchedule",
    "admit",
    "ago",
    "authenticate_access_token",
    "cache_reports",
    "call_activity",
    "callers_of",
    "check_endpoint",
    "check_load",
    "check_log_database",
    "compare_versions",
    "delete_endpoints",
    "drop_old_sandbox_schemas",
    "endpoint_use",
    "endpoints_out_of_reach",
    "export_endpoints",
    "exported_file",
    "find_endpoint",
    "import_endpoint_files",
    "import_endpoints",
    "issue_access_token",
    "keep_roles",
    "limits_in_force",
    "limits_use",
    "lines_of",
    "load_sent_rows",
    "look_at_installation",
    "new_access_token_secret",
    "note_answered_call",
    "note_failed_call",
    "note_worker_heartbeat",
    "permissions_of_roles",
    "purge_cache",
    "restore_version",
    "revoke_access_tokens",
    "run_endpoint",
    "save_endpoint",
    "visible_endpoints",
    "warm_endpoint",
    "warming_schedule",
]
