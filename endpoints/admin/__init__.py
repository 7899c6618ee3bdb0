"""The admin of endpoints and access tokens."""

from __future__ import annotations

from endpoints.admin.access_token import AccessTokenAdmin
from endpoints.admin.endpoint import EndpointAdmin

__all__ = ["AccessTokenAdmin", "EndpointAdmin"]
