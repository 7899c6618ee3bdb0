"""Models of other applications, in the look of the other pages: users, groups, scheduled tasks."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, Permission, User
from django.http import HttpRequest
from django.utils.safestring import mark_safe
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
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from endpoints.access.admin_roles import permissions_of_roles
from endpoints.admin.fields import CheckboxList
from endpoints.models import Identity

# --- People -----------------------------------------------------------------------------------------------------------
admin.site.unregister(User)
admin.site.unregister(Group)

_ROLES_HELP = (
    "viewer reads; editor also creates, changes and tries endpoints; owner also deletes them, issues access tokens and "
    "manages log sources, schedules and people."
)
_PASSWORD_HELP = mark_safe(
    "Only its hash is stored, so nobody can see it. "
    '<a class="text-primary-600 underline dark:text-primary-500" href="../password/">Set another password</a>'
)


def _roles_field() -> forms.ModelMultipleChoiceField[Group]:
    return forms.ModelMultipleChoiceField(
        label="Roles", queryset=Group.objects.all(), required=False, widget=CheckboxList, help_text=_ROLES_HELP
    )


class PersonForm(UserChangeForm):  # type: ignore[misc]
    groups = _roles_field()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "password" in self.fields:  # missing for people who may only read
            self.fields["password"].help_text = _PASSWORD_HELP


class NewPersonForm(UserCreationForm):  # type: ignore[misc]
    groups = _roles_field()


@admin.register(User)
class PersonAdmin(UserAdmin, ModelAdmin):  # type: ignore[misc,type-arg]
    form = PersonForm
    add_form = NewPersonForm
    change_password_form = AdminPasswordChangeForm
    list_display = ("username", "email", "roles", "is_active", "is_superuser", "last_login")
    list_filter = ("groups", "is_active")
    filter_horizontal = ()
    readonly_fields = ("last_login", "date_joined", "single_sign_on")
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        ("Person", {"fields": (("first_name", "last_name"), "email")}),
        ("What they may do", {"fields": ("groups", "is_active", "is_staff", "is_superuser")}),
        ("Dates", {"fields": (("last_login", "date_joined"),)}),
    )
    add_fieldsets = ((None, {"fields": ("username", "usable_password", "password1", "password2", "groups")}),)

    def get_fieldsets(self, request: HttpRequest, obj: User | None = None) -> Any:
        fieldsets = super().get_fieldsets(request, obj)
        if obj is None or not Identity.objects.filter(user=obj).exists():
            return fieldsets
        return (*fieldsets, ("Single sign-on", {"fields": ("single_sign_on",)}))

    @admin.display(description="logs in as")
    def single_sign_on(self, person: User) -> str:
        return f"{person.identity}. The provider's groups decide on the role at each login; a password does not count."

    @admin.display(description="roles", empty_value="none")
    def roles(self, person: User) -> str | None:
        return ", ".join(sorted(group.name for group in person.groups.all())) or None

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).prefetch_related("groups")

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        if not change:
            obj.is_staff = True  # otherwise the person could not log in
        super().save_model(request, obj, form, change)

    # Permission to edit users must not lead to more: only superusers edit superusers.
    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> Any:
        fields = super().get_readonly_fields(request, obj)
        return fields if request.user.is_superuser else (*fields, "is_superuser")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may_touch(request, obj) and bool(super().has_change_permission(request, obj))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may_touch(request, obj) and bool(super().has_delete_permission(request, obj))

    def _may_touch(self, request: HttpRequest, person: Any) -> bool:
        return bool(request.user.is_superuser) or not (isinstance(person, User) and person.is_superuser)


class _PermissionsField(forms.ModelMultipleChoiceField):  # type: ignore[type-arg]  # not subscriptable at run time
    def label_from_instance(self, obj: Permission) -> str:
        return obj.name.removeprefix("Can ")


class GroupForm(forms.ModelForm):  # type: ignore[type-arg]  # not subscriptable at run time
    permissions = _PermissionsField(queryset=permissions_of_roles(), required=False, widget=CheckboxList(columns=True))

    class Meta:
        model = Group
        fields = ("name", "permissions")
        help_texts = {
            "name": "`manage.py sync_roles` and `load_fixtures` restore viewer, editor and owner: for other "
            "permissions, create a group with another name."
        }


@admin.register(Group)
class PeopleGroupAdmin(GroupAdmin, ModelAdmin):  # type: ignore[misc]
    form = GroupForm
    filter_horizontal = ()
    list_display = ("name", "members")

    @admin.display(description="members", empty_value="nobody")
    def members(self, group: Group) -> str | None:
        return ", ".join(group.user_set.values_list("username", flat=True).order_by("username")) or None


# --- Scheduling -------------------------------------------------------------------------------------------------------
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
    # Its own template contains an inline script, which the content security policy refuses.
    change_form_template = "admin/change_form.html"
    list_display = ("name", "enabled", "scheduler", "last_run_at", "one_off")
    date_hierarchy = None

    def get_actions(self, request: HttpRequest) -> Any:
        """Only people who may change tasks may enable, disable and run them; the original checks no permission."""
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
