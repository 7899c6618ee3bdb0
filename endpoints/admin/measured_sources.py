"""Shows the content of the tables on the pages of log sources: how much, from which time, how loads end, some rows."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Final

from django.contrib import admin
from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timesince import timesince
from unfold.admin import ModelAdmin

from endpoints.admin.explorer import may_explore, sees_every_project
from endpoints.admin.figures import utc
from endpoints.cache import CacheUnavailable
from endpoints.cache.usage import LoadEnd, LoadEnds, load_ends
from logsources.measures import Measure, MeasuredPartition, inspect_rows, inspect_sources
from logsources.models import LogSource, ProjectLocation

_NOT_TOLD: Final = "no answer in time"


class MeasuredAdmin(ModelAdmin):  # type: ignore[misc]
    """Adds the results of `inspection` to the list and the page of a source; nothing else there waits for them."""

    measured_columns = ("rows", "size", "oldest_row", "newest_row", "last_load")

    class Media:
        css: Final = {"all": ["endpoints/sources.css"]}

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        changelist = super().get_changelist_instance(request)
        sources = list(changelist.result_list)
        measures = inspect_sources([source.name for source in sources])
        ends = _load_ends()
        for source in sources:
            source.measure = None if measures is None else measures.get(source.name, Measure(()))
            source.ends = None if ends is None else ends.get(source.name, LoadEnds())
        changelist.result_list = sources
        return changelist

    @admin.display(description="rows")
    def rows(self, source: LogSource) -> str:
        return told_rows(_measure(source))

    @admin.display(description="size")
    def size(self, source: LogSource) -> str:
        measure = _measure(source)
        return filesizeformat(measure.bytes) if measure else _NOT_TOLD

    @admin.display(description="oldest row")
    def oldest_row(self, source: LogSource) -> str | SafeString:
        measure = _measure(source)
        return _moment(measure.oldest, "%Y-%m-%d") if measure and measure.span_known else _NOT_TOLD

    @admin.display(description="newest row (UTC)")
    def newest_row(self, source: LogSource) -> str | SafeString:
        measure = _measure(source)
        return _moment(measure.newest, "%Y-%m-%d %H:%M:%S") if measure and measure.span_known else _NOT_TOLD

    @admin.display(description="last load (UTC)")
    def last_load(self, source: LogSource) -> str | SafeString:
        ends: LoadEnds | None = getattr(source, "ends", None)
        if ends is None:
            return _NOT_TOLD
        loaded = _loaded(ends.loaded)
        if ends.failed is None or (ends.loaded is not None and ends.loaded.at >= ends.failed.at):
            return loaded
        return format_html('{} <span class="ls-failed">failed {}: {}</span>', loaded, *_failed(ends.failed))

    @admin.display(description="kept for", ordering="retention_days")
    def kept_for(self, source: LogSource) -> str:
        return kept(source)

    @admin.display(description="project in", ordering="project_location")
    def project(self, source: LogSource) -> str | SafeString:
        if source.project_location == ProjectLocation.METADATA:
            return format_html("metadata <code>{}</code>", source.project_path)
        return format_html("the row's <code>{}</code>", "project")

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        source: LogSource | None = kwargs.get("obj")
        if source is not None and source.pk:
            context["inspected"] = self._inspected(request, source)
        return super().render_change_form(request, context, *args, **kwargs)

    def _inspected(self, request: HttpRequest, source: LogSource) -> dict[str, Any]:
        measures = inspect_sources([source.name])
        measure = None if measures is None else measures.get(source.name, Measure(()))
        shows_rows = may_explore(request) and sees_every_project(request)
        # Without an answer to the first question there is no need to wait for a second one.
        rows = inspect_rows(source.name) if measure is not None and shows_rows else None
        return {
            "source": source,
            "facts": None if measure is None else [*_facts(measure), *self._settings(source)],
            "loads": _load_facts(source.name),
            "partitions": [] if measure is None else [_row(partition) for partition in reversed(measure.partitions)],
            "filled": 0 if measure is None else len(measure.filled),
            "shows_rows": shows_rows,
            "samples": None if rows is None else [_sample(row) for row in rows],
            "explorer": reverse("log_explorer") if may_explore(request) else "",
        }

    def _settings(self, source: LogSource) -> list[tuple[str, str | SafeString]]:
        return [("Rows are kept", kept(source)), ("Project is in", self.project(source))]


def told_rows(measure: Measure | None) -> str:
    """Return the approximate number of rows, in words if PostgreSQL has not counted them all."""
    if measure is None:
        return _NOT_TOLD
    if measure.rows is None:
        return "not counted yet"
    about = "" if measure.rows == 0 else "about\xa0" if measure.is_counted else "more than\xa0"
    return f"{about}{measure.rows:,}"


def _facts(measure: Measure) -> list[tuple[str, str | SafeString]]:
    unknown = "not found in time"
    return [
        ("Rows, estimated", told_rows(measure)),
        ("Size with indexes", filesizeformat(measure.bytes)),
        ("Oldest row", _moment(measure.oldest) if measure.span_known else unknown),
        ("Newest row", _moment(measure.newest) if measure.span_known else unknown),
    ]


def _load_ends() -> dict[str, LoadEnds] | None:
    try:
        return load_ends()
    except CacheUnavailable:
        return None


def _load_facts(name: str) -> list[tuple[str, str | SafeString]]:
    ends = _load_ends()
    if ends is None:
        return [("Last load", "unknown: Redis does not answer")]
    of_source = ends.get(name, LoadEnds())
    facts: list[tuple[str, str | SafeString]] = [("Last load", _loaded(of_source.loaded))]
    if of_source.failed is not None:
        failed = format_html(
            '<span class="ls-failed">{1}</span> <span class="ls-ago">{0}</span>', *_failed(of_source.failed)
        )
        facts.append(("Last load that failed", failed))
    return facts


def _loaded(end: LoadEnd | None) -> str | SafeString:
    if end is None:
        return "none noted"
    rows = f"{end.rows:,} new row{'' if end.rows == 1 else 's'}"
    return _moment(utc(end.at), "%Y-%m-%d %H:%M:%S", more=f", {rows}")


def _failed(end: LoadEnd) -> tuple[str, str]:
    """Return when and why, in words."""
    return _ago(utc(end.at)), end.failure.replace("_", " ")


def _row(partition: MeasuredPartition) -> dict[str, str]:
    return {
        "day": partition.day.isoformat() if partition.day else "all other days",
        "name": partition.name,
        "rows": "not counted yet" if partition.rows is None else f"{partition.rows:,}",
        "size": filesizeformat(partition.bytes),
    }


def kept(source: LogSource) -> str:
    """Return how long rows stay."""
    if source.retention_days is None:
        return "for ever"
    return f"{source.retention_days:,} day{'' if source.retention_days == 1 else 's'}"


def _measure(source: LogSource) -> Measure | None:
    measure: Measure | None = getattr(source, "measure", None)
    return measure


def _moment(moment: datetime | None, form: str = "%Y-%m-%d %H:%M:%S UTC", *, more: str = "") -> str | SafeString:
    if moment is None:
        return "no rows"
    text = moment.astimezone(UTC).strftime(form)
    return format_html('<span class="ls-moment">{}</span> <span class="ls-ago">{}{}</span>', text, _ago(moment), more)


def _ago(moment: datetime) -> str:
    now = datetime.now(UTC)
    passed = (now - moment).total_seconds()
    # Clocks may differ by a minute.
    if abs(passed) < 60:
        return "just now"
    if passed < 0:
        return "in the future"
    return f"{timesince(moment, now, depth=1)} ago"


def _sample(row: dict[str, Any]) -> dict[str, str]:
    return {
        "timestamp": f"{datetime.fromisoformat(row['timestamp']).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC",
        "message": row["event_message"],
        "json": json.dumps(row, indent=2, ensure_ascii=False),
    }
