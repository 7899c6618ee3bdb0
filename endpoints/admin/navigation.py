"""The sidebar of the admin: what belongs together, and for everybody only what they may see."""

from __future__ import annotations

from typing import Any, Final

from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse

# Group -> (label, application, model, icon of the Material Symbols font that comes with unfold)
_GROUPS: Final = {
    "Endpoints": [
        ("Endpoints", "endpoints", "endpoint", "database_search"),
        ("Access tokens", "endpoints", "accesstoken", "key"),
    ],
    "Logs": [
        ("Log sources", "logsources", "logsource", "storage"),
    ],
    "Scheduling": [
        ("Scheduled tasks", "django_celery_beat", "periodictask", "schedule"),
        ("Intervals", "django_celery_beat", "intervalschedule", "timer"),
        ("Crontabs", "django_celery_beat", "crontabschedule", "calendar_month"),
    ],
    "People": [
        ("Users", "auth", "user", "person"),
        ("Groups", "auth", "group", "group"),
    ],
}


def sidebar(request: HttpRequest) -> list[dict[str, Any]]:
    """Return the groups of links in the form that unfold's setting SIDEBAR asks for."""
    groups: list[dict[str, Any]] = []
    for title, links in _GROUPS.items():
        items = [
            {"title": label, "icon": icon, "link": reverse(f"admin:{application}_{model}_changelist")}
            for label, application, model, icon in links
            if _may_see(request, application, model)
        ]
        if items:
            groups.append({"title": title, "separator": bool(groups), "items": items})
    return groups


def favicon(request: HttpRequest) -> str:
    """Return the address of the icon that browsers show in their tabs."""
    return static("endpoints/favicon.svg")


def _may_see(request: HttpRequest, application: str, model: str) -> bool:
    return any(request.user.has_perm(f"{application}.{action}_{model}") for action in ("view", "change"))
