"""Scheduled tasks and their schedules, in the look of the other pages."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
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
