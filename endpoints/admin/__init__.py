"""The admin: endpoints, access tokens and log sources, and models of other applications in the same look."""

from __future__ import annotations

from endpoints.admin import dashboard, logins, third_party
from endpoints.admin.access_token import AccessTokenAdmin
from endpoints.admin.alerts import AlertAdmin
from endpoints.admin.endpoint import EndpointAdmin
from endpoints.admin.log_sources import LogSourceAdmin

__all__ = [
    "AccessTokenAdmin",
    "AlertAdmin",
    "EndpointAdmin",
    "LogSourceAdmin",
    "dashboard",
    "logins",
    "third_party",
]
