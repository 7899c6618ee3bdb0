"""What is stored in Django's database: endpoints, access tokens, alerts, and what belongs to people of the admin.

Migrations name the validators by this package.
"""

from __future__ import annotations

from endpoints.models.alerts import Alert, AlertCondition, AlertMessage, MessageKind
from endpoints.models.credentials import AccessToken, validate_origin
from endpoints.models.endpoint import (
    Endpoint,
    Parameter,
    validate_endpoint_name,
    validate_no_uuid,
    validate_page_order,
    validate_planner_settings,
)
from endpoints.models.people import Identity, SavedSearch

__all__ = [
    "AccessToken",
    "Alert",
    "AlertCondition",
    "AlertMessage",
    "Endpoint",
    "Identity",
    "MessageKind",
    "Parameter",
    "SavedSearch",
    "validate_endpoint_name",
    "validate_no_uuid",
    "validate_origin",
    "validate_page_order",
    "validate_planner_settings",
]
