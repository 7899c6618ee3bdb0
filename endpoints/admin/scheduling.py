"""Scheduled tasks and their schedules, in the look of the other pages."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django_celery_beat.admin import (
    ClockedScheduleAdmin,
    CrontabScheduleAdmin,
    PeriodicTaskAdmin,
    PeriodicTaskForm,
    PeriodicTaskInline,
    TaskSelectWidget,
)
from django_celery_beat.models import (
    ClockedSchedule,
    CrontabSchedule,
    IntervalSchedule,
    PeriodicTask,
    SolarSchedule,
)
from unfold.admin import ModelAdmin, TabularInline
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

for model in (PeriodicTask, IntervalSchedule, CrontabSchedule, ClockedSchedule, SolarSchedule):
    admin.site.unregister(model)


class TaskSelect(UnfoldAdminSelectWidget, TaskSelectWidget):  # type: ignore[misc]
    pass


class ScheduledTaskForm(PeriodicTaskForm):  # type: ignore[misc]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["task"].widget = UnfoldAdminTextInputWidget()
        self.fields["regtask"].widget = TaskSelect()


@admin.register(PeriodicTask)
class ScheduledTaskAdmin(PeriodicTaskAdmin, ModelAdmin):  # type: ignore[misc]
    form = ScheduledTaskForm
    # Its own holds a script in the page, which the content security policy refuses.
    change_form_template = "admin/change_form.html"
    list_display = ("name", "enabled", "scheduler", "last_run_at", "one_off")
    date_hierarchy = None

    def get_actions(self, request: HttpRequest) -> Any:
        """Enabling, disabling and running tasks is for who may change them; by itself it asks for no permission."""
        return super().get_actions(request) if self.has_change_permission(request) else {}


class TaskInline(PeriodicTaskInline, TabularInline):  # type: ignore[misc]
    pass


@admin.register(IntervalSchedule, SolarSchedule)
class ScheduleAdmin(ModelAdmin):  # type: ignore[misc]
    inlines = (TaskInline,)


@admin.register(CrontabSchedule)
class CrontabAdmin(CrontabScheduleAdmin, ModelAdmin):  # type: ignore[misc]
    inlines = (TaskInline,)


@admin.register(ClockedSchedule)
class ClockedAdmin(ClockedScheduleAdmin, ModelAdmin):  # type: ignore[misc]
    inlines = (TaskInline,)
