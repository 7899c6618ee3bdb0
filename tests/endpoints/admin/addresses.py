"""Every address below /admin/, and which roles may look at it and act on it: one that is not here fails the tests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from django.urls import URLPattern, URLResolver, get_resolver, reverse
from django.urls.resolvers import RegexPattern

ROLES = ("viewer", "editor", "owner")
NOBODY: tuple[str, ...] = ()
OWNERS = ("owner",)
EDITORS = ("editor", "owner")
EVERYBODY = ROLES


class Access(NamedTuple):
    """Whose GET and whose POST is not refused."""

    get: tuple[str, ...]
    post: tuple[str, ...]


class ModelRules(NamedTuple):
    """Who may do what with the rows of a model, and whether their history is kept."""

    view: tuple[str, ...]
    add: tuple[str, ...]
    change: tuple[str, ...]
    delete: tuple[str, ...]
    has_history: bool = False

    def pages(self, name: str) -> Iterator[tuple[str, Access]]:
        yield f"admin:{name}_changelist", Access(self.view, self.view)
        yield f"admin:{name}_add", Access(self.add, self.add)
        yield f"admin:{name}_change", Access(self.view, self.change)
        yield f"admin:{name}_delete", Access(self.delete, self.delete)
        yield f"admin:{name}_history", Access(self.view, self.view)
        if self.has_history:
            yield f"admin:{name}_simple_history", Access(self.view, NOBODY)
        # The address of Django 1.8: leads to the page, which then refuses.
        application, model = name.split("_", 1) if not name.startswith("django_") else name.rsplit("_", 1)
        yield f"admin/{application}/{model}/<path:object_id>/", Access(EVERYBODY, EVERYBODY)


FOR_OWNERS = ModelRules(OWNERS, OWNERS, OWNERS, OWNERS)
MODELS = {
    "endpoints_endpoint": ModelRules(EVERYBODY, EDITORS, EDITORS, OWNERS, has_history=True),
    "endpoints_accesstoken": ModelRules(EVERYBODY, OWNERS, OWNERS, OWNERS, has_history=True),
    "endpoints_alert": FOR_OWNERS,
    "logsources_logsource": ModelRules(EVERYBODY, OWNERS, OWNERS, OWNERS),
    "auth_user": FOR_OWNERS,
    "auth_group": FOR_OWNERS,
    "axes_accessattempt": ModelRules(OWNERS, NOBODY, NOBODY, OWNERS),  # failed logins
    "django_celery_beat_periodictask": FOR_OWNERS,
    "django_celery_beat_intervalschedule": FOR_OWNERS,
    "django_celery_beat_crontabschedule": FOR_OWNERS,
    "django_celery_beat_clockedschedule": FOR_OWNERS,
    "django_celery_beat_solarschedule": FOR_OWNERS,
}
BOTH_EVERYBODY = Access(EVERYBODY, EVERYBODY)
ONLY_POST_OF_EDITORS = Access(NOBODY, EDITORS)
OTHERS = {
    "admin:index": BOTH_EVERYBODY,
    "admin:login": BOTH_EVERYBODY,
    "admin:logout": Access(NOBODY, EVERYBODY),
    "admin:password_change": BOTH_EVERYBODY,
    "admin:password_change_done": Access(EVERYBODY, NOBODY),
    "admin:search": BOTH_EVERYBODY,
    "admin:autocomplete": Access(NOBODY, NOBODY),  # no page uses it: without a field it is refused
    "admin:jsi18n": Access(EVERYBODY, NOBODY),
    "admin:view_on_site": BOTH_EVERYBODY,
    "admin:app_list": BOTH_EVERYBODY,
    "admin/(?P<url>.*)$": BOTH_EVERYBODY,  # nothing is there
    "admin:auth_user_password_change": Access(OWNERS, OWNERS),
    "admin:endpoints_accesstoken_revoke_this": Access(OWNERS, OWNERS),
    "admin:endpoints_alert_test_this": Access(OWNERS, OWNERS),
    "admin:endpoints_alert_new_secret": Access(OWNERS, OWNERS),
    "admin:endpoints_alert_secret": Access(OWNERS, NOBODY),
    "usage_overview": BOTH_EVERYBODY,
    "recorded_calls": BOTH_EVERYBODY,
    "admin:endpoints_accesstoken_secret": Access(OWNERS, NOBODY),
    "admin:endpoints_endpoint_import_files": Access(EDITORS, EDITORS),
    "admin:endpoints_endpoint_export_file": Access(EDITORS, EDITORS),
    "admin:endpoints_endpoint_restore": ONLY_POST_OF_EDITORS,
    "admin:endpoints_endpoint_compare": BOTH_EVERYBODY,
    "admin:endpoints_endpoint_purge": ONLY_POST_OF_EDITORS,
    "admin:endpoints_endpoint_usage": BOTH_EVERYBODY,
    "admin:endpoints_endpoint_draft_catalogue": Access(EDITORS, NOBODY),
    "admin:endpoints_endpoint_draft_latest": Access(EDITORS, NOBODY),
    "admin:endpoints_endpoint_draft_check": ONLY_POST_OF_EDITORS,
    "admin:endpoints_endpoint_draft_run": ONLY_POST_OF_EDITORS,
    "admin:endpoints_endpoint_draft_explain": ONLY_POST_OF_EDITORS,
    "admin:endpoints_endpoint_draft_cancel": ONLY_POST_OF_EDITORS,
    "admin:endpoints_endpoint_draft_format": ONLY_POST_OF_EDITORS,
    "session": Access(EVERYBODY, NOBODY),
    "schedules": BOTH_EVERYBODY,
    "log_explorer": Access(EDITORS, EDITORS),
    "log_explorer_fields": Access(EDITORS, NOBODY),
    "log_explorer_rows": ONLY_POST_OF_EDITORS,
    "log_explorer_histogram": ONLY_POST_OF_EDITORS,
    "log_explorer_filter": ONLY_POST_OF_EDITORS,
    "log_explorer_cancel": ONLY_POST_OF_EDITORS,
    "log_explorer_tail": ONLY_POST_OF_EDITORS,
    "log_explorer_values": ONLY_POST_OF_EDITORS,
    "log_explorer_severities": ONLY_POST_OF_EDITORS,
    "log_explorer_notes": ONLY_POST_OF_EDITORS,
    "log_explorer_download": ONLY_POST_OF_EDITORS,
    "log_explorer_searches": Access(EDITORS, NOBODY),
    "log_explorer_save_search": ONLY_POST_OF_EDITORS,
    "log_explorer_delete_search": ONLY_POST_OF_EDITORS,
}
RULES: Mapping[str, Access] = {**dict(page for name, rules in MODELS.items() for page in rules.pages(name)), **OTHERS}


class Pattern(NamedTuple):
    """One pattern of the URL configuration: its name or, where it has none, its route; how many arguments it takes."""

    key: str
    route: str
    arguments: int

    @property
    def is_named(self) -> bool:
        return self.key != self.route


def admin_patterns() -> list[Pattern]:
    """Return every pattern below /admin/ as it is configured now."""
    return [pattern for pattern in _walk(get_resolver().url_patterns, "", "") if pattern.route.startswith("admin/")]


def _walk(patterns: list[URLPattern | URLResolver], route: str, namespace: str) -> Iterator[Pattern]:
    for pattern in patterns:
        here = route + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            inner = f"{namespace}{pattern.namespace}:" if pattern.namespace else namespace
            yield from _walk(pattern.url_patterns, here, inner)
        else:
            is_regex = isinstance(pattern.pattern, RegexPattern)
            count = pattern.pattern.regex.groups if is_regex else len(pattern.pattern.converters)
            yield Pattern(f"{namespace}{pattern.name}" if pattern.name else here, here, count)


def address_of(pattern: Pattern, rows: Mapping[str, tuple[Any, ...]]) -> str:
    """Return an address that the pattern takes; `rows` has the key of a row, and of one of its history, by model."""
    if pattern.key == "admin:app_list":
        return reverse("admin:app_list", args=["endpoints"])
    if pattern.key == "admin:view_on_site":
        return reverse("admin:view_on_site", args=[1, 1])
    model = next((name for name in MODELS if _belongs(pattern, name)), None)
    if pattern.is_named:
        return reverse(pattern.key, args=rows[model][: pattern.arguments] if model else [])
    if model is None:
        return "/admin/nothing-is-there"
    return "/" + re.sub(r"<[^>]+>", str(rows[model][0]), pattern.route)


def _belongs(pattern: Pattern, model: str) -> bool:
    application, _, name = model.rpartition("_")
    return pattern.route.startswith(f"admin/{application}/{name}/")
