"""What unfold asks the settings for: the sidebar, for everybody only what they may see, and the files of every page."""

from __future__ import annotations

from typing import Any, Final

from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse

from endpoints.admin.explorer import may_explore

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
        ("Failed logins", "axes", "accessattempt", "lock_clock"),
    ],
}


def sidebar(request: HttpRequest) -> list[dict[str, Any]]:
    """Return the groups of links in the form that unfold's setting SIDEBAR asks for."""
    dashboard = {"title": "Dashboard", "icon": "monitoring", "link": reverse("admin:index")}
    groups: list[dict[str, Any]] = [{"title": "", "items": [dashboard]}]
    for title, links in _GROUPS.items():
        items = [
            {"title": label, "icon": icon, "link": reverse(f"admin:{application}_{model}_changelist")}
            for label, application, model, icon in links
            if _may_see(request, application, model)
        ]
        if title == "Logs" and may_explore(request):
            items.append({"title": "Log explorer", "icon": "manage_search", "link": reverse("log_explorer")})
        if items:
            groups.append({"title": title, "separator": bool(groups), "items": items})
    return groups


def favicon(request: HttpRequest) -> str:
    """Return the address of the icon that browsers show in their tabs."""
    return static("endpoints/favicon.svg")


def no_inline_colors(request: HttpRequest) -> dict[str, dict[str, str]]:
    """Return no colours: they come from `theme_styles`."""
    return {}


def theme_styles(request: HttpRequest) -> str:
    return static("endpoints/theme.css")


def strict_scripts(request: HttpRequest) -> str:
    return static("endpoints/strict-styles.js")


def _may_see(request: HttpRequest, application: str, model: str) -> bool:
    return any(request.user.has_perm(f"{application}.{action}_{model}") for action in ("view", "change"))
