"""The admin: endpoints and access tokens, and what other applications brought, in one look."""

from __future__ import annotations

from endpoints.admin import dashboard, logins, third_party
from endpoints.admin.access_token import AccessTokenAdmin
from endpoints.admin.endpoint import EndpointAdmin

__all__ = ["AccessTokenAdmin", "EndpointAdmin", "dashboard", "logins", "third_party"]
